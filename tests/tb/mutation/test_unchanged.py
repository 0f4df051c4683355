"""Changes that the text shows to be none: they are left out, and nothing beside them."""

from pathlib import Path

import pytest

from tb.mutation import design
from tb.mutation.operators import mutants_of
from tb.mutation.syntax import RtlSource
from tb.mutation.unchanged import comparisons_of, exclusive

PORTS = "input [31:0] a, b, c, input signed [31:0] s, t, input [3:0] n, output logic [31:0] d"


def mutated(tmp_path: Path, expression: str, operator: str) -> set[str]:
    """Return what becomes of places in an expression in one class of mistakes."""
    text = f"module m ({PORTS});\n assign d = {expression};\nendmodule\n"
    mutants = mutants_of(RtlSource(tmp_path / "m.sv", text))
    return {mutant.mutated for mutant in mutants if mutant.operator == operator}


@pytest.mark.parametrize(
    "expression",
    [
        "(a < b) ? a : b",
        "((a < b)) ? (b) : a",
        "a >= b ? a : b",
        "(a > 32'd7) ? 32'd7 : a",
        "(a < b) ? 8'(a) : 8'(b)",
        "(a < b) ? 32'd0 : a - b",
        "(a > b) ? a - b : '0",
    ],
)
def test_a_bound_between_equal_arms_is_not_moved(tmp_path: Path, expression: str) -> None:
    """The comparison that is turned round is left: it takes the other arm."""
    turned = {"<": ">=", ">=": "<", ">": "<="}
    found = mutated(tmp_path, expression, "relational")
    assert len(found) == 1
    present = next(operator for operator in (">=", "<", ">") if f" {operator} " in expression)
    assert f" {turned[present]} " in found.pop()


@pytest.mark.parametrize(
    "expression",
    [
        "(a < b) ? a : c",
        "(a < b) ? a : b + 32'd1",
        "(a < b) ? 32'd1 : a - b",
        "(a < b) ? 32'd0 : b - c",
        "(a < b) ? 8'(a) : 16'(b)",
        "(s < t) ? s : t",
        "32'(a < b)",
        "((a < b) && n[0]) ? a : b",
        "c[0] ? ((a < b) ? c : a) : b",
    ],
)
def test_a_bound_that_can_matter_is_moved(tmp_path: Path, expression: str) -> None:
    assert len(mutated(tmp_path, expression, "relational")) == 2


@pytest.mark.parametrize(
    "expression",
    [
        "(a & 32'h00FF) | (b & 32'hFF00)",
        "(a & 32'h007F_FFFF) | ((c != 0) ? 32'h0080_0000 : 32'h0)",
        "{a[28:0], 3'd0} | (b & 32'd7)",
        "(a << 4) | (b & 32'd15)",
        "((a & 32'hF0) >> 4) | (b & 32'hF0)",
        "(a << 1) | 32'(b == c)",
        "16'(a & 32'd7) | (b << 3)",
    ],
)
def test_or_of_disjoint_bits_is_not_xor(tmp_path: Path, expression: str) -> None:
    found = mutated(tmp_path, expression, "bitwise")
    assert not [text for text in found if ") ^ (" in text]
    assert [text for text in found if ") & (" in text], "the other mistake at this place is left"


@pytest.mark.parametrize(
    "expression",
    [
        "a | b",
        "(a & 32'h0FF) | (b & 32'hF80)",
        "(a << 3) | (b & 32'd15)",
        "(a << n) | (b & 32'd1)",
        "{a[28:0], 2'd0} | (b & 32'd7)",
        "{2'd0, n} | {n, 2'd3}",
        "(a << 1) | 32'(s)",
        "(a << 4) | n",
        "(a << 7) | 8'(s & 255)",
    ],
)
def test_or_of_bits_that_may_meet_becomes_xor(tmp_path: Path, expression: str) -> None:
    assert [text for text in mutated(tmp_path, expression, "bitwise") if ") ^ (" in text]


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        # 14 differs from 15 in bit 0 alone, which is zero in the other operand, or shifted out.
        ("{a[28:0], 1'd0} & 32'd15", {"32'd16"}),
        ("(a & 32'd15) >> 1", {"32'd16"}),
        ("a & 32'd15", {"32'd16", "32'd14"}),
        ("(a & 32'd15) >> n", {"32'd16", "32'd14"}),
        ("(a & 32'd15) << 1", {"32'd16", "32'd14"}),
        ("32'd15 & (b << 1)", {"32'd16"}),
        ("32'd15 + (b << 1)", {"32'd16", "32'd14"}),
    ],
)
def test_masks_change_in_bits_that_count(tmp_path: Path, expression: str, wanted: set[str]) -> None:
    found = mutated(tmp_path, expression, "constant")
    assert {text for text in found if text in ("32'd16", "32'd14")} == wanted


@pytest.mark.parametrize(
    ("first", "second", "never_both"),
    [
        ("(a == Idle)", "(a == Busy)", True),
        ("(a == Idle)", "(b == Busy)", False),
        ("(a == Idle)", "(a == Idle)", False),
        ("valid && last", "!valid", True),
        ("!(a < b)", "ready && (a < b)", True),
        ("a == 2'd1 && ready", "valid && a == 2'd2", True),
        ("valid || last", "!valid", False),
        ("!(valid && last)", "valid", False),
        ("valid", "ready", False),
        ("a == 8'(b)", "a == 8'(c)", False),
    ],
)
def test_conditions_that_exclude_one_another(first: str, second: str, *, never_both: bool) -> None:
    assert exclusive(first, second) == never_both
    assert exclusive(second, first) == never_both


def test_names_of_comparisons(tmp_path: Path) -> None:
    """What may change between two comparisons, or has two values, is left out."""
    text = f"""module m ({PORTS});
      logic is_one, is_two, odd, other, either;
      assign is_one = kind_q == 2'd1;
      assign odd = place == 2'd1;
      assign either = a > b;
      always_comb begin
        is_two = (kind_q == 2'd2);  // is_two = 0;
        place = n[1:0];
        other = kind_q == 2'd2;
        if (a) other = 0;
      end
      always_ff @(posedge clk) kind_q <= n[1:0];
      sub u_sub (.is_one(is_one));
    endmodule
    """
    found = comparisons_of(RtlSource(tmp_path / "m.sv", text))
    assert found == {"is_one": "kind_q == 2'd1", "is_two": "kind_q == 2'd2"}
    assert exclusive("ready && is_one", "is_two", found)
    assert not exclusive("is_one", "is_one && ready", found)
    assert exclusive("is_one", "!is_one", found)
    assert not exclusive("is_one", "odd", found)
    assert not exclusive("is_one", "is_two")


def test_the_order_of_exclusive_conditions_is_left_alone(tmp_path: Path) -> None:
    expression = "(n[0] && n[1]) ? a : (!n[1] ? b : c)"
    text = f"module m ({PORTS});\n assign d = {expression};\nendmodule\n"
    found = [m for m in mutants_of(RtlSource(tmp_path / "m.sv", text)) if m.operator == "priority"]
    assert len(found) == 1, "only the first branch taken for both is left"
    assert "||" in found[0].mutated
    assert "priority" in design.CLASSES
