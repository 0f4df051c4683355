"""Every hand-written file of the RTL keeps the habits that CONTRIBUTING.md lists."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tb.blocks import configurations
from tb.repository import ROOT

RTL = ROOT / "rtl"
LICENCE = "SPDX-License-Identifier: Apache-2.0"
GENERATED = ("npu_regs.sv", "npu_regs_pkg.sv", "npu_contract.svh", "vector_contract.svh")
FILES = sorted(path for path in RTL.rglob("*.*") if path.is_file() and path.name not in GENERATED)

PARAMETER = re.compile(r"^ +parameter [^\n]*$", re.MULTILINE)
STRUCT = re.compile(r"typedef struct packed \{([^}]*)\} (\w+);")
FIELD = re.compile(r"^ *(\w+)(?: *\[[^\]]*\])* +(\w+);", re.MULTILINE)
UNUSED = re.compile(r"unused\w* *= *&\{(.*?)\};", re.DOTALL)
OFFERED = re.compile(r"^ +output +logic +(\w*valid_o)\b", re.MULTILINE)
ASSERTION = re.compile(r"`NPU_(?:ASSERT|CHECK)\w*\((?:[^`]*?)\)\n", re.DOTALL)


Structs = Mapping[str, Mapping[str, str]]
"""The types of the fields of each struct."""


def struct_types() -> Structs:
    """Return all structs that the RTL declares."""
    return {
        name: {field: kind for kind, field in FIELD.findall(body)}
        for path in RTL.rglob("*.sv*")
        for body, name in STRUCT.findall(path.read_text("utf-8"))
    }


def whole_struct(signal: str, text: str, structs: Structs) -> str | None:
    """Return the struct whose whole value `signal` is, a name with those of fields behind dots; None if it is
    none."""
    first, *fields = signal.split(".")
    kind = re.search(rf"\b(\w+)(?: +\[[^\]]*\])? +(?:\w+, )*{first}\b", text)
    found = kind[1] if kind else ""
    for field in fields:
        found = structs.get(found, {}).get(field, "")
    return found if found in structs else None


def faults(name: str, text: str, structs: Structs) -> list[str]:
    """Return how the file `name` with this text breaks the habits; empty if it does not.

    Args:
        name: its last suffix says which habits are asked of it.
        text: what it holds.
        structs: those of which no whole value may stand among the unused.
    """
    found = []
    lines = text.splitlines()
    if LICENCE not in lines[0]:
        found.append("line 1 does not name the licence")
    if not name.endswith(".sv"):
        return found
    if lines[1] != "`default_nettype none":
        found.append("line 2 is not `default_nettype none")
    found += [f"no comment: {line.strip()}" for line in PARAMETER.findall(text) if " // " not in line]
    for listed in UNUSED.findall(text):
        for signal in re.findall(r"(?<![\w.'])[a-z][\w.]*(?=\s*(?:,|$))", listed):
            if kind := whole_struct(signal, text, structs):
                found.append(f"a whole {kind} is unused: {signal}")
    asserted = "".join(ASSERTION.findall(text))
    for port in OFFERED.findall(text):
        partners = "|".join(port.replace("valid", each)[:-1] for each in ("ready", "next", "take"))
        if not re.search(rf"^ +input +logic +(?:{partners})i\b", text, re.MULTILINE):
            continue  # no handshake: taken at once
        connected = re.search(rf"\.\w+ *\({port}\b|^ +\.{port}\b", text, re.MULTILINE)
        if not connected and not re.search(rf"\b{port}\b", asserted):
            found.append(f"no assertion of the handshake, and no module inside that has it: {port}")
    return found


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.suffix == ".sv" and not path.name.endswith("_pkg.sv")],
    ids=lambda path: path.stem,
)
def test_the_module_has_a_testbench(path: Path) -> None:
    """A reader finds the tests of rtl/<block>/<module>.sv in tests/rtl/<block>/<module>."""
    folder = ROOT / "tests" / "rtl" / path.relative_to(RTL).with_suffix("")
    testbench = folder / f"cocotb_{path.stem}.py"
    runs = testbench.exists() and configurations(testbench)
    assert runs or (folder / f"test_{path.stem}.py").exists() or path.stem == "npu_top"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(RTL)))
def test_the_file_keeps_the_habits(path: Path) -> None:
    assert not faults(path.name, path.read_text("utf-8"), struct_types())


GOOD = f"""// {LICENCE}
`default_nettype none

module example #(
    parameter int unsigned Width = 8  // bits, at least 1
) (
    input  logic             clk_i,
    input  logic             valid_i,
    output logic             ready_o,
    input  logic [Width-1:0] data_i,
    input  pair_t            pair_i,
    output logic             valid_o,
    input  logic             ready_i,
    output logic             left_valid_o,
    input  logic             left_ready_i
);
  inner u_inner (
      .clk_i,
      .valid_o,
      .ready_i
  );
  logic unused;
  assign unused = &{{1'b0, pair_i.left, pair_i.right[3:0]}};
  `NPU_ASSERT_HANDSHAKE(LeftHolds, left_valid_o, left_ready_i, data_i, "an element changed")
endmodule
"""


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        (LICENCE, "No licence", "line 1 does not name the licence"),
        ("`default_nettype none\n", "", "line 2 is not `default_nettype none"),
        ("  // bits, at least 1", "", "no comment: parameter int unsigned Width = 8"),
        ("pair_i.left, pair_i.right[3:0]", "pair_i.left, pair_i", "a whole pair_t is unused: pair_i"),
        ("pair_i.right[3:0]", "pair_i.nested", "a whole inner_t is unused: pair_i.nested"),
        ("LeftHolds, left_valid_o", "LeftHolds, other_o", "no assertion of the handshake.*: left_valid_o"),
        ("      .valid_o,\n", "", "no assertion of the handshake.*: valid_o"),
    ],
)
def test_a_broken_habit_is_found(right: str, wrong: str, fault: str) -> None:
    structs = {"pair_t": {"left": "logic", "right": "logic", "nested": "inner_t"}, "inner_t": {}}
    assert not faults("example.sv", GOOD, structs)
    assert GOOD.count(right) == 1
    (found,) = faults("example.sv", GOOD.replace(right, wrong), structs)
    assert re.fullmatch(fault, found)
