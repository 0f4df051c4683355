"""Run command_processor with native surroundings and a model."""

import dataclasses
import os
import subprocess

import pytest

from echo_sim.build import build
from echo_sim.designs import Design
from echo_sim.numerals import choose_seed
from echo_sim.places import BOARD
from tb.blocks import block_design, run_block, sources_of
from tb.repository import ROOT
from tests.rtl.command.large import OPTIONS

pytestmark = pytest.mark.sim

HERE = "tests/rtl/command/command_processor"
CLOCKS = 4_500_000


def design(*memory: str) -> Design:
    """Return the testbench, which is a program without cocotb; `memory` are options for its size."""
    block = block_design(
        "command_processor_tb",
        sources_of(f"{HERE}/command_processor_tb.sv"),
        cpp=(f"{HERE}/command_processor_check.cpp",),
        includes=("rtl",),
        public=False,
        verilator_args=("-Wno-UNUSEDSIGNAL", "-Wno-UNUSEDPARAM", "-CFLAGS", f"-I{BOARD}", *memory),
    )
    name = f"{block.name}-large" if memory else block.name
    return dataclasses.replace(block, name=name, main=ROOT / "tests" / "sim" / "clock.cpp", cocotb=False)


@pytest.mark.parametrize("memory", [(), OPTIONS], ids=["below 4 GiB", "around a multiple of 4 GiB"])
def test_command_processor(memory: tuple[str, ...]) -> None:
    """Random traffic in which any two events meet in one clock: no command is lost, and no error goes to
    another command."""
    block = design(*memory)
    program = build(block) / block.top
    seed = choose_seed()
    done = subprocess.run(
        [str(program), "+verilator+rand+reset+2", f"+verilator+seed+{seed % 0x7FFFFFFF + 1}"],
        env={**os.environ, "COMMAND_PROCESSOR_SEED": str(seed), "COMMAND_PROCESSOR_CLOCKS": str(CLOCKS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"seed {seed}\n{done.stdout[-3000:]}"


def alone(queue_depth: int, *verilator_args: str) -> Design:
    """Return the module without surroundings. Each depth has a simulator of its own."""
    return block_design(
        "command_processor",
        sources_of("rtl/command/command_processor.sv"),
        parameters={"QueueDepth": queue_depth},
        verilator_args=("-Wno-UNUSEDPARAM", *verilator_args),
    )


def test_the_watchdog_counts_on() -> None:
    """Limits beyond what a simulation reaches."""
    run_block(alone(16), "tests.rtl.command.command_processor.cocotb_age")


def test_errors_above_4_gib() -> None:
    """Every bit of the address where a command failed, with the most memory that a device can have."""
    run_block(alone(32, *OPTIONS), "tests.rtl.command.command_processor.cocotb_error_address")


def test_numbers_of_commands() -> None:
    """Counts beyond what a simulation reaches."""
    run_block(alone(16), "tests.rtl.command.command_processor.cocotb_numbers")


def test_rings_above_4_gib() -> None:
    """Where a ring may lie, and that it stays there, with the most memory that a device can have."""
    run_block(alone(32, *OPTIONS), "tests.rtl.command.command_processor.cocotb_ring_places")
