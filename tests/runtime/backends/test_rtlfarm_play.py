"""What a chunk's simulation does as the host did, what of it counts, and which registers are compared."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu.backends.base import LaterCounters
from echo_npu.backends.rtlfarm import play
from echo_npu.backends.rtlfarm.chunk import Deviation, RunChunk
from echo_npu.backends.rtlfarm.play import ChunkPlay, DeviationError
from echo_npu.backends.rtlfarm.runner import ChunkRunner
from echo_npu.backends.rtlmodel import Options
from echo_npu.commands.builders import load_program_command
from echo_npu.commands.command import Command
from echo_npu.commands.packets import PACKET_BYTES, Flags, NpuCommandPacket, Opcode
from echo_npu.commands.vector_command import Stream
from echo_npu.driver.status import KnownCounters
from echo_npu.errors import NpuBusError, NpuDeviceError, RtlMismatchError
from echo_npu.model.memory import DeviceMemory
from echo_npu.register_ops import WriteReg
from echo_npu.spec import registers as regs
from echo_npu.spec.status import State
from echo_npu.vector.assembler import assemble
from tests.runtime.backends.farm_work import Work, farm_of
from tests.runtime.backends.model_simulation import CONFIG, ModelSimulation, opened, simulations

__all__ = ["simulations"]

ONES = np.ones(50, np.float32)
_BAD = NpuCommandPacket(0x77)


def _chunks_of(work: Work) -> list[RunChunk]:
    """Return the chunks of some work, each as short as can be."""
    chunks: list[RunChunk] = []
    with opened(jobs=1, chunk_cycles=1) as device:
        farm = farm_of(device)
        submit = farm._recorder._submit
        farm._recorder._submit = lambda chunk: (chunks.append(chunk), submit(chunk))[1]
        work(device)
    return chunks


def _failing(device: echo_npu.Device) -> None:
    """Come into state ERROR, be looked at there, and leave it."""
    device.add(ONES, ONES)
    x = device.tensor(ONES)
    for _ in range(2):
        with contextlib.suppress(NpuDeviceError):
            device.execute([echo_npu.nop_packet(), _BAD, echo_npu.nop_packet()])
        device.counters()
        device.memcpy(x, 2 * ONES, 4)
        device.counters_later().wait()
        device.clear_counters()
        device.counters()
        device.clear_error()
        device.add(x, x)


@pytest.mark.parametrize("look", ["counters", "counters_later"])
def test_a_device_in_error_is_looked_at_in_any_chunk(look: str, simulations: type[ModelSimulation]) -> None:
    """What brought it there runs again in the next chunk, and counts once."""

    def work(device: echo_npu.Device) -> list[dict[str, int]]:
        found: list[LaterCounters] = []
        for _ in range(2):
            device.add(ONES, ONES)
            with pytest.raises(NpuDeviceError):
                device.execute([echo_npu.nop_packet(), _BAD])
            for clears in (False, True, False):
                device.memcpy(0x100, ONES, 200)
                if look == "counters":
                    found.append(KnownCounters(device.counters()))
                else:
                    found.append(device.counters_later())
                    if not clears:
                        device.counters()
                if clears:
                    device.clear_counters()
            device.clear_error()
        device.wait()
        return [*(each.wait() for each in found), device.counters()]

    with echo_npu.Device(ModelSimulation(CONFIG, Options())) as device:
        wanted = work(device)
    with opened(jobs=1, chunk_cycles=1) as device:
        found = work(device)
    # One simulation takes cycles to read counters that a farm gives later.
    for name in ("commands", "busy_cycles", "cycles")[: 3 if look == "counters" else 2]:
        assert [each[name] for each in found] == [each[name] for each in wanted], name


def test_counters_at_marks_are_those_of_one_run(simulations: type[ModelSimulation]) -> None:
    """To read them takes time, which is not in the cycles that follow: nobody reads them in one run."""

    def work(device: echo_npu.Device, *, marks: bool) -> tuple[list[dict[str, int]], dict[str, int]]:
        later = []
        for number in range(9):
            device.add(ONES, ONES)
            if marks and number % 3 == 1:
                later.append(device.counters_later())
            if number == 5:
                device.clear_counters()
        device.wait()
        return [each.wait() for each in later], device.counters()

    runs = []
    for cycles in (1, 300, 100_000):
        with opened(jobs=1, chunk_cycles=cycles) as device:
            runs.append(work(device, marks=True))
            whole = farm_of(device).cycles
        with opened(jobs=1, chunk_cycles=cycles) as device:
            assert work(device, marks=False) == ([], runs[-1][1])
            assert farm_of(device).cycles == whole
    for marks, last in runs:
        assert [each["commands"] for each in marks] == [2, 5, 2]
        assert last["commands"] == 3
        for name in ("cycles", "busy_cycles"):
            assert [each[name] for each in marks] == [each[name] for each in runs[0][0]]
            assert last[name] == runs[0][1][name]


def _adds(device: echo_npu.Device, flags: int = 0) -> NpuCommandPacket:
    x = device.tensor(np.ones(1600, np.float32))
    return NpuCommandPacket(
        Opcode.ADD_TENSOR, flags, src1_addr=x.ptr, src2_addr=x.ptr, dst_addr=x.ptr, m=1, k=1600, n=1
    )


def test_an_interrupt_that_stays_high_hides_no_device_that_hangs(
    simulations: type[ModelSimulation], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A model stands still while nobody waits for it."""
    monkeypatch.setattr(play, "_TURNS", 50)
    device = opened(jobs=1, failures=tmp_path)
    add = _adds(device, Flags.IRQ)
    device.backend.run([WriteReg(regs.IRQ_ENABLE, 7)])
    device.submit_batch([add] * 9)
    with pytest.raises(RtlMismatchError, match="the device is BUSY and makes no progress"):
        device.wait()
    device.close()


