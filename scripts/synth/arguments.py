"""Arguments that synthesis and placement share: names divided by commas, and modules with parameters."""

import argparse
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from echo_sim.numerals import Whole

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class SingleModule:
    """A module to measure by itself, with values for some of its parameters."""

    name: str
    parameters: Mapping[str, int]


def names(text: str) -> list[str]:
    """Return the names that a text with commas has; ArgumentTypeError if one of them is empty."""
    found = text.split(",")
    if "" in found:
        raise argparse.ArgumentTypeError(f"{text!r}: an empty name")
    return found


def single_module(text: str) -> SingleModule:
    """Read a module with parameters: systolic_row:Cols=1,Pipeline=1.

    Raises:
        NumeralError: a parameter has no whole number.
        ArgumentTypeError: a name that is no identifier, or a parameter that is there twice.
    """
    name, colon, given = text.partition(":")
    parameters: dict[str, int] = {}
    pairs = [each.partition("=") for each in names(given)] if colon else []
    for key in (name, *(key for key, _, _ in pairs)):
        if not _IDENTIFIER.fullmatch(key):
            raise argparse.ArgumentTypeError(f"{text!r}: {key!r} is no identifier")
    for key, _, value in pairs:
        if key in parameters:
            raise argparse.ArgumentTypeError(f"{text!r}: {key} is there twice")
        parameters[key] = Whole()(value)
    return SingleModule(name, parameters)


def output(text: str) -> Path:
    """Return the path of a file to write; ArgumentTypeError if none can be there."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a folder")
    above = next(each for each in path.absolute().parents if each.exists())
    if not above.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r}: {above} is no folder")
    return path


def tell(text: str) -> None:
    """Print a line of progress, over the last one on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr, flush=True)
