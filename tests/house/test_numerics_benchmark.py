"""The measurement behind docs/numerics.md: it writes the page's table, and sees what is beyond its bound."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import numerics
from spec.marked_page import generated_part
from tb.committed_cycles import UPDATE_VARIABLE


def test_the_page_has_the_table() -> None:
    lines, exceeded = numerics.table(1 << 12)
    assert exceeded == 0
    listed = generated_part(numerics.PAGE, numerics.COMMAND)
    assert [line.split("|")[1:3] for line in listed] == [line.split("|")[1:3] for line in lines]


@pytest.mark.parametrize("updating", [False, True])
def test_the_page_is_written_only_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, updating: bool
) -> None:
    page = tmp_path / "numerics.md"
    before = numerics.PAGE.read_text(encoding="utf-8")
    page.write_text(before, encoding="utf-8")
    monkeypatch.setattr(numerics, "PAGE", page)
    monkeypatch.setattr(numerics, "table", lambda count: ([f"{count} arguments"], 0))
    monkeypatch.setattr(sys, "argv", ["numerics", "--log2-count", "5"])
    monkeypatch.delenv(UPDATE_VARIABLE, raising=False)
    if updating:
        monkeypatch.setenv(UPDATE_VARIABLE, "1")
    assert numerics.main() == 0
    assert capsys.readouterr().out == "32 arguments\n"
    assert ("32 arguments" in page.read_text(encoding="utf-8")) == updating


def test_no_error_of_the_page_is_above_its_bound() -> None:
    page = numerics.PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `.*\| ([\d.]+) \| ([\d.]+) \| \S+ \|$", page, re.MULTILINE)
    assert len(rows) > 20
    for bound, worst in rows:
        assert float(worst) <= float(bound)


def test_arguments_have_all_exponents_and_kinds() -> None:
    x = np.concatenate(list(numerics.arguments(1 << 12)))
    assert {*np.frexp(x[np.isfinite(x)])[1].tolist()} >= set(range(-126, 129))
    assert {*np.signbit(x)} == {True, False}
    assert np.isnan(x).any()
    assert np.isinf(x).any()
    assert np.any((x != 0) & (np.abs(x) < 2.0**-126))


def test_a_wrong_function_is_seen() -> None:
    for wrong in (lambda x: (x.view(np.uint32) ^ np.uint32(1)).view(np.float32), np.negative):
        near, far = numerics.measure("wrong", wrong, np.positive, lambda x: np.full(x.shape, 0.5), 1 << 12)
        assert near.exceeded > 1000
        assert far.exceeded > 1000
        assert near.ulp >= 1
    near, far = numerics.measure("right", np.positive, np.positive, lambda x: np.zeros(x.shape), 1 << 12)
    assert near.exceeded + far.exceeded == 0
