"""Run a command under the lifeline: `lifeline.py command ...`.

The whole process group ends when the process that started it is gone (see processes.py). Otherwise an
orphaned build would go on in the directory of the next one.
"""

import os
import signal
import subprocess
import sys
import threading


def _watch(lifeline: int) -> None:
    os.read(lifeline, 1)  # nothing is ever written: this returns when the other end is closed
    os.killpg(0, signal.SIGKILL)


def main() -> int:
    """Run the command and return its exit status, or 128 plus a signal's number, as a shell does."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, every status would read as 0
    lifeline = int(os.environ.pop("ECHO_NPU_LIFELINE"))
    threading.Thread(target=_watch, args=(lifeline,), daemon=True).start()
    status = subprocess.call(sys.argv[1:])
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
