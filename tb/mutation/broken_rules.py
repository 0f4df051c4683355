"""Find the assertion that ended a simulation in what the simulator printed."""

import re

_FAILED = re.compile(r"%Error: (?:\S+:\d+: )?Assertion failed(?: in [^\s:]+)?: (.+)")


def broken_rule(text: str) -> str:
    """Return the sentence of the first failed assertion in a simulator's output; empty if there is none.

    cocotb says only that the simulation ended.
    """
    found = _FAILED.search(text)
    return f"broken rule: {found[1].strip()}" if found else ""
