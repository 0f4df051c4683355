"""Every number of a command line is read in one way, and refused by name if it is no number of its range."""

import re

import pytest
import typer.main
from typer.core import TyperGroup

import tb.cli
from echo_npu.cli import app
from echo_sim.numerals import SEED, NumeralError, Real, Whole, WholeNumbers, Wholes, choose_seed
from tb.repository import ROOT

NONE = ("nan", "inf", "-inf", "1_0", "", " 1", "1 ", "x", "1e400", "9" * 5000, "٣", "0x", "1,", "--1")
"""Refused everywhere. Python's own `int` or `float` takes most of them."""


def numbers() -> list[tuple[typer.core.TyperCommand, str]]:
    """Return each command and each of its parameters that takes a number."""
    found, groups = [], [typer.main.get_group(each) for each in (app, tb.cli.app)]
    while groups:
        for command in groups.pop().commands.values():
            if isinstance(command, TyperGroup):
                groups.append(command)
                continue
            found += [
                (command, parameter.name)
                for parameter in command.params
                if parameter.type_descriptor.annotation in (int, float, WholeNumbers)
            ]
    return found


NUMBERS = numbers()


def parse(command: typer.core.TyperCommand, name: str, text: str) -> None:
    """Parse a command line in which the parameter `name` is `text`; run nothing."""
    options, arguments = [], []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            if parameter.required or parameter.name == name:
                arguments.append(text if parameter.name == name else "1")
        elif parameter.name == name:
            options.append(f"{parameter.opts[0]}={text}")
    command.make_context(command.name, [*options, "--", *arguments])


def test_the_numbers_are_found() -> None:
    named = {f"{command.name} {name}" for command, name in NUMBERS}
    assert named >= {
        "uvm hours",
        "uvm seed",
        "mutate only",
        "matmul m",
        "chat top_p",
        "gemm jobs",
        "layer index",
    }


@pytest.mark.parametrize(("command", "name"), NUMBERS, ids=[f"{each.name}-{name}" for each, name in NUMBERS])
def test_what_is_no_number_is_refused_by_name(command: typer.core.TyperCommand, name: str) -> None:
    for text in NONE:
        with pytest.raises(typer.BadParameter, match=r"it must be a (whole )?number") as refused:
            parse(command, name, text)
        assert refused.value.param is not None
        assert refused.value.param.name == name
    parse(command, name, "2")


@pytest.mark.parametrize(
    ("command", "name"),
    [(each, name) for each, name in NUMBERS if name in ("seed", "hours", "count", "jobs", "index", "layers")],
    ids=lambda each: getattr(each, "name", each),
)
def test_what_cannot_be_negative_is_refused(command: typer.core.TyperCommand, name: str) -> None:
    with pytest.raises(typer.BadParameter, match="'-1': it must be"):
        parse(command, name, "-1")


def test_scripts_read_numbers_likewise() -> None:
    plain = re.compile(r"type=(int|float)\b")
    files = [
        file
        for folder in ("benchmarks", "examples", "scripts", "spec")
        for file in (ROOT / folder).rglob("*.py")
    ]
    assert len(files) > 20
    assert not [str(file) for file in files if plain.search(file.read_text(encoding="utf-8"))]


def test_ranges() -> None:
    assert [Whole(1, 9)(text) for text in ("1", "+9", "0x9", "007")] == [1, 9, 9, 7]
    assert [Real(0, 1)(text) for text in ("0", "1", ".5", "1.", "2.5e-1")] == [0, 1, 0.5, 1, 0.25]
    assert Wholes(Whole(1))("3,1") == (3, 1)
    for read, text in (
        (Whole(1, 9), "0"),
        (Whole(1, 9), "10"),
        (Real(0, 1), "1.1"),
        (Real(0, 1, above=True), "0"),
    ):
        with pytest.raises(NumeralError, match=re.escape(text)):
            read(text)


def test_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEED", raising=False)
    assert choose_seed(5) == 5
    assert 0 <= choose_seed() <= SEED.most
    monkeypatch.setenv("SEED", "0x10")
    assert choose_seed(5) == 16
    for text in ("-1", "1_0", str(SEED.most + 1), "a"):
        monkeypatch.setenv("SEED", text)
        with pytest.raises(ValueError, match="SEED="):
            choose_seed()
