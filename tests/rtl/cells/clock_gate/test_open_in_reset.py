"""Every clock gate of the RTL is open in reset: no register depends on the state it powers up with."""

import re

from tb.repository import ROOT

INSTANCE = re.compile(r"clock_gate\s+(\w+)\s*\((.*?)\);", re.DOTALL)
ENABLE = re.compile(r"\.enable_i\s*\((.*)\)\s*,[^.]*\.test_enable_i", re.DOTALL)
NOT_RESET = {"matrix_engine.sv: u_start_gate"}
"""Gates of registers that no reset sets."""
RESET = re.compile(r"!\s*rst_ni?\b")


def asks_for_reset(enable: str, text: str) -> bool:
    """Return whether an enable is high in reset: it says so, or a signal does that is assigned for it."""
    if RESET.search(enable):
        return True
    named = set(re.findall(r"\w+", enable))
    assigned = [found for name in named for found in re.findall(rf"assign {name}\s*=([^;]*);", text)]
    return any(asks_for_reset(found, text) for found in assigned)


def test_every_gate_is_open_in_reset() -> None:
    gates = 0
    for path in sorted((ROOT / "rtl").rglob("*.sv")):
        text = path.read_text("utf-8")
        for name, ports in INSTANCE.findall(text):
            enable = ENABLE.search(ports)
            assert enable is not None, f"{path.name}: {name} has no enable"
            gate = f"{path.name}: {name}"
            assert asks_for_reset(enable[1], text) != (gate in NOT_RESET), f"{gate} in reset"
            gates += 1
    assert gates > 10


def test_a_gate_that_rests_in_reset_is_found() -> None:
    text = "assign stops = abort_i || !rst_ni; assign busy = count_q != '0;"
    assert asks_for_reset("start_i || !rst_ni", text)
    assert asks_for_reset("start_i || stops", text)
    assert asks_for_reset("held", f"{text} assign held = stops || left_q != '0;")
    assert not asks_for_reset("start_i || busy", text)
