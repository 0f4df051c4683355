"""Programs are determined by their seed, legal, and unchanged by saving and loading."""

import random
from pathlib import Path
from typing import get_args

import pytest

from echo_npu.commands.packets import NpuCommandPacket, Opcode
from echo_npu.spec.status import State
from echo_sim.config import load_config
from tb.stimulus.programs import ProgramMaker
from tb.stimulus.steps import CommandStep, Step, StepProgram
from tb.uvm.sequences import SEQUENCES
from tests.tb.stimulus.test_errors import outcome

CONFIG = load_config("small")


@pytest.mark.parametrize("name", SEQUENCES)
def test_saved_programs_are_the_same(name: str, tmp_path: Path) -> None:
    sequence = SEQUENCES[name]("test")
    drawn = sequence.program(5, CONFIG)
    assert drawn == sequence.program(5, CONFIG)
    assert drawn != sequence.program(6, CONFIG)
    drawn.save(tmp_path / "program.json", note="for a reader")
    assert StepProgram.load(tmp_path / "program.json") == drawn


def test_sequences_reach_everything() -> None:
    """A few programs have every opcode, interrupts, and every kind of step."""
    drawn = [SEQUENCES["mixed"]("test").program(seed, CONFIG) for seed in range(200)]
    steps = [step for program in drawn for step in program.steps]
    assert {type(step) for step in steps} == {*get_args(Step)}
    packets = [NpuCommandPacket.unpack(step.packets[0]) for step in steps if isinstance(step, CommandStep)]
    assert {packet.opcode for packet in packets} >= set(Opcode)
    assert {program.via for program in drawn} == {"window", "ring"}


@pytest.mark.parametrize("seed", range(5))
def test_commands_are_legal(seed: int) -> None:
    """The functional model executes every command."""
    maker = ProgramMaker(random.Random(seed), CONFIG)
    packets = [packet for command in maker.loads() for packet in command]
    for _ in range(30):
        packets += maker.draw([*maker.kinds, maker.vector_case], irq=0.2)
    assert outcome(maker.images, packets)[0] == State.DONE
