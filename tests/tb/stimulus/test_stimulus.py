"""Programs are determined by their seed, legal, and unchanged by saving and loading."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest

from echo_npu.commands.command import as_commands
from echo_npu.commands.packets import NpuCommandPacket, Opcode, Packet
from echo_npu.spec.data_types import Blocks
from echo_npu.spec.status import State
from echo_sim.config import load_config
from tb.stimulus.hazards import MEETINGS, HazardMaker, Meeting
from tb.stimulus.magnitude import LargeMaker
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


@pytest.mark.parametrize("config", ["small", "default"])
@pytest.mark.parametrize("seed", range(5))
def test_commands_are_legal(seed: int, config: str) -> None:
    """The functional model executes every command."""
    hardware = load_config(config)
    maker = ProgramMaker(random.Random(seed), hardware)
    packets = [packet for command in maker.loads() for packet in command]
    for _ in range(30):
        packets += maker.draw([*maker.kinds, maker.vector_case], irq=0.2)
    assert outcome(maker.images, packets, hardware)[0] == State.DONE


def drawn_blocks(slots: Sequence[Packet]) -> set[Blocks]:
    """Return the block formats of the products among these packets."""
    found = [command.packet for command in as_commands(slots)]
    return {packet.blocks for packet in found if packet.opcode == Opcode.MATMUL}


@pytest.mark.parametrize("config", ["small", "default", "random-7"])
def test_weights_in_blocks_are_drawn_where_the_device_has_them(config: str) -> None:
    """In every format, by random programs, hazards and large commands; elsewhere in none."""
    hardware, rng = load_config(config), random.Random(1)
    programs, large = ProgramMaker(rng, hardware), LargeMaker(rng, hardware)
    hazards = HazardMaker(rng, hardware)
    pairs: list[Packet] = []
    for _ in range(40):
        pairs += hazards.pair(Meeting("memcpy", "dst", "matmul", "src2"))
        hazards.forget()
    drawn = {
        "programs": [packet for _ in range(150) for packet in programs.draw([programs.matmul])],
        "hazards": pairs,
        "large": [packet for _ in range(100) for packet in large.long("matmul", "n", 40)],
    }
    wanted = {*Blocks} if hardware.has_blocks else {Blocks.NONE}
    assert {name: drawn_blocks(slots) for name, slots in drawn.items()} == dict.fromkeys(drawn, wanted)


@pytest.mark.parametrize("config", ["small", "default"])
def test_pairs_of_commands_are_legal(config: str) -> None:
    """The functional model executes every pair, and large commands."""
    hardware, rng = load_config(config), random.Random(2)
    hazards, large = HazardMaker(rng, hardware), LargeMaker(rng, hardware)
    for meeting in rng.sample(MEETINGS, 12):
        slots = [*hazards.loads(), *hazards.pair(meeting)]
        assert outcome(hazards.images, slots, hardware)[0] == State.DONE
        hazards.forget()
    long = [packet for _ in range(20) for packet in large.long("matmul", rng.choice("mkn"), 70)]
    assert outcome(large.images, long, hardware)[0] == State.DONE
