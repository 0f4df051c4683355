"""The pages: every module, every line of its source, and its missed and excluded points."""

from pathlib import Path

from tb.coverage.exclusions import Excluded, source
from tb.coverage.html import source_lines, write_pages
from tb.coverage.measure import measure
from tb.coverage.points import Point
from tests.tb.coverage.data import SOURCE


def test_pages(tmp_path: Path) -> None:
    """An index links to the page of each module; none needs another file."""
    points = {
        Point(SOURCE, 30, 0, "line", ""): 41,
        Point(SOURCE, 30, 3, "branch", "if"): 41,
        Point(SOURCE, 30, 4, "branch", "else"): 0,
        Point(SOURCE, 20, 3, "toggle", "a[1]:0->1"): 0,
        Point(SOURCE, 20, 3, "toggle", "b[1]:0->1"): 0,
    }
    excluded = Excluded({Point(SOURCE, 20, 3, "toggle", "b[1]:0->1"): "too <wide> for it"}, ("idle one",))
    measured = measure(points, excluded)
    (module,) = measured.modules
    lines = source_lines(module)
    assert [line.text for line in lines] == list(source(SOURCE))
    assert (lines[29].count, lines[29].state, lines[29].arms) == (41, "part", [("if", 41), ("else", 0)])
    assert (lines[19].state, lines[19].toggles) == ("none", ["a[1]:0->1"])
    assert lines[19].excluded == [("b[1]:0->1", "too <wide> for it")]
    assert lines[0].state == "plain"

    index = write_pages(measured, tmp_path / "report", "Sum of 3 files")
    text = index.read_text()
    assert 'href="skid_buffer.html"' in text
    assert "Sum of 3 files" in text
    assert "Wrong exclusion: idle one" in text
    page = (index.parent / "skid_buffer.html").read_text()
    assert "does not toggle: a[1]:0-&gt;1" in page
    assert "too &lt;wide&gt; for it" in page
    assert "else: never" in page
    assert "src=" not in page + text
