"""A timeline file in Chrome's trace event format (JSON), which Perfetto opens.

It is an array of events, one a line, that grows while the program runs. If the program is killed, the closing
bracket is missing, which viewers accept.
"""

import contextlib
import gzip
import json
import os
import weakref
from pathlib import Path
from typing import IO, Any


class TraceFile:
    """Writes events to `path`, compressed if it ends in .gz. The file is complete after `close` or at exit.

    Raises:
        ValueError: the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._lines: list[str] = []
        file: IO[str] | None = None
        try:
            if path.suffix == ".gz":
                file = gzip.open(path, "wt", 5, encoding="utf-8")  # noqa: SIM115  (it stays open)
            else:
                file = path.open("w", encoding="utf-8")
            file.write("[\n")
            file.flush()
        except OSError as error:
            if file is not None:
                _abandon(file)
            raise ValueError(f"the timeline cannot be written to {path}: {error.strerror}") from None
        self._file = file
        self._first = True
        self._finalizer = weakref.finalize(self, _finish, file, os.getpid())

    def add(self, event: dict[str, Any]) -> None:
        """Append one event."""
        self._lines.append(json.dumps(event, separators=(",", ":")))
        self.count += 1

    def flush(self) -> None:
        """Write what was added to the file.

        Raises:
            OSError: writing failed; the file is closed as it is, and nothing more is written.
        """
        if self._lines and self._finalizer.alive:
            try:
                self._file.write(("" if self._first else ",\n") + ",\n".join(self._lines))
                self._file.flush()
            except OSError:
                self._finalizer.detach()
                _abandon(self._file)
                raise
            self._first = False
            self._lines.clear()

    def close(self) -> None:
        """Complete the file. Idempotent. Raises as `flush`."""
        self.flush()
        self._finalizer()


def _abandon(file: IO[str]) -> None:
    """Close a file that cannot be written; closing tries to write once more."""
    with contextlib.suppress(OSError):
        file.close()


def _finish(file: IO[str], owner: int) -> None:
    if os.getpid() == owner:  # a forked child shares the file
        with contextlib.suppress(OSError):  # viewers accept an array without its closing bracket
            file.write("\n]\n")
        _abandon(file)
