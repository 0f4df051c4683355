"""Show the progress of a build as one line on standard error."""

import contextlib
import re
import sys
import time
from pathlib import Path


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class BuildProgress:
    """One line on standard error while a build runs; rewritten in place on a terminal."""

    def __init__(self, name: str, directory: Path, quiet: bool) -> None:
        self._name = name
        self._directory = directory
        self._quiet = quiet
        self._live = not quiet and sys.stderr.isatty()
        self._started = time.monotonic()
        self._since = time.time()
        if not quiet and not self._live:
            _say(f"building {name} ...")

    def tick(self, _: float) -> None:
        if not self._live:
            return
        total = done = 0
        with contextlib.suppress(OSError):
            listing = (self._directory / "Vtop_classes.mk").read_text(encoding="utf-8")
            total = len(re.findall(r"^\t(Vtop|verilated)\w* \\$", listing, re.MULTILINE))
        for path in self._directory.glob("*.o"):
            with contextlib.suppress(FileNotFoundError):  # a compiler removes what it could not finish
                done += path.stat().st_mtime >= self._since
        seconds = time.monotonic() - self._started
        what = f"compiled {done} of {max(total, done)} files" if done else "translating"
        print(f"\rbuilding {self._name}: {what}, {seconds:.0f} s \x1b[K", end="", file=sys.stderr, flush=True)

    def finish(self) -> None:
        seconds = time.monotonic() - self._started
        if not self._quiet:
            lead = "\r" if self._live else ""
            tail = "\x1b[K" if self._live else ""
            _say(f"{lead}built {self._name} in {seconds:.0f} s{tail}")
