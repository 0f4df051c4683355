"""Reviewed list of equivalent mutants, which no test can find, with the proof of each."""

import tomllib
from collections.abc import Iterable
from pathlib import Path

from tb.mutation.schemata import Mutant
from tb.results import UnjudgedError

LIST = Path(__file__).with_name("equivalents.toml")


class EquivalentsError(UnjudgedError):
    """The list is malformed, names a mutant twice or one that does not exist, or gives no reason."""


def load_equivalents(path: Path = LIST) -> dict[str, str]:
    """Return the reason of each equivalent mutant by its identity.

    Raises EquivalentsError: malformed, a duplicate, or no reason. OSError: no such file.
    """
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise EquivalentsError(f"{path}: {error}") from None
    for mutant, reason in entries.items():
        if not isinstance(reason, str) or not reason.strip():
            raise EquivalentsError(f"{path}: no reason for {mutant}")
    return {mutant: " ".join(reason.split()) for mutant, reason in entries.items()}


def check_known(equivalents: Iterable[str], mutants: Iterable[Mutant]) -> None:
    """Check that the RTL still has all listed mutants. Raise EquivalentsError naming one that it has not."""
    known = {mutant.identity for mutant in mutants}
    for identity in equivalents:
        if identity not in known:
            raise EquivalentsError(f"{LIST.name} names a mutant that the RTL no longer has: {identity}")
