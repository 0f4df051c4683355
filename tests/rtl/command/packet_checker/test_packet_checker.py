"""packet_checker, natively: packets of any magnitude, thousands a second, compared with the model's
checks."""

import dataclasses
import random
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from echo_npu.spec.memory_map import DEFAULT_MAP, MemoryMap
from echo_sim.build import build
from echo_sim.designs import Design
from echo_sim.numerals import choose_seed
from tb.blocks import block_design
from tb.repository import ROOT
from tests.rtl.command.large import MEMORY, OPTIONS
from tests.rtl.command.packet_checker.columns import columns
from tests.rtl.command.packet_checker.coverage import PacketAnswers
from tests.rtl.command.packet_checker.edges import guard_edges, overlap_edges, pairs
from tests.rtl.command.packet_checker.oracle import ANSWER_WORDS, CASE_WORDS, ERROR, expected
from tests.rtl.command.packet_checker.packets import draw

HERE = "tests/rtl/command/packet_checker"
COUNT = 40_000
TIMEOUT_S = 300.0


def design(
    checker: Path | str = "rtl/command/packet_checker.sv", suffix: str = "", memory: tuple[str, ...] = ()
) -> Design:
    """Return the testbench around the checker, with its own main program; `memory` are options for its
    size."""
    block = block_design(
        "packet_checker_tb",
        ("rtl/npu_pkg.sv", "rtl/vector/vector_pkg.sv", checker, f"{HERE}/packet_checker_tb.sv"),
        public=False,
        # It does not use all of the packages.
        verilator_args=("-Wno-UNUSEDPARAM", "-Wno-UNUSEDSIGNAL", *memory),
    )
    main = ROOT / HERE / "packet_checker_main.cpp"
    return dataclasses.replace(block, name=f"{block.name}{suffix}", main=main, cocotb=False)


def check(block: Design, cases: list[list[int]], folder: Path, memory: MemoryMap = DEFAULT_MAP) -> str:
    """Play packets; describe the first wrong answer, empty if there is none."""
    np.array(cases, dtype="<u4").tofile(folder / "cases")
    program = build(block, quiet=True) / block.top
    subprocess.run([program, folder / "cases", folder / "answers"], check=True, timeout=TIMEOUT_S)
    answers = np.fromfile(folder / "answers", dtype="<u4").reshape(-1, ANSWER_WORDS).tolist()
    assert len(answers) == len(cases)
    assert len(cases[0]) == CASE_WORDS
    for number, (case, answer) in enumerate(zip(cases, answers, strict=True)):
        wanted = expected(case, memory)
        wrong = [place for place, value in wanted.items() if answer[place] != value]
        if wrong:
            place = wrong[0]
            words = " ".join(f"{word:08x}" for word in case)
            return (
                f"packet {number}: word {place} of the answer is 0x{answer[place]:x}, it must be"
                f" 0x{wanted[place]:x}; error {answer[0]}, address 0x{answer[2] << 32 | answer[1]:x}\n{words}"
            )
    return ""


def random_cases(seed: int, count: int, memory: MemoryMap = DEFAULT_MAP) -> list[list[int]]:
    """Draw packets of any magnitude."""
    rng = random.Random(seed)
    return [draw(rng, memory) for _ in range(count)]


@pytest.mark.parametrize("memory", [DEFAULT_MAP, MEMORY], ids=["below 4 GiB", "above 4 GiB"])
def test_packet_checker(memory: MemoryMap, tmp_path: Path) -> None:
    """Random and extreme packets of all opcodes: code, address, extents and engine commands are compared.
    Every answer that an opcode's packets can have occurs."""
    seed = choose_seed()
    cases = random_cases(seed, COUNT, memory)
    block = design(suffix="-large", memory=OPTIONS) if memory.is_large else design()
    wrong = check(block, cases, tmp_path, memory)
    assert not wrong, f"seed {seed}, {wrong}"
    answers = PacketAnswers()
    for case in cases:
        answers.note(case, expected(case, memory)[ERROR])
    answers.check()


@pytest.mark.parametrize("edges", [pairs, guard_edges, overlap_edges, columns])
def test_edges(edges: Callable[[random.Random], Iterable[list[int]]], tmp_path: Path) -> None:
    """Two rules broken at once (the first error wins), ranges that just meet or just do not, columns."""
    seed = choose_seed()
    cases = list(edges(random.Random(seed)))
    wrong = check(design(), cases, tmp_path)
    assert not wrong, f"seed {seed}, {wrong}"


@pytest.mark.parametrize(
    ("line", "broken", "memory"),
    [
        (
            "length << (2'd2 - current_stream.size);",
            "64'(52'(length << (2'd2 - current_stream.size)));",
            DEFAULT_MAP,
        ),
        ("64'(table_rows) > MaxTable || ", "", DEFAULT_MAP),
        ("products + 64'(current.seg_bytes);", "64'(40'(products)) + 64'(current.seg_bytes);", DEFAULT_MAP),
        ("extents_q[Dst].last >= guard_base_i", "32'(extents_q[Dst].last) >= 32'(guard_base_i)", MEMORY),
    ],
)
def test_a_cut_width_is_found(line: str, broken: str, memory: MemoryMap, tmp_path: Path) -> None:
    """The comparison can fail: random packets find a width that some packet overflows."""
    text = (ROOT / "rtl/command/packet_checker.sv").read_text()
    assert text.count(line) == 1
    source = tmp_path / "packet_checker.sv"
    source.write_text(text.replace(line, broken))
    block = design(source, "-broken", OPTIONS if memory.is_large else ())
    assert check(block, random_cases(1, COUNT, memory), tmp_path, memory)
