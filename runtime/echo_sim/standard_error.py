"""Standard error that may be full or closed: a message that is lost changes no exit status."""

import contextlib
import io
import os
import sys
from typing import Any


class _LossyStream(io.RawIOBase):
    """Writes to a file descriptor, and drops what it refuses."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: Any, /) -> int:
        with contextlib.suppress(OSError):
            return os.write(self._descriptor, data)
        return len(data)


def lose_errors() -> None:
    """Let `sys.stderr` drop what cannot be written, instead of raising OSError."""
    if sys.stderr is None:  # closed when Python started
        sys.stderr = io.StringIO()
        return
    stream = io.BufferedWriter(_LossyStream(sys.stderr.fileno()))
    sys.stderr = io.TextIOWrapper(
        stream, encoding=sys.stderr.encoding, errors="backslashreplace", line_buffering=True
    )
