"""One pin opens every clock gate, for a scan test; every gate is open in reset; mutants break each enable."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tb.mutation.operators import matching
from tb.mutation.tree import sources
from tb.repository import ROOT

RTL = ROOT / "rtl"
TOP = "npu_top.sv"
SOURCE = "assign clocks_open = test_enable || ClockGating == 0;"
"""Where the test enable of all gates comes from, in TOP."""

INSTANCE = re.compile(r"\bclock_gate +(\w+) *\((.*?)\);", re.DOTALL)
PIN = re.compile(r"\.test_enable_i\b *(?:\(([^)]*)\))?")
ENABLE = re.compile(r"\.enable_i\b *\((.*?)\),? *(?://.*)?$", re.MULTILINE)
RESET = re.compile(r"!rst_ni?\b")
NOT_RESET = {"u_start_gate"}
"""Gates of registers that no reset sets."""
CAMPAIGN = re.compile(r"python -m tb mutate --config lockstep-small --where '(.*)'")
"""How docs/verification.md breaks what wakes or holds a unit."""


def strays(name: str, text: str) -> list[str]:
    """Return what in a file of rtl/ takes its test enable from another place; empty if nothing does.

    Args:
        name: of the file. In TOP it comes from SOURCE, in all others from the port test_enable_i.
        text: what it holds.
    """
    expected = "clocks_open" if name == TOP else None
    found = [f"{gate}: no test enable" for gate, pins in INSTANCE.findall(text) if not PIN.search(pins)]
    pins = [match[1] for match in PIN.finditer(text)]
    return found + [f"{pin}: another test enable" for pin in pins if pin != expected]


@pytest.mark.parametrize("path", sorted(RTL.rglob("*.sv")), ids=lambda path: path.stem)
def test_the_test_enable_comes_from_one_place(path: Path) -> None:
    assert not strays(path.name, path.read_text(encoding="utf-8"))


def test_that_place_is_a_pin_of_the_device() -> None:
    assert (RTL / TOP).read_text(encoding="utf-8").count(SOURCE) == 1
    gates = [path.stem for path in RTL.rglob("*.sv") if INSTANCE.search(path.read_text(encoding="utf-8"))]
    assert {"npu_top", "matrix_engine", "vector_engine", "memory_controller", "register_block"} == set(gates)


def test_the_documented_campaign_breaks_every_enable() -> None:
    """Each term of each gate's enable has its mutant."""
    text = (ROOT / "docs" / "verification.md").read_text(encoding="utf-8")
    (pattern,) = CAMPAIGN.findall(text)
    broken = Counter(mutant.original for mutant in matching(sources(), pattern))
    enables = [
        enable
        for path in sources()
        for _, pins in INSTANCE.findall(path.read_text(encoding="utf-8"))
        for enable in ENABLE.findall(pins)
    ]
    assert len(enables) > 10
    for enable in enables:
        terms = len(enable.split(" || "))
        assert terms == 1 or broken[enable] >= terms, f"no mutant breaks {enable}"


def open_in_reset(enable: str, text: str) -> bool:
    """Return whether an enable is high in reset: it says so, or what `text` assigns to a name in it does."""
    seen: set[str] = set()
    terms = [enable]
    while terms:
        term = terms.pop()
        if RESET.search(term):
            return True
        for name in set(re.findall(r"\w+", term)) - seen:
            seen.add(name)
            terms += re.findall(rf"\bassign {name}\s*=([^;]*);", text)
    return False


@pytest.mark.parametrize("path", sorted(RTL.rglob("*.sv")), ids=lambda path: path.stem)
def test_every_gate_is_open_in_reset(path: Path) -> None:
    """So no register depends on the state that it powers up with."""
    text = path.read_text(encoding="utf-8")
    for gate, pins in INSTANCE.findall(text):
        (enable,) = ENABLE.findall(pins)
        assert open_in_reset(enable, text) != (gate in NOT_RESET), gate


@pytest.mark.parametrize(
    ("enable", "is_open"),
    [
        ("start_i || !rst_ni", True),
        ("stops", True),
        ("held", True),
        ("start_i || busy", False),
        ("start_i", False),
    ],
)
def test_a_gate_that_rests_in_reset_is_found(enable: str, is_open: bool) -> None:
    text = "assign stops = abort_i || !rst_ni; assign held = stops || busy; assign busy = busy_q;"
    assert open_in_reset(enable, text) == is_open


@pytest.mark.parametrize(
    ("name", "pins", "stray"),
    [
        ("block.sv", ".clk_i, .enable_i, .test_enable_i, .clk_o", None),
        ("block.sv", ".clk_i, .enable_i, .clk_o", "u_gate: no test enable"),
        ("block.sv", ".clk_i, .test_enable_i(1'b0), .clk_o", "1'b0: another test enable"),
        (TOP, ".clk_i(clk), .test_enable_i(clocks_open), .clk_o", None),
        (TOP, ".clk_i(clk), .test_enable_i(test_enable), .clk_o", "test_enable: another test enable"),
    ],
)
def test_a_stray_is_found(name: str, pins: str, stray: str | None) -> None:
    assert strays(name, f"  clock_gate u_gate ({pins});\n") == ([stray] if stray else [])
