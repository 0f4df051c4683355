"""Verification has an entry for every opcode of the contract; a failure names the file that lacks one."""

import random
import subprocess
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from echo_npu.commands.builders import memcpy_packets
from echo_npu.commands.command import as_commands
from echo_npu.commands.packets import OPCODES, Opcode
from echo_sim.config import load_config
from echo_sim.places import BOARD
from tb.checking import accepted, loaded_programs
from tb.functional import samples
from tb.functional.plan import OPCODE_LABELS
from tb.repository import ROOT
from tb.scoreboards import accuracy
from tb.stimulus.closing import ClosingMaker
from tb.stimulus.programs import ProgramMaker
from tb.testbench import DEFAULT_TIMING
from tb.uvm.sequences import ALL_KINDS

SMALL = load_config("small")
DRAWS = 400
BENCH = ROOT / "tests/rtl/command/command_processor/command_processor_check.cpp"
"""Draws commands in C++, so the compiler says what it lacks."""


def names(opcodes: set[int]) -> set[str]:
    return {Opcode(opcode).name for opcode in opcodes}


def test_the_accuracy_scoreboard_knows_every_opcode_that_writes_memory() -> None:
    writers = {opcode for opcode, facts in OPCODES.items() if "dst" in facts.operands}
    known = {*accuracy.EXACT, *accuracy.BOUNDED, *accuracy.UNSTATED}
    assert names(known) == names(writers), "EXACT, BOUNDED and UNSTATED in tb/scoreboards/accuracy.py"


def test_every_opcode_is_sampled() -> None:
    assert names(set(samples.SAMPLED)) == names(set(OPCODES)), "SAMPLED in tb/functional/samples.py"


@pytest.mark.parametrize("opcode", OPCODES, ids=lambda opcode: Opcode(opcode).name)
def test_directed_stimulus_makes_every_opcode(opcode: Opcode) -> None:
    *_, last = ClosingMaker(random.Random(7), SMALL).command(OPCODE_LABELS[opcode])
    assert as_commands(last)[0].packet.opcode == opcode


@pytest.mark.parametrize("place", ["tb/stimulus/programs.py", "tb/uvm/sequences.py"])
def test_random_programs_have_every_opcode(place: str) -> None:
    maker = ProgramMaker(random.Random(7), SMALL)
    maker.loads()
    kinds = maker.kinds if "stimulus" in place else [getattr(maker, kind) for kind in ALL_KINDS]
    drawn = {as_commands(maker.draw(kinds))[0].packet.opcode for _ in range(DRAWS)}
    assert names(set(OPCODES) - drawn) == set(), f"{place} never draws them"


@pytest.mark.parametrize(
    ("code", "complaint"), [(0x70, "kOpcodeFill"), (0x55, "the contract has this opcode"), (None, "")]
)
def test_the_bench_of_the_command_processor_names_an_opcode_that_it_does_not_draw(
    code: int | None, complaint: str, tmp_path: Path
) -> None:
    text = (BOARD / "contract.hpp").read_text(encoding="utf-8")
    if code is not None:
        text = text.replace("enum Opcode : uint32_t {", f"enum Opcode : uint32_t {{ kOpcodeFill = {code},")
        text = text.replace("kOpcodes[] = {", "kOpcodes[] = { kOpcodeFill,")
    (tmp_path / "contract.hpp").write_text(text, encoding="utf-8")
    (tmp_path / "svdpi.h").write_text("typedef unsigned svBitVecVal;\n", encoding="utf-8")
    command = ["g++", "-std=c++17", "-fsyntax-only", f"-I{tmp_path}", str(BENCH)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (code is None), done.stderr
    assert complaint in done.stderr


def test_an_opcode_without_an_entry_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    command = accepted(
        as_commands(memcpy_packets(0x100, 0x200, 64))[0], loaded_programs(SMALL.program_words), blocks=True
    )
    assert command is not None
    monkeypatch.setattr(accuracy, "EXACT", MappingProxyType({}))
    with pytest.raises(NotImplementedError, match=r"accuracy\.py has no true result of MEMCPY"):
        accuracy.Expectation(command, np.zeros(1024, np.uint8))
    monkeypatch.setattr(samples, "SAMPLED", MappingProxyType({}))
    with pytest.raises(NotImplementedError, match=r"samples\.py does not say how to sample MEMCPY"):
        list(samples.command_samples([command], SMALL, DEFAULT_TIMING))
    with pytest.raises(NotImplementedError, match=r"closing\.py makes no command of the kind 'fill'"):
        ClosingMaker(random.Random(7), SMALL).command("fill")


def test_only_the_contract_says_which_engine_executes_an_opcode() -> None:
    on_matrix = {opcode for opcode, facts in OPCODES.items() if facts.engine == "matrix"}
    for opcode in OPCODES:
        packet = as_commands([bytes([opcode, *[0] * 63])])[0].packet
        assert packet.on_matrix == (opcode in on_matrix)
