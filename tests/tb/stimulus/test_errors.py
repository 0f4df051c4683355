"""Failing commands: each fails as drawn."""

import contextlib
import random
from collections.abc import Iterable, Mapping

import numpy as np
import pytest

from echo_npu.commands.builders import load_program_packets
from echo_npu.commands.packets import Packet, packet_bytes
from echo_npu.model.functional import FunctionalModel
from echo_npu.model.memory import DeviceMemory
from echo_npu.spec import registers as regs
from echo_npu.spec.status import ErrorCode, State
from echo_sim.config import NpuConfig, load_config
from tb.stimulus.errors import CHECKED, ErrorMaker, without_extension
from tb.stimulus.programs import ProgramMaker

CONFIG = load_config("small")


def maker(seed: int, config: NpuConfig = CONFIG) -> tuple[ProgramMaker, ErrorMaker]:
    rng = random.Random(seed)
    legal = ProgramMaker(rng, config)
    return legal, ErrorMaker(rng, legal, config)


def outcome(
    images: Mapping[int, bytes], packets: Iterable[Packet], config: NpuConfig = CONFIG
) -> tuple[State, ErrorCode]:
    """Return the functional model after these commands, with these images in memory."""
    with contextlib.closing(DeviceMemory()) as memory:
        model = FunctionalModel(config, memory)
        for address, data in images.items():
            memory.bytes[address : address + len(data)] = np.frombuffer(data, dtype=np.uint8)
        for packet in packets:
            for at, word in enumerate(np.frombuffer(packet_bytes(packet), "<u4")):
                model.write_reg(regs.CMD_WINDOW + 4 * at, int(word))
            model.write_reg(regs.DOORBELL, 1)
            model.read_reg(regs.STATUS)
        return State(model.state), ErrorCode(model.read_reg(regs.ERROR_CODE))


def reported(legal: ProgramMaker, packets: list[Packet], config: NpuConfig = CONFIG) -> ErrorCode:
    """Return the error of these commands, with all of program memory loaded."""
    zeros = load_program_packets(0x0300_0000, config.program_words, 0)
    state, code = outcome(legal.images, [*zeros, *packets], config)
    assert state == State.ERROR
    return code


@pytest.mark.parametrize("config", ["small", "default"])
@pytest.mark.parametrize("code", CHECKED)
def test_refused_commands(code: ErrorCode, config: str) -> None:
    """Each code has different commands, and the functional model refuses each with that code."""
    hardware = load_config(config)
    legal, errors = maker(5, hardware)
    drawn = [errors.refused(code) for _ in range(4)]
    assert len({packet_bytes(packets[0]) for packets in drawn}) == 4
    for packets in drawn:
        assert reported(legal, packets, hardware) == code


def test_commands_that_fail_while_they_run() -> None:
    legal, errors = maker(6)
    assert reported(legal, errors.bad_program()) == ErrorCode.BAD_PROGRAM
    assert reported(legal, errors.bad_index()) == ErrorCode.BAD_INDEX
    for _ in range(20):
        scatter = [packet for load in legal.loads() for packet in load] + list(errors.bad_scatter())
        assert reported(legal, scatter) == ErrorCode.BAD_INDEX


def test_without_extension() -> None:
    legal, _ = maker(7)
    vector = legal.draw([legal.vector])
    assert without_extension(vector) == vector[:-1]
    copy = legal.draw([legal.copy])
    assert without_extension(copy) == copy
