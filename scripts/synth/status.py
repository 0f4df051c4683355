"""Exit statuses of the commands that synthesise and place, and what is printed with them."""

import sys
from collections.abc import Callable

from echo_sim.config import ConfigError
from echo_sim.designs import FileListError
from echo_sim.messages import sentence
from echo_sim.processes import stop_all
from echo_sim.tools import ToolMissingError
from scripts.synth.liberty import LibertyError
from scripts.synth.tools import SynthesisError

WRONG_ARGUMENTS = 2
INTERRUPTED = 130
"""As a shell says it of Ctrl-C."""


def status_of(body: Callable[[], int]) -> int:
    """Run a command; return its exit status, or that of an error or of Ctrl-C after a line that says so."""
    try:
        return body()
    except (ConfigError, FileListError, LibertyError, OSError, SynthesisError, ToolMissingError) as error:
        print(f"error: {sentence(error)}", file=sys.stderr)
        return WRONG_ARGUMENTS
    except KeyboardInterrupt:
        stop_all()
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
