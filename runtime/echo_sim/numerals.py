"""Numbers as users type them: one grammar and one kind of refusal for every command line and variable.

Python's own `int` and `float` take `1_0`, digits of any script, spaces around a number, `nan` and `inf`.
"""

import argparse
import os
import random
import re
from dataclasses import dataclass
from typing import Any, Final

MOST: Final = 1_000_000_000
"""The bound, up and down, of a number that has no other."""

SEED_MOST: Final = (1 << 32) - 1
"""The largest seed that every part of a simulation takes."""

_WHOLE: Final = re.compile(r"[+-]?([0-9]+|0[xX][0-9a-fA-F]+)")
_REAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class NumeralError(ValueError, argparse.ArgumentTypeError):
    """A text is no number, or none of the range that is asked for. The message has the text and the range."""


@dataclass(frozen=True, slots=True)
class Whole:
    """Reads whole numbers, decimal or 0x and hexadecimal, from `least` to `most`."""

    least: int = -MOST
    most: int = MOST

    def __call__(self, text: str) -> int:
        """Return the number that a text is; NumeralError for any other text."""
        if _WHOLE.fullmatch(text) and len(text) < 100:  # no range has more digits
            value = int(text, 16 if "x" in text.lower() else 10)
            if self.least <= value <= self.most:
                return value
        raise NumeralError(f"{text!r}: it must be a whole number from {self.least} to {self.most}")


@dataclass(frozen=True, slots=True)
class Real:
    """Reads finite decimal numbers from `least` to `most`; with `above`, only above `least`."""

    least: float = -MOST
    most: float = MOST
    above: bool = False

    def __call__(self, text: str) -> float:
        """Return the number that a text is; NumeralError for any other text."""
        if _REAL.fullmatch(text):
            value = float(text)
            if self.least <= value <= self.most and not (self.above and value == self.least):
                return value
        least = f"above {self.least}, at most" if self.above else f"from {self.least} to"
        raise NumeralError(f"{text!r}: it must be a number {least} {self.most}")


class WholeNumbers(tuple[int, ...]):
    """Whole numbers that were typed with commas between them."""


@dataclass(frozen=True, slots=True)
class Wholes:
    """Reads several whole numbers with commas between them."""

    each: Whole

    def __call__(self, text: str) -> WholeNumbers:
        """Return the numbers in a text, in its order; NumeralError if any is none."""
        return WholeNumbers(self.each(part) for part in text.split(","))


SEED: Final = Whole(0, SEED_MOST)


def choose_seed(default: int | None = None) -> int:
    """Return `$SEED` if it is set, else `default`, else a random seed; ValueError if it is no seed."""
    text = os.environ.get("SEED", "")
    if not text:
        return random.SystemRandom().randrange(1 << 31) if default is None else default
    try:
        return SEED(text)
    except ValueError as error:
        raise ValueError(f"SEED={error}") from None


def option(read: Whole | Real | Wholes) -> dict[str, Any]:
    """Return the keywords with which a typer option or argument takes what `read` returns.

    The refusal names the option; its help has the range.
    """
    import typer  # the simulator's own process reads numbers too, and needs no command line

    def parse(value: Any) -> Any:
        if not isinstance(value, str):
            return value  # a default
        try:
            return read(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    shown: dict[str, Any] = {"parser": parse}
    return shown if isinstance(read, Wholes) else shown | _bounds(read)


def _bounds(read: Whole | Real) -> dict[str, Any]:
    bounds = {"min": (read.least, -MOST), "max": (read.most, MOST)}
    return {name: value for name, (value, unbounded) in bounds.items() if value != unbounded}
