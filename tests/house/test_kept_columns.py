"""A table of silicon is measured target by target."""

from scripts.synth.kept_columns import with_kept_columns
from scripts.synth.report import COLUMNS

HEAD = [f"| {' | '.join(COLUMNS)} |", "| --- | ---: | ---: | ---: | ---: | ---: | --- | --- | --- |"]


def test_other_targets_keep_what_the_page_says() -> None:
    page = [
        *HEAD,
        "| `fifo` u_a | 2 | 10 | 0.1 | 1.5 | 8 | - | 20 LUT | 15 LUT |",
        "| whole device |  | 20 | 0.200 |  |  |  | 40 LUT | 30 LUT |",
    ]
    new = [
        *HEAD,
        "| `fifo` u_a | 2 | not run | not run | not run | not run | 4 x 8 | 22 LUT | not run |",
        "| whole device |  | not run | - |  |  |  | 44 LUT | not run |",
    ]
    assert with_kept_columns(new, page, ["ecp5"]) == [
        *HEAD,
        "| `fifo` u_a | 2 | 10 | 0.1 | 1.5 | 8 | 4 x 8 | 22 LUT | 15 LUT |",
        "| whole device |  | 20 | 0.200 |  |  |  | 44 LUT | 30 LUT |",
    ]
    assert with_kept_columns(new, page, ["osu018", "ecp5", "xilinx"]) == new
    assert with_kept_columns(new, page, ["gates"])[2].startswith("| `fifo` u_a | 2 | not run |")
    assert with_kept_columns(new, page, ["gates"])[2].endswith("| 20 LUT | 15 LUT |")


def test_a_block_that_the_page_lacks_keeps_its_cells() -> None:
    page = [*HEAD, "| `fifo` u_a | 2 | 10 | 0.1 | 1.5 | 8 | - | 20 LUT | 15 LUT |"]
    for row in (
        "| `fifo` u_b | 2 | 9 | 0.1 | 1.4 | 7 | - | not run | not run |",
        "| `fifo` u_a | 3 | 9 | 0.1 | 1.4 | 7 | - | not run | not run |",
    ):
        assert with_kept_columns([*HEAD, row], page, ["osu018"]) == [*HEAD, row]
        assert with_kept_columns([*HEAD, row], [], ["osu018"]) == [*HEAD, row]
