"""The assertion that ended a simulation, in the words of Verilator."""

import pytest

from tb.mutation.broken_rules import broken_rule

STABLE = "AXI4LITE_ERRM_AWVALID_STABLE: the host: VALID must stay high until READY"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (f"[260000] %Error: x.sv:53: Assertion failed in tb.rules.aw.VALID_STABLE: {STABLE}\n", STABLE),
        ("%Error: x.sv:42: Assertion failed: a full queue\n%Error: x.sv:9: Verilog $stop\n", "a full queue"),
        (
            "[1] %Error: a.sv:1: Assertion failed in a.X: first\n[2] %Error: b.sv:2: Assertion failed: z\n",
            "first",
        ),
    ],
)
def test_the_sentence_of_the_first(text: str, rule: str) -> None:
    assert broken_rule(f"running a test\n{text}the simulation ended") == f"broken rule: {rule}"


@pytest.mark.parametrize("text", ["", "%Error: x.sv:9: Verilog $stop", "AssertionError: 1 is not 2"])
def test_none(text: str) -> None:
    assert broken_rule(text) == ""
