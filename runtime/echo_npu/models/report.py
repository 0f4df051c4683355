"""Shows a run of a layer: a progress bar while it runs, a table afterwards."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console, Group
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from echo_npu.models.records import LayerRun, OpRecord


class ProgressBar:
    """A bar on standard error that moves by one operation; a context manager.

    Args:
        title: what runs.
        steps: how many operations will.
        enabled: whether anything is shown.
    """

    def __init__(self, title: str, steps: int, *, enabled: bool = True) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[last]}"),
            console=Console(stderr=True),
            disable=not enabled,
        )
        self._task = self._progress.add_task(escape(title), total=steps, last="starting")
        self._cycles = 0

    def __enter__(self) -> ProgressBar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        """Show what is going on."""
        self._progress.update(self._task, last=escape(text))

    def step(self, record: OpRecord) -> None:
        """One operation is done."""
        self._cycles += record.cycles
        self._progress.update(self._task, advance=1, last=escape(f"{record.name}, cycle {self._cycles:,}"))


def render(run: LayerRun) -> Group:
    """The report of a run: table, totals, verdict."""
    return Group(_table(run), *_totals(run))


def _table(run: LayerRun) -> Table:
    table = Table(title=run.title, title_justify="left")
    table.add_column("operation")
    table.add_column("op")
    table.add_column("where")
    for name in ("shape", "cycles", "util", "bus"):
        table.add_column(name, justify="right")
    table.add_column("exact")
    for name in ("error / float64", "bound"):
        table.add_column(name, justify="right")
    for record in run.records:
        table.add_row(
            record.name,
            record.op,
            escape(f"[{record.where}]"),
            record.shape,
            f"{record.cycles:,}" if record.cycles else "-",
            _percent(record.utilisation),
            _percent(record.bus),
            {None: "-", True: "[green]yes[/]", False: "[bold red]NO[/]"}[record.exact],
            f"{record.error:.1e}" if record.accurate else f"[bold red]{record.error:.1e}[/]",
            f"{record.bound:.1e}",
        )
    return table


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.1f} %"


def _totals(run: LayerRun) -> list[str]:
    on_npu = sum(record.where == "NPU" for record in run.records)
    lines = [*(escape(note) for note in run.notes)]
    lines.append(
        f"{on_npu} operations on the NPU, {len(run.records) - on_npu} on the host"
        f" | {run.cycles:,} cycles | {run.macs:,} MACs | utilisation {_percent(run.utilisation)}"
    )
    speed = f", {run.cycles_per_s:,.0f} cycles/s while the device works" if run.cycles else ""
    lines.append(f"wall time {run.wall_s:.1f} s, of which the device {run.device_s:.1f} s{speed}")
    lines.append(
        f"exact: {run.exact_means}; weights in memory {'intact' if run.weights_exact else 'DAMAGED'}"
    )
    lines.append(
        f"whole layer against an independent float64 reference: {run.layer_error:.2e} "
        f"of a token's largest value (bound {run.layer_bound:.2e})"
    )
    if run.waves_file:
        lines.append(f"waves: {escape(run.waves_file)}")
    elif run.waves_command:
        lines.append(f"for waves: {escape(run.waves_command)}")
    if run.passed:
        lines.append("[bold green]PASSED[/]")
    else:
        lines += [f"[bold red]FAILED[/] {escape(failure)}" for failure in run.failures]
    return lines
