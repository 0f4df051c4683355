"""Keep the columns of a table of docs/silicon.md that a run did not measure."""

from collections.abc import Collection, Sequence

from scripts.synth.report import COLUMNS

_TIMED = range(COLUMNS.index("cells"), COLUMNS.index("gates on it") + 1)
_COLUMNS = {
    "osu018": _TIMED,
    "gates": _TIMED,
    "ecp5": (COLUMNS.index("ECP5"),),
    "xilinx": (COLUMNS.index("Xilinx 7"),),
}
"""The columns that a target fills."""


def with_kept_columns(lines: Sequence[str], page: Sequence[str], targets: Collection[str]) -> list[str]:
    """Return the lines of a table, with the columns of other targets as the page has them.

    A target takes hours. So a table is measured in several runs, each of some targets. A block that the
    page lacks keeps its cells.

    Args:
        lines: of the new table.
        page: the lines of the table that it replaces.
        targets: those that the new table was measured with.
    """
    measured = {column for target in targets for column in _COLUMNS[target]}
    kept = sorted({column for columns in _COLUMNS.values() for column in columns} - measured)
    before = {tuple(cells[:2]): cells for cells in map(_cells, page)}
    made = []
    for line in lines:
        cells = _cells(line)
        for column in kept if tuple(cells[:2]) in before else ():
            cells[column] = before[tuple(cells[:2])][column]
        made.append(f"| {' | '.join(cells)} |")
    return made


def _cells(line: str) -> list[str]:
    return line.removeprefix("| ").removesuffix(" |").split(" | ")
