"""Entry point of `python -m tb`; tb/cli.py has the commands."""

import signal
import sys
from types import FrameType

from echo_sim.standard_error import lose_errors
from tb.cli import main


def _terminated(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


signal.signal(signal.SIGTERM, _terminated)
lose_errors()
sys.exit(main())
