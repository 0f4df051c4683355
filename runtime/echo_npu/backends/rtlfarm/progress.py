"""Show how far the RTL simulations are behind the functional model."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from echo_npu.backends.rtlfarm.pool import Load


class FarmProgress:
    """A bar on standard error: chunks done, running and waiting, and cycles a second of all simulations.

    Args:
        enabled: whether anything is shown.
    """

    def __init__(self, *, enabled: bool) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[now]}"),
            console=Console(stderr=True),
            disable=not enabled,
        )
        self._task = self._progress.add_task("RTL chunks", total=None, now="")
        self._began: float | None = None

    def show(self, done: int, load: Load, cycles: int) -> None:
        """Show chunks that are done, what is left, and the clock cycles simulated so far."""
        if self._began is None:
            self._began = time.monotonic()
            self._progress.start()
        seconds = max(time.monotonic() - self._began, 1e-3)
        now = f"{load.running} running, {load.waiting} waiting, {cycles / seconds:,.0f} cycles/s"
        total = done + load.running + load.waiting
        self._progress.update(self._task, completed=done, total=total, now=now)

    def stop(self) -> None:
        """Leave the bar as it is. Idempotent."""
        self._progress.stop()