def test_a_command_that_fails_around_a_cut_fails_in_its_chunk(simulations: type[ModelSimulation]) -> None:
    with opened(jobs=1, chunk_cycles=2000, ring_slots=512) as device:
        add = _adds(device)
        for position in range(0, 60, 2):
            device.submit_batch([*[add] * position, _BAD, *[add] * 300])
            with pytest.raises(NpuDeviceError):
                device.wait()
            device.clear_error()
        device.wait()
        assert farm_of(device).info()["farm"]["chunks"] > 30


def test_a_host_that_reads_counters_of_a_busy_device_need_not_wait(
    simulations: type[ModelSimulation],
) -> None:
    """The model comes to rest by being read, the RTL later."""
    device = opened(jobs=1)
    device.add(ONES, ONES)
    device.wait()
    before = device.counters()["commands"]
    device.submit_batch([echo_npu.nop_packet()] * 5)
    for _ in range(2):
        found = device.counters()["commands"]
    assert found == before + 5
    device.submit_batch([echo_npu.nop_packet()] * 5)
    device.counters()
    device.close()
    assert farm_of(device).info()["farm"]["chunks"] > 2


@pytest.mark.parametrize(
    ("name", "state"),
    [
        *((name, State.DONE) for name in ("STATUS", "ERROR_CODE", "RETIRED", "RING_HEAD")),
        *((name, State.ERROR) for name in ("STATUS", "ERROR_CODE", "ERROR_INDEX", "ERROR_ADDR")),
        *((name, State.ERROR) for name in ("RETIRED", "RING_HEAD")),
    ],
)
def test_every_register_at_the_end_is_compared(
    name: str, state: State, simulations: type[ModelSimulation], monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = _chunks_of(_failing)
    chunk = next(each for each in chunks if each.last.state == state and each.commands)
    read = ModelSimulation._read
    checks = ChunkPlay._check_registers
    checking: list[bool] = []

    def wrong(self: ModelSimulation, offset: int) -> int:
        value = read(self, offset)
        bit = regs.STATUS_STATE.put(1) if name == "STATUS" else 1
        return value ^ bit if checking and offset == getattr(regs, name) else value

    def check(self: ChunkPlay) -> None:
        checking.append(True)
        checks(self)

    runner = ChunkRunner(CONFIG, Options())
    assert runner.run(chunk).deviation is None
    monkeypatch.setattr(ModelSimulation, "_read", wrong)
    monkeypatch.setattr(ChunkPlay, "_check_registers", check)
    deviation = runner.run(chunk).deviation
    runner.close()
    assert deviation is not None
    if (name, state) == ("STATUS", State.DONE):  # another bit makes an error of it
        assert "the device stopped with NONE" in deviation.what
        assert deviation.done == chunk.commands
    else:
        assert f"{name}{'.state' if name == 'STATUS' else ''} is " in deviation.what
        assert "of the functional model" in deviation.what


def test_an_access_that_only_the_rtl_takes_is_a_difference(
    simulations: type[ModelSimulation], monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(device: echo_npu.Device) -> None:
        device.add(ONES, ONES)
        with pytest.raises(NpuBusError):
            device.backend.run([WriteReg(regs.STATUS, 1)])
        device.wait()

    chunks = _chunks_of(work)
    chunk = next(each for each in chunks if any(getattr(action, "refused", False) for action in each.actions))
    runner = ChunkRunner(CONFIG, Options())
    assert runner.run(chunk).deviation is None
    run = ModelSimulation.run

    def tolerant(self: ModelSimulation, ops: Any) -> list[int]:
        try:
            return run(self, ops)
        except NpuBusError:
            return [0] * len(ops)

    monkeypatch.setattr(ModelSimulation, "run", tolerant)
    deviation = runner.run(chunk).deviation
    runner.close()
    assert deviation is not None
    assert deviation.what == "the device took a register access"


def test_a_device_that_stops_names_its_command(simulations: type[ModelSimulation]) -> None:
    """By its number in the chunk, whatever came before the chunk."""

    def work(device: echo_npu.Device) -> None:
        x = device.tensor(ONES)
        copy = NpuCommandPacket(Opcode.MEMCPY, src1_addr=x.ptr, dst_addr=x.ptr + 64, m=1, k=4, n=1)
        for _ in range(4):
            device.submit_batch([copy] * 6)
            device.wait()

    chunk = [each for each in _chunks_of(work) if each.commands == 6][2]
    assert chunk.state.retired > 6
    base, head = chunk.state.ring[0], chunk.state.head
    seen: list[Command] = []

    def harm(command: Command, memory: DeviceMemory) -> None:
        if command.packet.opcode == Opcode.MEMCPY:
            seen.append(command)
            if len(seen) == 3:
                memory.bytes[base + (head + 4) * PACKET_BYTES] = 0x77

    simulations.harm = harm
    runner = ChunkRunner(CONFIG, Options())
    deviation = runner.run(chunk).deviation
    runner.close()
    assert deviation is not None
    assert "BAD_OPCODE" in deviation.what
    assert deviation.done == 4
    assert (base + head * PACKET_BYTES) // 4096 in deviation.pages


def test_nothing_runs_on_the_simulation_of_a_chunk_that_differed(simulations: type[ModelSimulation]) -> None:
    """Nobody knows what state it is in. What memory shows is kept beside what registers show."""

    def wrong(_command: Command, memory: DeviceMemory) -> None:
        memory.bytes[5] = 1

    chunk = next(each for each in _chunks_of(lambda device: device.add(ONES, ONES)) if each.commands)
    simulations.harm = wrong
    simulations.made.clear()
    runner = ChunkRunner(CONFIG, Options())
    for before in range(2):
        result = runner.run(chunk)
        assert result.deviation is not None
        assert result.deviation.pages.keys() == {0}
        assert [each.closed for each in simulations.made] == [True] * before + [False]

    def stops(_chunk: RunChunk, run: ChunkPlay) -> None:
        run.play()
        raise DeviationError("it stops", 3)

    runner._play = stops  # type: ignore[method-assign]
    deviation = runner.run(chunk).deviation
    runner.close()
    assert deviation is not None
    assert (deviation.what, deviation.done) == ("it stops", 3)
    assert deviation.pages.keys() == {0}


def _guarded(device: echo_npu.Device) -> None:
    """Leave registers with which nothing else could run."""
    device.add(ONES, ONES)
    device.backend.run([WriteReg(regs.WATCHDOG, 1)])
    device.wait()


def _half_a_window(device: echo_npu.Device) -> None:
    """Write a packet into the window, and ring for it later."""
    x = device.tensor(np.arange(50, dtype=np.float32))
    device.wait()
    words = np.frombuffer(
        NpuCommandPacket(Opcode.MEMCPY, src1_addr=x.ptr, dst_addr=x.ptr + 64, m=1, k=4, n=1).pack(), "<u4"
    )
    device.backend.run([WriteReg(regs.CMD_WINDOW + 4 * at, int(word)) for at, word in enumerate(words)])
    device.counters()
    device.backend.run([WriteReg(regs.DOORBELL, 1)])
    device.wait()


def _rewritten(device: echo_npu.Device) -> None:
    """Load other programs to the same place of program memory."""
    text = ".name plus_{0}\n.stream x s0\nloop: chunks\n    add o, x, {0}.0\nnext loop, x\n    end\n"
    first, *others = (assemble(text.format(term)) for term in range(1, 4))
    x, out, code = device.tensor(ONES[:4]), device.empty((4,)), device.malloc(4096)

    def run() -> list[float]:
        device.vector(first, rows=1, cols=4, inputs=[Stream(x.ptr)], output=Stream(out.ptr))
        device.wait()
        return list(out.to_numpy())

    assert run() == [2] * 4
    device.counters()
    entry = next(at for at, name in farm_of(device)._recorder.names.items() if name == "plus_1")
    for add, program in enumerate(others, 3):
        device.memcpy(code, program.code, len(program.code))
        device.submit_batch(load_program_command(code, len(program.code) // 8, entry).slots)
        device.wait()
        assert run() == [add] * 4
        device.counters()
        assert farm_of(device)._recorder.names.get(entry) is None


@pytest.mark.parametrize("work", [_guarded, _half_a_window, _rewritten, _failing])
@pytest.mark.parametrize("order", ["forth", "back"])
def test_a_simulation_knows_nothing_of_the_chunk_before(
    work: Callable[[echo_npu.Device], None], order: str, simulations: type[ModelSimulation]
) -> None:
    chunks = _chunks_of(work)
    assert len(chunks) > 1
    runner = ChunkRunner(CONFIG, Options())
    found: list[Deviation | None] = [
        runner.run(chunk).deviation for _ in range(2) for chunk in chunks[:: 1 if order == "forth" else -1]
    ]
    runner.close()
    assert found == [None] * len(found)
