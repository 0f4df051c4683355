"""The automatic proof of equivalence: what it proves, and above all what it must not."""

import itertools
import operator as operators
import os
import random
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import pytest

from echo_sim.places import RTL
from tb.mutation.equivalence import prover
from tb.mutation.equivalence.cells import word_of
from tb.mutation.equivalence.circuit import Modules
from tb.mutation.equivalence.gates import FALSE, TRUE, Gates
from tb.mutation.equivalence.netlists import read
from tb.mutation.equivalence.questions import CircuitPair
from tb.mutation.equivalence.runs import RandomRuns
from tb.mutation.equivalence.solver import SolverError, TimeLimit, constant_output, never
from tb.mutation.schemata import Edit
from tb.mutation.syntax import RtlSource
from tb.repository import ROOT
from tests.refusals import refuses

SECONDS = 120.0
PORTS = "input logic clk_i, rst_ni, en_i, input logic [7:0] a_i, b_i, output logic [7:0] y_o"
COUNTER = """
  logic [7:0] count_q;
  always_ff @(posedge clk_i)
    if (!rst_ni) count_q <= '0;
    else if (en_i) count_q <= (count_q == 8'd37) ? '0 : count_q + 8'd1;
"""
MEMORY = """
  logic [7:0] store_q [16];
  always_ff @(posedge clk_i) if (en_i) store_q[{0}] <= {1};
  assign y_o = store_q[{2}];
"""
# The phases are 0 to 3, and 4 is never reached.
PHASES = """
  logic [7:0] phase_q, phase_d;
  always_comb begin
    phase_d = phase_q;
    if (phase_q == {}) phase_d = 8'd99;
    else if (en_i) phase_d = (phase_q == 8'd3) ? 8'd0 : phase_q + 8'd1;
  end
  always_ff @(posedge clk_i) phase_q <= rst_ni ? phase_d : 8'd0;
"""
NOISE = """
  logic [11:0] total_q, other_q;
  always_ff @(posedge clk_i)
    if (!rst_ni) begin total_q <= '0; other_q <= '0; end
    else begin
      total_q <= total_q + {{4'd0, a_i ^ phase_d}};
      other_q <= other_q + total_q;
    end
"""
# Data that is read only behind a bit that says so.
VALID = """
  logic valid_q, later_q, begun_q; logic [7:0] data_q;
  always_ff @(posedge clk_i) begin
    valid_q <= rst_ni && en_i;
    later_q <= rst_ni && valid_q;
    begun_q <= rst_ni;
    if ({}) data_q <= a_i * b_i;
  end
  assign y_o = {} ? data_q * data_q + b_i : 8'd0;
"""
# Name: what both have, the original's and the mutant's text.
EQUIVALENT: Mapping[str, tuple[str, str, str]] = {
    "text": ("assign y_o = {};", "a_i + b_i", "b_i + a_i"),
    "carry": ("assign y_o = {};", "a_i - b_i", "a_i + ~b_i + 8'd1"),
    "every_state": (
        "logic [7:0] q; always_ff @(posedge clk_i) q <= a_i; assign y_o = {};",
        "(q <= b_i) ? q : b_i",
        "(q < b_i) ? q : b_i",
    ),
    "reached": (COUNTER + "assign y_o = 8'(count_q {});", "== 8'd37", ">= 8'd37"),
    "unread": (
        "logic [7:0] q; logic v; always_ff @(posedge clk_i) begin v <= rst_ni && en_i; q <= {}; end"
        " assign y_o = v ? q : 8'd0;",
        "a_i",
        "en_i ? a_i : b_i",
    ),
    "address": (
        MEMORY.format("a_i[3:0]", "b_i", "{}"),
        "{{a_i[7:6], 2'd0}} | {{2'd0, b_i[1:0]}}",
        "{{a_i[7:6], 2'd0}} ^ {{2'd0, b_i[1:0]}}",
    ),
    "masked": (MEMORY.format("a_i[3:0]", "{}", "b_i[3:0]"), "b_i", "en_i ? b_i : a_i"),
    "phase": (PHASES + NOISE + "assign y_o = total_q[7:0] ^ phase_q;", "8'd4", "8'd77"),
    "valid": (VALID.format("{}", "valid_q"), "en_i", "1'b1"),
}
# One step from an equivalent: what makes it one is missing.
DIFFERENT: Mapping[str, tuple[str, str, str]] = {
    "plain": ("assign y_o = {};", "a_i + b_i", "a_i - b_i"),
    "one_case": ("assign y_o = {};", "a_i", "(a_i == 8'h5a && b_i == 8'ha5) ? 8'd0 : a_i"),
    # Beyond any run of the simulation that looks for differences.
    "deep": (
        """logic [7:0] count_q;
  always_ff @(posedge clk_i)
    if (!rst_ni) count_q <= '0;
    else if (en_i) count_q <= count_q + 8'd1;
  assign y_o = 8'(count_q {});""",
        "== 8'd255",
        "== 8'd255 && a_i != 8'd3",
    ),
    "no_reset": (
        "logic [7:0] q; assign y_o = q;"
        " always_ff @(posedge clk_i) if (!rst_ni) q <= {}; else if (en_i) q <= a_i;",
        "'0",
        "q",
    ),
    # Seen only if the register begins with one value of 256.
    "odd_start": (
        "logic [7:0] q; logic bad_q; always_ff @(posedge clk_i) begin"
        " if (!rst_ni) bad_q <= {}; else if (en_i) bad_q <= 1'b0; end"
        " always_ff @(posedge clk_i) if (rst_ni) q <= a_i; assign y_o = 8'(bad_q);",
        "1'b0",
        "q == 8'h5a",
    ),
    "late": (
        "logic [7:0] q; always_ff @(posedge clk_i) q <= a_i; {} assign y_o = v;",
        "logic [7:0] v; assign v = q;",
        "logic [7:0] v; always_ff @(posedge clk_i) v <= q;",
    ),
    "undefined": ("assign y_o = {};", "a_i", "(a_i == 8'd200) ? 8'hxx : a_i"),
    "index": ("assign y_o = 8'({}[b_i[3:0]]);", "a_i", "{{a_i[6:0], a_i[7]}}"),
    "write": (MEMORY.format("{}", "b_i", "b_i[3:0]"), "a_i[3:0]", "a_i[3:0] ^ 4'(a_i == 8'd9)"),
    "read": (MEMORY.format("a_i[3:0]", "b_i", "{}"), "b_i[3:0]", "b_i[3:0] ^ 4'(a_i == 8'd9)"),
    "history": (
        """logic [3:0] at_q; logic [7:0] store_q [16];
  always_ff @(posedge clk_i) begin
    at_q <= {};
    if (en_i) store_q[a_i[3:0]] <= b_i;
  end
  assign y_o = store_q[at_q];""",
        "a_i[7:4]",
        "b_i[7:4]",
    ),
    "gate": (
        """logic gated; logic [7:0] q;
  clock_gate u_gate (.clk_i, .enable_i({}), .test_enable_i(1'b0), .clk_o(gated));
  always_ff @(posedge gated) q <= a_i;
  assign y_o = q;""",
        "en_i || !rst_ni",
        "en_i || !rst_ni || a_i == 8'd7",
    ),
    "reached_phase": (PHASES + NOISE + "assign y_o = total_q[7:0] ^ phase_q;", "8'd3", "8'd77"),
    "valid_later": (VALID.format("{}", "(valid_q || later_q)"), "en_i", "1'b1"),
    "valid_at_first": (VALID.format("{}", "(valid_q || !begun_q)"), "en_i", "1'b1"),
    "box": ("below u_below (.clk_i, .a_i({}), .y_o(y_o));", "a_i", "a_i ^ 8'(b_i == 8'd77)"),
}
BELOW = """
module below (input logic clk_i, input logic [7:0] a_i, output logic [7:0] y_o);
  always_ff @(posedge clk_i) y_o <= a_i;
endmodule
"""


