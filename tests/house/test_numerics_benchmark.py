"""The measurement behind docs/numerics.md: it writes the page's table, and sees what is beyond its bound."""

import re

import numpy as np

from benchmarks import numerics
from spec.marked_page import generated_part


def test_the_page_has_the_table() -> None:
    lines, exceeded = numerics.table(1 << 12)
    assert exceeded == 0
    listed = generated_part(numerics.PAGE, numerics.COMMAND)
    assert [line.split("|")[1:3] for line in listed] == [line.split("|")[1:3] for line in lines]


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
