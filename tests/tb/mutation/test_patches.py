"""Known bugs: from a patch to changes that can be selected."""

import re
from pathlib import Path

import pytest

from echo_sim.places import RTL
from tb.mutation.patches import PatchError, apply, differences, load_bug, load_bugs
from tb.mutation.syntax import RtlSource
from tb.repository import ROOT
from tests.refusals import refuses

OLD = """module m (input logic clk_i, a, b, output logic c, d);
  assign c = a && b;
  always_ff @(posedge clk_i) begin
    if (a) d <= b;
  end
endmodule
"""


def changed(tmp_path: Path, *pairs: tuple[str, str], old: str = OLD) -> list[tuple[str, str, str]]:
    """Return the edits, each with the text in its place, that replace the first of each pair by the
    second."""
    text = old
    for before, after in pairs:
        assert text.count(before) == 1
        text = text.replace(before, after)
    edits = differences(RtlSource(tmp_path / "m.sv", old), RtlSource(tmp_path / "m.sv", text))
    return [(edit.kind, old[edit.start : edit.end], edit.mutated) for edit in edits]


def test_the_smallest_expression(tmp_path: Path) -> None:
    assert changed(tmp_path, ("a && b", "a && !b")) == [("expression", "b", "!b")]


def test_two_changes(tmp_path: Path) -> None:
    found = changed(tmp_path, ("a && b", "b"), ("if (a)", "if (!a)"))
    assert found == [("expression", "a && b", "b"), ("expression", "a", "!a")]


def test_a_statement(tmp_path: Path) -> None:
    ((kind, old, new),) = changed(tmp_path, ("if (a) d <= b;", "if (a) d <= b;\n    if (b) d <= 1'b0;"))
    assert (kind, old.split()[0], new.split()[0]) == ("statement", "begin", "begin")


def test_layout_and_comments_are_no_change(tmp_path: Path) -> None:
    assert changed(tmp_path, ("a && b;", "a  &&\n    b;  // both")) == []


def test_a_new_declaration(tmp_path: Path) -> None:
    found = changed(tmp_path, ("  assign c = a && b;", "  logic e;\n  assign c = a || b;"))
    assert found == [("insertion", "", "logic e;\n"), ("expression", "a && b", "a || b")]


def test_what_cannot_be_selected(tmp_path: Path) -> None:
    refuses(PatchError, "no expression or statement", changed, tmp_path, ("assign c", "assign d"))


WIDE = """module m (input logic [7:0] a, b, input logic signed [7:0] s, output logic [15:0] c,
          output logic [8:0] d, output logic [7:0] e);
  assign c = {a, b};
  always_comb d = {1'b0, a + b};
  assign e = s >>> 1;
endmodule
"""


@pytest.mark.parametrize(
    ("old", "new", "edits"),
    [
        # In a concatenation, a wider side would shift its neighbours.
        ("{a, b}", "{a, b[3:0], 4'd0}", [("expression", "{a, b}", "{a, b[3:0], 4'd0}")]),
        ("{a, b}", "{a, ~b}", [("expression", "b", "~b")]),
        # A sum of 8 bits drops its carry; one of 9 bits would keep it in the original too.
        ("a + b", "9'(a) + b", [("statement", "d = {1'b0, a + b};", "d = {1'b0, 9'(a) + b};")]),
        ("a + b", "a - b", [("expression", "a + b", "a - b")]),
        ("s >>> 1", "s >>> 2", [("expression", "1", "2")]),
    ],
)
def test_both_sides_keep_their_width_and_sign(
    tmp_path: Path, old: str, new: str, edits: list[tuple[str, str, str]]
) -> None:
    assert changed(tmp_path, (old, new), old=WIDE) == edits


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("{a, b}", "{a, b, 1'b0}", "`{a, b}` is 16 bits and `{a, b, 1'b0}` 17 bits"),
        # With an unsigned other side, the shift would no longer copy the sign.
        ("s >>> 1", "a >> 1", "`s >>> 1` is 8 bits signed and `a >> 1` 8 bits"),
    ],
)
def test_a_side_that_would_change_the_other(tmp_path: Path, old: str, new: str, reason: str) -> None:
    message = f"{reason}: `?:` would change the meaning of one; cast it"
    refuses(PatchError, re.escape(message), changed, tmp_path, (old, new), old=WIDE)


def patch(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "x.patch"
    path.write_text(text)
    return path


DIFF = """--- a/rtl/cells/sync_fifo.sv
+++ b/rtl/cells/sync_fifo.sv
@@ -1,1 +1,1 @@
-  assign count_o = write_q - read_q;
+  assign count_o = write_q + read_q;
"""


def test_a_bug(tmp_path: Path) -> None:
    bug = load_bug(patch(tmp_path, f"The count\nis a sum.\n\nTests: nop, sync\n\n{DIFF}"))
    assert (bug.name, bug.text, bug.hints) == ("x", "The count is a sum.", ("nop", "sync"))
    assert [edit.mutated for edit in bug.edits] == ["write_q + read_q"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DIFF, "must begin with what the bug is"),
        (f"A bug.\n{DIFF.replace('write_q - read_q', 'nothing')}", "fits 0 times"),
        (f"A bug.\n{DIFF.replace('b/rtl', 'b/tb')}", "files in rtl/"),
        ("A bug.\n", "changes nothing"),
    ],
)
def test_bad_patches(tmp_path: Path, text: str, message: str) -> None:
    refuses(PatchError, message, load_bug, patch(tmp_path, text))


def test_the_patches_apply_to_the_rtl() -> None:
    bugs = load_bugs()
    assert len(bugs) >= 20
    for bug in bugs:
        for edit in bug.edits:
            assert [*RTL.rglob(edit.file)]
    assert apply(ROOT / "tests" / "bugs" / f"{bugs[0].name}.patch")
