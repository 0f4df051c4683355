"""Waiting for work to end, for as long as some of it is done."""

from collections.abc import Awaitable, Callable

PATIENCE = 1000
"""Clocks."""


async def until(
    clock: Callable[[], Awaitable[None]],
    done: Callable[[], object],
    progress: Callable[[], object],
    failure: str,
) -> None:
    """Do a clock and more of them until `done`.

    How long that takes depends on what was drawn.

    Raises AssertionError with `failure`: `progress` has stayed the same for PATIENCE clocks.
    """
    before, waited = progress(), 0
    while waited < PATIENCE:
        await clock()
        if done():
            return
        now = progress()
        waited = waited + 1 if now == before else 0
        before = now
    raise AssertionError(failure)