# What the changed module gets from around it decides: what makes its input, and whether it is equivalent.
AROUND: Mapping[str, tuple[str, bool]] = {
    "low": ("a_i & 8'h7f", True),
    "high": ("a_i", False),
    "counted": ("count", True),
    "twice_counted": ("{{count[6:0], 1'b0}}", False),
}


def around(which: int) -> str:
    """Return modules around a changed one, whose change shows from 200 on."""
    text = ("a_i", "(a_i >= 8'd200) ? 8'd0 : a_i")[which - 1]
    changed = f"module changed ({PORTS}); assign y_o = {text}; endmodule\n"
    counter = f"module counter ({PORTS});{COUNTER.replace('37', '120')} assign y_o = count_q; endmodule\n"
    return (
        changed
        + counter
        + "".join(
            f"module {name} ({PORTS});\n  logic [7:0] count;\n"
            "  counter u_counter (.clk_i, .rst_ni, .en_i, .a_i, .b_i, .y_o(count));\n"
            f"  changed u_changed (.clk_i, .rst_ni, .en_i, .a_i({source.format()}), .b_i, .y_o);\nendmodule\n"
            for name, (source, _) in AROUND.items()
        )
    )


def design(folder: Path, which: int) -> Modules:
    """Return all originals, or all mutants, below one top."""
    cases = {**EQUIVALENT, **DIFFERENT}
    names = [*cases, *AROUND]
    modules = "".join(
        f"module {name} ({PORTS});\n{text[0].format(text[which])}\nendmodule\n"
        for name, text in cases.items()
    )
    uses = "".join(
        f"  {name} u_{name} (.clk_i, .rst_ni, .en_i, .a_i, .b_i, .y_o(y_o[{n}]));\n"
        for n, name in enumerate(names)
    )
    ports = PORTS.replace("logic [7:0] y_o", f"logic [{len(names) - 1}:0][7:0] y_o")
    path = folder / f"{which}.sv"
    path.write_text(f"{BELOW}{around(which)}{modules}module top ({ports});\n{uses}endmodule\n")
    return read([ROOT / "rtl" / "cells" / "clock_gate.sv", path], "top", {}, [ROOT / "rtl"], SECONDS)


