"""Arguments that synthesis and placement share: names divided by commas, and modules with parameters."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from echo_sim.numerals import Whole


@dataclass(frozen=True)
class SingleModule:
    """A module to measure by itself, with values for some of its parameters."""

    name: str
    parameters: Mapping[str, int]


def names(text: str) -> list[str]:
    """Return the names that a text with commas has."""
    return [name for name in text.split(",") if name]


def single_module(text: str) -> SingleModule:
    """Read a module with parameters: systolic_row:Cols=1,Pipeline=1.

    Raises:
        NumeralError: a parameter has no whole number.
    """
    name, _, given = text.partition(":")
    pairs = (each.partition("=") for each in names(given))
    return SingleModule(name, {key: Whole()(value) for key, _, value in pairs})


def tell(text: str) -> None:
    """Print a line of progress, over the last one on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr, flush=True)
