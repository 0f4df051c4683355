"""Show a run of a model: a progress bar while it runs, a table afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from echo_npu.models.records import ModelRun, OpRecord
from echo_npu.progress_bar import steps_bar

LONGEST_TABLE: Final = 60
"""Lines. In a longer table, operations that differ only in their layer share a line."""


class ProgressBar:
    """A bar on standard error; a context manager.

    Args:
        title: name of what runs.
        steps: number of steps.
        enabled: whether anything is shown.
    """

    def __init__(self, title: str, steps: int, *, enabled: bool = True) -> None:
        self._progress = steps_bar(enabled=enabled)
        self._task = self._progress.add_task(escape(title), total=steps, now="starting")
        self._cycles = 0

    def __enter__(self) -> ProgressBar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Leave the bar as it is. Idempotent."""
        self._progress.stop()

    def say(self, text: str) -> None:
        """Show the present activity."""
        self._progress.update(self._task, now=escape(text))

    def advance(self, text: str, steps: int = 1) -> None:
        """Count steps as done, and show `text`."""
        self._progress.update(self._task, advance=steps, now=escape(text))

    def step(self, record: OpRecord) -> None:
        """Count one operation as done."""
        self._cycles += record.cycles
        self.advance(f"{record.name}, cycle {self._cycles:,}")


def render(run: ModelRun) -> Group:
    """Return the report of a run: table, totals, verdict."""
    return Group(_table(run), *_totals(run))


def _table(run: ModelRun) -> Table:
    table = Table(title=run.title, title_justify="left")
    table.add_column("operation")
    table.add_column("op")
    table.add_column("where")
    for name in ("shape", "cycles", "util", "bus"):
        table.add_column(name, justify="right")
    table.add_column("exact")
    for name in ("error / float64", "bound"):
        table.add_column(name, justify="right")
    for record in run.records if len(run.records) <= LONGEST_TABLE else _merged(run.records):
        table.add_row(
            record.name,
            record.op,
            escape(f"[{record.where}]"),
            record.shape,
            f"{record.cycles:,}" if record.cycles else "-",
            _percent(record.utilisation),
            _percent(record.bus),
            "[green]yes[/]" if record.exact else "[bold red]NO[/]",
            f"{record.error:.1e}" if record.accurate else f"[bold red]{record.error:.1e}[/]",
            f"{record.bound:.1e}",
        )
    return table


def _merged(records: Sequence[OpRecord]) -> list[OpRecord]:
    """Merge operations that differ only in their layer: sums, means over cycles, the worst error."""
    groups: dict[str, list[OpRecord]] = {}
    for record in records:
        groups.setdefault(record.name.rpartition(": ")[2], []).append(record)
    return [
        replace(
            max(group, key=lambda record: record.error / record.bound if record.bound else record.error),
            name=f"{name}, {len(group)} times" if len(group) > 1 else name,
            cycles=sum(record.cycles for record in group),
            macs=sum(record.macs for record in group),
            utilisation=_mean([(record.utilisation, record.cycles) for record in group]),
            bus=_mean([(record.bus, record.cycles) for record in group]),
            exact=all(record.exact for record in group),
        )
        for name, group in groups.items()
    ]


def _mean(parts: Sequence[tuple[float | None, int]]) -> float | None:
    """Return the mean, weighted by cycles, of the parts that are not None; None if there is none."""
    there = [(part, cycles) for part, cycles in parts if part is not None]
    cycles = sum(cycles for _, cycles in there)
    return sum(part * cycles for part, cycles in there) / cycles if cycles else None


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.1f} %"


def _totals(run: ModelRun) -> list[str]:
    lines = [escape(sentence) for sentence in (*run.notes, *run.summary)]
    lines.append(
        f"{len(run.records)} operations, all on the NPU | {run.cycles:,} cycles | {run.macs:,} MACs"
        f" | utilisation {_percent(run.utilisation)}"
    )
    speed = f", {run.cycles_per_s:,.0f} cycles/s while the device works" if run.cycles else ""
    lines.append(f"wall time {run.wall_s:.1f} s, of which the device {run.device_s:.1f} s{speed}")
    lines.append(
        f"exact: {run.exact_means}; weights in memory {'intact' if run.weights_exact else 'DAMAGED'}"
    )
    lines += [f"{check.meaning}: {check.value:.3g} (bound {check.bound:.3g})" for check in run.checks]
    if run.waves_file:
        lines.append(f"waves: {escape(run.waves_file)}")
    elif run.waves_command:
        lines.append(f"for waves: {escape(run.waves_command)}")
    if run.passed:
        lines.append("[bold green]PASSED[/]")
    else:
        lines += [f"[bold red]FAILED[/] {escape(failure)}" for failure in run.failures]
    return lines
