"""The list of equivalent mutants."""

from pathlib import Path

import pytest

from tb.mutation.equivalents import EquivalentsError, check_known, load_equivalents
from tb.mutation.schemata import Mutant
from tests.refusals import refuses

ENTRY = '"a.sv: x | 1 -> 2" = """Nothing\nreads it."""\n'


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "equivalents.toml"
    path.write_text(text)
    return path


def test_reading(tmp_path: Path) -> None:
    assert load_equivalents(written(tmp_path, ENTRY)) == {"a.sv: x | 1 -> 2": "Nothing reads it."}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ENTRY * 2, "equivalents.toml"),
        (ENTRY.replace("Nothing\nreads it.", " "), "no reason"),
        ("[a]", "no reason"),
        ("[[", "equivalents.toml"),
    ],
)
def test_bad_lists(tmp_path: Path, text: str, message: str) -> None:
    refuses(EquivalentsError, message, load_equivalents, written(tmp_path, text))


def test_every_listed_mutant_exists(all_mutants: dict[str, list[Mutant]]) -> None:
    mutants = [mutant for those in all_mutants.values() for mutant in those]
    check_known(load_equivalents(), mutants)
    refuses(EquivalentsError, "no longer has: a", check_known, ["a"], mutants)