@pytest.fixture(scope="module")
def designs() -> tuple[Modules, Modules]:
    """Return the originals and the mutants."""
    # Yosys sees no other folder for temporary files than its own.
    folder = prover.KEPT / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    sys.setrecursionlimit(100_000)
    return design(folder, 1), design(folder, 2)


@pytest.mark.parametrize("name", EQUIVALENT)
def test_equivalents_are_proven(designs: tuple[Modules, Modules], name: str) -> None:
    assert prover.same(*designs, f"{name}$top.u_{name}", TimeLimit(SECONDS), inlined=False)


@pytest.mark.parametrize("name", DIFFERENT)
def test_differences_are_not_proven_away(
    designs: tuple[Modules, Modules], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where simulation does not look for them, and finds no state in which registers differ."""
    monkeypatch.setattr(RandomRuns, "states", lambda *_: iter(()))
    inlined = name == "box"
    assert not prover.same(*designs, f"{name}$top.u_{name}", TimeLimit(SECONDS), inlined=inlined)


def test_what_is_in_a_box_is_not_looked_at(designs: tuple[Modules, Modules]) -> None:
    assert not prover.same(*designs, "box$top.u_box", TimeLimit(SECONDS), inlined=False)


@pytest.mark.parametrize(("name", "proven"), [(name, proven) for name, (_, proven) in AROUND.items()])
def test_what_is_around_a_module_counts(
    designs: tuple[Modules, Modules], name: str, proven: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RandomRuns, "states", lambda *_: iter(()))
    limit = TimeLimit(SECONDS)
    assert bool(prover.same(*designs, f"{name}$top.u_{name}", limit, inlined=True, thorough=False)) == proven


def test_a_box_may_give_anything(designs: tuple[Modules, Modules]) -> None:
    boxes = {"counter$top.u_counted.u_counter"}
    top = "counted$top.u_counted"
    assert not prover.same(*designs, top, TimeLimit(SECONDS), inlined=True, boxes=boxes, thorough=False)


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("phase", "lockstep, an invariant of 1 registers, for the first wires"),
        ("valid", "lockstep, registers equal under 1 conditions"),
    ],
)
def test_methods(designs: tuple[Modules, Modules], name: str, how: str) -> None:
    """The method says what it used; the simulation has seen that the data may differ."""
    top = f"{name}$top.u_{name}"
    assert prover.same(*designs, top, TimeLimit(SECONDS), inlined=False, thorough=False) == how


def test_simulation_sees_a_plain_difference(designs: tuple[Modules, Modules]) -> None:
    for name, differ in (("plain", True), ("carry", False)):
        pair = CircuitPair(*designs, f"{name}$top.u_{name}", inlined=False)
        runs = RandomRuns(pair, random.Random(1))
        runs.play()
        assert runs.differ == differ


def test_no_time_is_no_proof(designs: tuple[Modules, Modules]) -> None:
    question = CircuitPair(*designs, "carry$top.u_carry", inlined=False).any_step()
    assert not never(question, TimeLimit(0.0))
    assert never(question, TimeLimit(SECONDS))


KINDS = (
    *("$add", "$sub", "$mul", "$eq", "$ne", "$lt", "$le", "$gt", "$ge"),
    *("$logic_and", "$logic_or", "$shl", "$shr"),
)


def both_ways(kind: str, a: int, b: int, width: int, signed: bool) -> int:
    """Return what a cell computes from operands of 6 and 4 bits."""
    if signed and kind not in ("$shl", "$shr"):
        a, b = a - ((a & 32) << 1), b - ((b & 8) << 1)
    functions: Mapping[str, Callable[[int, int], int]] = {
        "$add": operators.add,
        "$sub": operators.sub,
        "$mul": operators.mul,
        "$eq": operators.eq,
        "$ne": operators.ne,
        "$lt": operators.lt,
        "$le": operators.le,
        "$gt": operators.gt,
        "$ge": operators.ge,
        "$shl": operators.lshift,
        "$shr": operators.rshift,
        "$logic_and": lambda x, y: bool(x) and bool(y),
        "$logic_or": lambda x, y: bool(x) or bool(y),
    }
    return int(functions[kind](a, b)) % (1 << width)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_cells_compute_what_their_names_say(kind: str, signed: bool) -> None:
    gates = Gates()
    parameters = {"A_SIGNED": signed and "shl" not in kind and "shr" not in kind, "B_SIGNED": signed}
    for width in (1, 6, 9):
        for a, b in itertools.product(range(64), range(16)):
            operands = {"A": bits(a, 6), "B": bits(b, 4)}
            found = word_of(gates, kind, parameters, operands, width, gates.variable)
            assert found == bits(both_ways(kind, a, b, width, signed), width)


def bits(value: int, width: int) -> list[int]:
    return [TRUE if value >> place & 1 else FALSE for place in range(width)]


def test_selecting_cells() -> None:
    gates = Gates()
    for value, choice in itertools.product(range(256), range(4)):
        operands = {"A": bits(value, 8), "S": bits(choice, 2)}
        found = word_of(gates, "$bmux", {}, operands, 2, gates.variable)
        assert found == bits(value >> 2 * choice, 2)
        found = word_of(
            gates, "$demux", {}, {"A": bits(value & 3, 2), "S": bits(choice, 2)}, 8, gates.variable
        )
        assert found == bits((value & 3) << 2 * choice, 8)
        operands = {"A": bits(value & 3, 2), "B": bits(value >> 2, 4), "S": bits(choice % 3, 2)}
        found = word_of(gates, "$pmux", {}, operands, 2, gates.variable)
        assert found == bits(value >> 2 * (choice % 3), 2)
        operands = {"A": bits(value & 7, 3), "B": bits(choice, 2)}
        found = word_of(gates, "$shiftx", {}, operands, 1, gates.variable)
        assert (found[0] > 1) if choice == 3 else (found == bits((value & 7) >> choice, 1))


def test_answers_of_abc() -> None:
    assert constant_output(b"aig 2 2 0 1 0\n0\nc\n")
    assert not constant_output(b"aig 2 2 0 1 0\n1\nc\n")
    assert not constant_output(b"aig 3 1 1 1 1\n0\n6\n\x02\x02")
    refuses(SolverError, "unknown form", constant_output, b"aig 2 2 0 2 0\n0\n0\n")


def test_changes_of_a_function_of_a_package_side_by_side() -> None:
    """Threads may ask at the same time, as a campaign's do."""
    old, file = "float_order(a) > float_order(b)", "vector_alu_pkg.sv"
    start = RtlSource(RTL / "vector" / file).text.index(old)
    edits = [
        Edit(file, "expression", start, start + len(old), old.replace(">", each)) for each in (">=", "<")
    ]
    with ThreadPoolExecutor(2) as pool:
        proofs = list(pool.map(prover.prove_apart, [[each] for each in edits]))
    assert [each.proven for each in proofs] == [True, False]


def test_a_prover_that_crashes_proves_nothing() -> None:
    assert not prover.prove_apart(_KillsItsReader()).proven  # type: ignore[arg-type]


class _KillsItsReader:
    """Ends the process that unpickles it."""

    def __reduce__(self) -> tuple[Callable[[int], NoReturn], tuple[int]]:
        return os._exit, (1,)
