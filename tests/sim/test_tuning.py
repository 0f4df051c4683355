"""A simulator is compiled for what it ran, and does the same."""

import os
import subprocess
from pathlib import Path

import pytest

from echo_sim import build as builder
from echo_sim.build import PROFILE_VARIABLE, TUNED, BuildError, build, build_directory
from echo_sim.compilers import Compiler
from echo_sim.designs import Design
from echo_sim.tuning import tune
from tests.refusals import refuses

SOURCE = """
module top (input logic clk_i, output logic [31:0] sum_o);
  always_ff @(posedge clk_i) sum_o <= sum_o[0] ? sum_o + 32'd3 : sum_o * 32'd5 + 32'd1;
endmodule
"""
MAIN = """
#include <cstdio>
#include "Vtop.h"
#include "verilated.h"
int main(int argc, char** argv) {
    VerilatedContext context;
    context.commandArgs(argc, argv);
    Vtop top{&context};
    for (int cycle = 0; cycle < 2000; cycle++) {
        top.clk_i = cycle & 1;
        top.eval();
    }
    printf("%u\\n", top.sum_o);
}
"""


@pytest.fixture
def design(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Design:
    monkeypatch.setattr(builder, "SIM_BUILD", tmp_path / "builds")
    monkeypatch.delenv(builder.COVERAGE_VARIABLE, raising=False)
    monkeypatch.delenv(PROFILE_VARIABLE, raising=False)
    source, main = tmp_path / "top.sv", tmp_path / "main.cpp"
    source.write_text(SOURCE)
    main.write_text(MAIN)
    return Design("tiny", "top", (source,), main=main, cocotb=False)


def printed(design: Design) -> str:
    """Return what the simulator prints that `build` gives now."""
    program = build(design, quiet=True) / design.top
    return subprocess.run(
        [program, "+verilator+rand+reset+0"], check=True, capture_output=True, text=True
    ).stdout


def program(design: Design) -> bytes:
    return (build_directory(design) / design.top).read_bytes()


def is_tuned(design: Design) -> bool:
    return (build_directory(design) / TUNED).exists()


def test_a_tuned_simulator_does_the_same_until_a_source_changes(
    design: Design, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "g++")
    expected = printed(design)
    plain = program(design)
    assert not is_tuned(design)
    ran: list[str] = []
    tune(design, lambda: ran.append(printed(design)), quiet=True)
    assert ran == [expected]
    assert is_tuned(design)
    assert program(design) != plain
    tuned = program(design)
    assert printed(design) == expected
    assert program(design) == tuned, "it is up to date, so it is not built again"
    assert not build_directory(design, "profile").exists()
    assert not list(build_directory(design).glob("*.gcda"))
    (source,) = design.sources
    source.write_text(SOURCE.replace("32'd3", "32'd7"))
    assert printed(design) != expected
    assert not is_tuned(design)


@pytest.fixture
def built(design: Design, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Builds that `tune` asked for, none of which is made: whether each was to count."""
    asked: list[str] = []

    def ask(*_: object, **__: object) -> None:
        asked.append(os.environ.get(PROFILE_VARIABLE, ""))

    monkeypatch.setattr("echo_sim.tuning.build", ask)
    monkeypatch.setattr("echo_sim.tuning.find_compiler", lambda: Compiler(("g++",), "g++ 12"))
    return asked


def test_a_workload_that_runs_nothing_is_refused(design: Design, built: list[str]) -> None:
    refuses(BuildError, "no simulator of tiny ran to its end", lambda: tune(design, lambda: None, quiet=True))
    assert built == ["1"]


def test_a_workload_that_fails_leaves_the_simulator(design: Design, built: list[str]) -> None:
    def fail() -> None:
        raise RuntimeError("the workload")

    refuses(RuntimeError, "the workload", lambda: tune(design, fail, quiet=True))
    assert built == ["1"]
    assert PROFILE_VARIABLE not in os.environ


def test_another_compiler_is_refused(
    design: Design, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clang = Compiler(("clang++",), "clang version 19", 19)
    monkeypatch.setattr("echo_sim.tuning.find_compiler", lambda: clang)
    refuses(BuildError, "only g\\+\\+ tunes", lambda: tune(design, lambda: None, quiet=True))
    assert built == []
