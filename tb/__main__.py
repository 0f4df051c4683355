"""Entry point of `python -m tb`; tb/cli.py has the commands."""

import signal
import sys
from types import FrameType

from tb.cli import main


def _terminated(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


signal.signal(signal.SIGTERM, _terminated)
sys.exit(main())
