"""The mutation operators, and the draw of mutants."""

from collections import Counter
from pathlib import Path

import pytest

from tb.mutation import design
from tb.mutation.operators import CLASSES, changed_literals, mutants_of, sample
from tb.mutation.schemata import Mutant
from tb.mutation.syntax import RtlSource
from tb.mutation.tree import sources


def changes(tmp_path: Path, expression: str) -> set[str]:
    ports = "input logic [7:0] a, b, c, output logic [7:0] d"
    text = f"module m ({ports});\n assign d = {expression};\nendmodule\n"
    return {mutant.mutated for mutant in mutants_of(RtlSource(tmp_path / "m.sv", text)) if slip(mutant)}


def slip(mutant: Mutant) -> bool:
    """Return whether it is a typing slip."""
    return mutant.operator not in design.CLASSES


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("a + b", {"(a) - (b)"}),
        ("a < b", {"(a) <= (b)", "(a) >= (b)"}),
        ("a && b", {"(a) || (b)"}),
        ("!a", {"a"}),
        ("&a", {"|a"}),
        ("a ? b : c", {"a ? c : b", "b", "c"}),
        ("8'd0", {"8'd1", "8'd255"}),
        ("a >> b", {"(a) << (b)"}),
        ("a", set()),
    ],
)
def test_expressions(tmp_path: Path, expression: str, wanted: set[str]) -> None:
    assert changes(tmp_path, expression) == wanted


@pytest.mark.parametrize(
    ("literal", "wanted"),
    [
        ("1'b0", ["1'b1"]),
        ("'0", ["'1"]),
        ("4'hF", ["4'h0", "4'hE"]),
        ("32'sd127", ["32'sd128", "32'sd126"]),
        ("0", ["1"]),
        ("7", ["8", "6"]),
        ("1.5", []),
    ],
)
def test_literals(literal: str, wanted: list[str]) -> None:
    assert changed_literals(literal) == wanted


def test_conditions_and_statements(tmp_path: Path) -> None:
    text = """module m (input logic clk_i, rst_ni, a, output logic q);
  always_ff @(posedge clk_i) if (!rst_ni) q <= 1'b0; else if (a) q <= 1'b1;
endmodule
"""
    mutants = mutants_of(RtlSource(tmp_path / "m.sv", text))
    of_a = {mutant.mutated for mutant in mutants if mutant.context == "if (a)" and slip(mutant)}
    assert of_a == {"!(a)", "1'b1", "1'b0"}
    assert {m.mutated for m in mutants if m.operator == "reset"} == {"", "1'b1"}
    assert {m.mutated for m in mutants if m.original == "q <= 1'b1;"} == {""}


def test_identities_are_unique(all_mutants: dict[str, list[Mutant]]) -> None:
    names = [mutant.identity for mutants in all_mutants.values() for mutant in mutants]
    assert len(set(names)) == len(names)


def test_identities_do_not_depend_on_lines() -> None:
    path = sources()[-1]
    source = RtlSource(path)
    below = RtlSource(path, f"\n\n{source.text}")
    assert [mutant.identity for mutant in mutants_of(below)] == [m.identity for m in mutants_of(source)]


def test_the_sample_is_of_all_files(all_mutants: dict[str, list[Mutant]]) -> None:
    drawn = sample(sources(), 300, 7)
    assert len({mutant.identity for mutant in drawn}) == 300
    assert {mutant.file for mutant in drawn} == {name for name, mutants in all_mutants.items() if mutants}


def test_rare_classes_are_drawn_too() -> None:
    seeds = range(1, 6)
    counts = Counter(mutant.operator for seed in seeds for mutant in sample(sources(), 300, seed))
    assert set(counts) == set(CLASSES)
    assert min(counts.values()) >= 2 * len(seeds)


def test_the_seed_decides() -> None:
    few = sources()[:8]
    first, again, other = (sample(few, 50, seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_file_draws_for_itself() -> None:
    one, two = sources()[5:7]
    together = [mutant for mutant in sample([one, two], 12, 1) if mutant.file == one.name]
    assert together == sample([one], len(together), 1)


def test_no_more_than_there_are(tmp_path: Path) -> None:
    path = tmp_path / "m.sv"
    path.write_text("module m (input logic a, output logic b);\n assign b = !a;\nendmodule\n")
    with pytest.raises(ValueError, match="3 mutants: there are 2"):
        sample([path], 3, 1)
