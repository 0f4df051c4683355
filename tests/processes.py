"""Watch processes of this machine end."""

import time
from collections.abc import Callable
from pathlib import Path


def alive(pid: int) -> bool:
    """Return whether a process runs; one that only waits for its parent's look does not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Return whether a condition comes true within some seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()
