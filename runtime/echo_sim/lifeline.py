"""Runs a command that knows nothing of the lifeline: `lifeline.py command ...`.

Ends its whole process group when the process that started it is gone (see processes.py); a build that lost
its builder would otherwise go on in the same directory as the next one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def _watch(lifeline: int) -> None:
    os.read(lifeline, 1)  # nothing is ever written: this returns when the other end is closed
    os.killpg(0, signal.SIGKILL)


def main() -> int:
    """The command's exit status; a signal's number is reported as a shell does, plus 128."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, every status would read as 0
    lifeline = int(os.environ.pop("ECHO_NPU_LIFELINE"))
    threading.Thread(target=_watch, args=(lifeline,), daemon=True).start()
    status = subprocess.call(sys.argv[1:])
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
