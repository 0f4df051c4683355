"""Reviewed list of equivalent mutants, which no test can find, with the proof of each."""

from __future__ import annotations

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

    Raises:
        EquivalentsError: malformed, a duplicate, or no reason.
        OSError: no such file.
    """
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", [])
    except tomllib.TOMLDecodeError as error:
        raise EquivalentsError(f"{path}: {error}") from None
    found: dict[str, str] = {}
    for entry in entries:
        if set(entry) != {"mutant", "reason"} or not entry["reason"].strip():
            raise EquivalentsError(f"{path}: an entry has a mutant and a reason, not {entry}")
        if entry["mutant"] in found:
            raise EquivalentsError(f"{path}: twice: {entry['mutant']}")
        found[entry["mutant"]] = " ".join(entry["reason"].split())
    return found


def check_known(equivalents: Iterable[str], mutants: Iterable[Mutant]) -> None:
    """Check that the RTL still has all listed mutants. Raise EquivalentsError naming one that it has not."""
    known = {mutant.identity for mutant in mutants}
    for identity in equivalents:
        if identity not in known:
            raise EquivalentsError(f"{LIST.name} names a mutant that the RTL no longer has: {identity}")
