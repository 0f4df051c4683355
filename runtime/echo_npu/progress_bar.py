"""The bar that shows on standard error how far long work is."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def steps_bar(*, enabled: bool) -> Progress:
    """Return a bar: what runs, steps done and in all, the time, and the field `now` of its task.

    Args:
        enabled: whether anything is shown.
    """
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[now]}"),
        console=Console(stderr=True),
        disable=not enabled,
    )
