"""Where operators of the CPU are not wanted."""

import threading
from typing import Final

_thread: Final = threading.local()


class NotNativeError(RuntimeError):
    """An operator would run on the CPU where that is not wanted."""


def forbid(depth: int) -> None:
    """Make fallbacks of this thread raise NotNativeError while the sum of all `depth` is above 0."""
    _thread.depth = getattr(_thread, "depth", 0) + depth


def forbidden() -> bool:
    """Return whether fallbacks of this thread raise NotNativeError."""
    return getattr(_thread, "depth", 0) > 0
