"""Coverage data: read, added up, and converted to points of the RTL."""

from pathlib import Path

import pytest

from tb.coverage.points import (
    Counts,
    CoverageError,
    Point,
    add_counts,
    files_of,
    merged_points,
    read_counts,
    write_counts,
)
from tests.tb.coverage.data import SOURCE, record, write


def points_of(tmp_path: Path, *records: bytes) -> dict[Point, int]:
    return merged_points(read_counts(write(tmp_path / "coverage.dat", *records)))


def test_kinds(tmp_path: Path) -> None:
    """Points are toggles, arms with the lines that run with them, and blocks, which are lines only."""
    found = points_of(
        tmp_path,
        record("toggle", "data_q[3]:0->1", 20, 7),
        record("branch", "if", 30, 2, lines="30-31"),
        record("branch", "else", 30, 0, column=4),
        record("line", "case", 33, 1, lines="33"),
        record("line", "block", 28, 5, lines="28,33"),
        record("user", "cover", 40, 9),
    )
    assert found == {
        Point(SOURCE, 20, 3, "toggle", "data_q[3]:0->1"): 7,
        Point(SOURCE, 30, 3, "branch", "if"): 2,
        Point(SOURCE, 30, 4, "branch", "else"): 0,
        Point(SOURCE, 33, 3, "branch", "case"): 1,
        Point(SOURCE, 28, 0, "line", ""): 5,
        Point(SOURCE, 30, 0, "line", ""): 2,
        Point(SOURCE, 31, 0, "line", ""): 2,
        Point(SOURCE, 33, 0, "line", ""): 5,
    }


def test_instances_and_runs_add_up(tmp_path: Path) -> None:
    """A point is reached if one instance reaches it in one run."""
    total: Counts = {}
    for number, counts in enumerate(((0, 4), (3, 0))):
        first, second = (
            record("toggle", "a:0->1", 20, count, top=f"npu_tb.{name}")
            for name, count in zip("xy", counts, strict=True)
        )
        add_counts(total, read_counts(write(tmp_path / f"{number}.dat", first, second)))
    assert merged_points(total) == {Point(SOURCE, 20, 3, "toggle", "a:0->1"): 7}


def test_the_whole_npu_says_what_there_is(tmp_path: Path) -> None:
    """A wider testbench of the module adds to the NPU's points and gives no points of its own."""
    narrow = record("toggle", "a[0]:0->1", 20, 0)
    wide = [record("toggle", f"a[{bit}]:0->1", 20, 5, top="skid_buffer_tb") for bit in range(2)]
    assert points_of(tmp_path, narrow, *wide) == {Point(SOURCE, 20, 3, "toggle", "a[0]:0->1"): 5}
    assert len(points_of(tmp_path, *wide)) == 2


def test_testbenches_are_left_out(tmp_path: Path) -> None:
    """Only what npu.f lists counts, whatever tree it was built in."""
    others = (
        "runtime/echo_sim/board/npu_tb.sv",
        "tests/rtl/cells/skid_buffer/tb.sv",
        "/usr/include/rtl/other.sv",
    )
    assert points_of(tmp_path, *(record("toggle", "a:0->1", 20, 1, file=file) for file in others)) == {}


def test_other_sources_are_refused(tmp_path: Path) -> None:
    """A point beyond the end of the source: another source was simulated."""
    with pytest.raises(CoverageError, match=r"line 4000 of rtl/cells/skid_buffer\.sv, which is shorter"):
        points_of(tmp_path, record("line", "block", 4000, 1, lines="4000"))


@pytest.mark.parametrize("damage", ["", "hello\n", "# SystemC::Coverage-3\nC '\x01f\x02x"])
def test_something_else_is_refused(tmp_path: Path, damage: str) -> None:
    """The file is not coverage data, or was cut off by a stopped simulator."""
    (tmp_path / "x.dat").write_text(damage)
    with pytest.raises(CoverageError, match=r"x\.dat"):
        read_counts(tmp_path / "x.dat")


def test_round_trip(tmp_path: Path) -> None:
    """Written counts equal those read; folders stand for the files below them."""
    edges = record("toggle", "a:0->1", 20, 3), record("toggle", "a:1->0", 20, 0)
    path = write(tmp_path / "a" / "b.dat", *edges)
    write_counts(read_counts(path), tmp_path / "a" / "again" / "c.dat")
    assert [read_counts(each) for each in files_of([tmp_path / "a"])] == [read_counts(path)] * 2
    assert files_of([path]) == [path]
