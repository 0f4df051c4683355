"""Let generators run by turns."""

from collections.abc import Iterator, Sequence
from typing import Final

_END: Final = object()


def in_turn(passes: Sequence[Iterator[None]]) -> None:
    """Run generators by turns to their ends, each a pause behind the one before it."""
    waiting, running = list(passes), list[Iterator[None]]()
    while waiting or running:
        running += waiting[:1]
        del waiting[:1]
        running = [each for each in running if next(each, _END) is not _END]
