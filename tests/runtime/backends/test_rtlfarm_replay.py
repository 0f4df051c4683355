"""A chunk alone: what it did in its run, it does again."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echo_npu.backends.rtlfarm.chunk import RunChunk
from echo_npu.backends.rtlfarm.replay import replay_chunk
from echo_npu.commands.command import Command
from echo_npu.commands.packets import Opcode
from echo_npu.errors import RtlMismatchError, SimulatorError
from echo_npu.model.memory import DeviceMemory
from tests.runtime.backends.model_simulation import ModelSimulation, opened, simulations

__all__ = ["simulations"]

ONES = np.ones(50, np.float32)


def _wrong_sum(command: Command, memory: DeviceMemory) -> None:
    if command.packet.opcode == Opcode.ADD_TENSOR:
        memory.bytes[command.packet.src1_addr] ^= 0x10


def _failure(folder: Path, **options: Any) -> RtlMismatchError:
    device = opened(jobs=1, chunk_cycles=1, failures=folder, **options)

    def sums() -> None:
        for _ in range(3):
            device.softmax(ONES.reshape(5, 10))
            device.add(ONES, ONES)
        device.wait()

    with pytest.raises(RtlMismatchError) as caught:
        sums()
    device.close()
    return caught.value


def test_a_chunk_alone_differs_where_it_did_in_its_run(
    simulations: type[ModelSimulation], tmp_path: Path
) -> None:
    simulations.harm = _wrong_sum
    error = _failure(tmp_path)
    assert error.file is not None
    alone = replay_chunk(error.file)
    assert alone.blame is not None
    assert "ADD_TENSOR" in error.command
    assert (alone.chunk, alone.blame.address, alone.blame.command) == (
        error.chunk,
        error.address,
        error.command,
    )
    (number,) = re.findall(r"command (\d+) of the chunk", error.command)
    chunk = RunChunk.load(error.file)
    assert int(number) == chunk.commands - 1
    wrong, right = alone.blame.rtl, alone.blame.model
    assert wrong == right ^ 0x10
    assert f"first at 0x{error.address:08x}: 0x{wrong:02x}, model 0x{right:02x}" in str(alone)
    assert f"first at 0x{error.address:08x}: 0x{wrong:02x}, model 0x{right:02x}" in str(error)
    facts = alone.to_dict()
    assert facts == {
        "chunk": error.chunk, "commands": chunk.commands, "cycles": alone.cycles, "differs": True,
        "what": alone.what, "address": error.address, "command": error.command, "waves": None,
    }  # fmt: skip
    simulations.harm = None  # as if the RTL had been corrected
    corrected = replay_chunk(error.file, waves=True)
    assert not corrected.differs
    assert simulations.made[-1].options.waves == error.file.stem
    assert simulations.made[-2].options.waves is False
    # Preparation is no part of the cycles.
    assert corrected.cycles == alone.cycles < simulations.made[-1]._clock
    assert "equal to the functional model" in str(corrected)


def test_the_first_result_that_differs_is_named_with_its_program(
    simulations: type[ModelSimulation], tmp_path: Path
) -> None:
    """Of several commands that wrote an address, the last; of several that differ, the first."""

    def harm(command: Command, memory: DeviceMemory) -> None:
        if command.packet.opcode == Opcode.MATMUL:
            memory.bytes[targets[1].ptr] ^= 0x10

    device = opened(jobs=1, failures=tmp_path)
    x = device.tensor(ONES[:16].reshape(4, 4))
    targets = [device.empty((4, 4)) for _ in range(3)]
    device.wait()
    device.counters()
    simulations.harm = harm
    device.add(x, x, out=targets[1])
    device.silu(x, out=targets[0])
    device.silu(x, out=targets[1])
    device.matmul(x, x, out=targets[2])
    with pytest.raises(RtlMismatchError) as caught:
        device.close()
    assert caught.value.address == targets[1].ptr
    assert re.search(r"command [1-9] of the chunk, VECTOR.*silu", caught.value.command), caught.value.command
    assert f"0x{targets[1].ptr:x}" in caught.value.command


def test_a_chunk_alone_meets_the_stalls_of_its_run(
    simulations: type[ModelSimulation], tmp_path: Path
) -> None:
    """Stalls are drawn anew for each chunk, from its seed: they depend on nothing that ran before."""
    simulations.harm = _wrong_sum
    error = _failure(tmp_path, stalls=0.5, seed=77, latency=3)
    assert error.file is not None
    run = simulations.made[0].timing[-1]  # behind the chunk that differs, another simulation takes its place
    seeds = [timing["seed"] for each in simulations.made for timing in each.timing[1:]]
    assert len(seeds) == len(set(seeds)) > 1
    replay_chunk(error.file)
    alone = simulations.made[-1].timing[-1]
    assert alone == run
    assert (alone["stall_r"], alone["read_latency"]) == (0.5, 3)


def test_an_assertion_that_ended_the_simulation_is_a_difference_alone_too(
    simulations: type[ModelSimulation], tmp_path: Path
) -> None:
    def ends(command: Command, _memory: DeviceMemory) -> None:
        if command.packet.opcode == Opcode.ADD_TENSOR:
            raise SimulatorError("it ended", exit_status=1, log_tail="[7] %Error: x.sv:3: sums are wrong")

    simulations.harm = ends
    error = _failure(tmp_path)
    assert "sums are wrong" in str(error)
    assert error.file is not None
    alone = replay_chunk(error.file)
    assert alone.differs
    assert "sums are wrong" in alone.what

    def dies(_command: Command, _memory: DeviceMemory) -> None:
        raise SimulatorError("it was killed", exit_status=-9)

    simulations.harm = dies
    with pytest.raises(SimulatorError, match="it was killed"):
        replay_chunk(error.file)
    assert all(each.closed for each in simulations.made)
