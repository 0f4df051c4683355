"""Many changes in one source text."""

from tb.mutation.schemata import CrossingError, Edit, Mutant, render
from tests.refusals import refuses

TEXT = "assign a = b + c;"


def edit(part: str, mutated: str, kind: str = "expression", text: str = TEXT) -> Edit:
    start = text.index(part)
    return Edit("m.sv", kind, start, start + len(part), mutated)  # type: ignore[arg-type]


def body(rendered: str) -> str:
    """Return the text without the lines that silence the compiler."""
    return "\n".join(line for line in rendered.splitlines() if not line.startswith(("//", "`include")))


def test_an_expression() -> None:
    text = body(render(TEXT, [(3, edit("b + c", "b - c"))]))
    assert text == "assign a = (mutation_pkg::selected == 32'd3 ? (b - c) : (b + c));"


def test_several_at_one_place_and_one_within() -> None:
    edits = [(3, edit("b + c", "b - c")), (4, edit("b + c", "b")), (5, edit("c", "d"))]
    text = body(render(TEXT, edits))
    chosen = "mutation_pkg::selected == 32'd"
    assert text == f"assign a = ({chosen}3 ? (b - c) : {chosen}4 ? (b) : (b + ({chosen}5 ? (d) : (c))));"


def test_statements() -> None:
    line = "if (x) a <= b;"
    text = body(render(line, [(1, edit("a <= b;", "", "statement", line))]))
    assert text == "if (x) begin if (mutation_pkg::selected == 32'd1) begin  end else begin a <= b; end end"


def test_an_insertion_is_not_selected() -> None:
    text = body(render(TEXT, [(1, Edit("m.sv", "insertion", 0, 0, "logic x;\n")), (1, edit("b", "x"))]))
    assert text == "logic x;\nassign a = (mutation_pkg::selected == 32'd1 ? (x) : (b)) + c;"


def test_crossing_changes_are_refused() -> None:
    refuses(CrossingError, "character 11", render, TEXT, [(1, edit("b + ", "")), (2, edit("+ c", ""))])


def test_nothing_changed_is_the_same_text() -> None:
    assert body(render(TEXT, [])) == TEXT


def test_identity_names_the_second_of_two() -> None:
    first = Mutant("m.sv", "a <= 1'b0;", "reset", "1'b0", "1'b1", 1, 5, ())
    second = Mutant("m.sv", "a <= 1'b0;", "reset", "1'b0", "1'b1", 2, 9, ())
    assert first.identity == "m.sv: a <= 1'b0; | 1'b0 -> 1'b1"
    assert second.identity == f"{first.identity} #2"


def test_insertions_at_one_place_come_once_each() -> None:
    first, second = (Edit("m.sv", "insertion", 0, 0, f"logic {name};\n") for name in "xy")
    text = body(render(TEXT, [(1, first), (2, second), (3, first)]))
    assert text == f"logic x;\nlogic y;\n{TEXT}"
