"""Show how far the RTL simulations are behind the functional model."""

from __future__ import annotations

import time

from echo_npu.backends.rtlfarm.pool import Load
from echo_npu.progress_bar import steps_bar


class FarmProgress:
    """A bar on standard error: chunks done, running and waiting, and cycles a second of all simulations.

    Args:
        enabled: whether anything is shown.
    """

    def __init__(self, *, enabled: bool) -> None:
        self._progress = steps_bar(enabled=enabled)
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
