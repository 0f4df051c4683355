"""The docs' tables of the benchmarks agree with the committed cycles."""

import pytest

from benchmarks import committed, run
from echo_npu.benchmark.gemm import workload_name
from echo_npu.benchmark.goals import find_goals
from echo_npu.spec.data_types import DataType
from spec.marked_page import generated_part
from tests.runtime.benchmark.canned import BATCHES, SINGLE, TRANSPOSED, measured


def test_the_page_has_the_table_of_the_committed_cycles() -> None:
    shown = generated_part(committed.PAGE, committed.COMMAND)
    assert shown == committed.page_lines(committed.committed_products()), f"run {committed.COMMAND}"


def test_the_picture_shows_the_committed_cycles() -> None:
    drawn = run.picture(committed.committed_products())
    assert committed.PICTURE.read_text(encoding="utf-8") == drawn, f"run {committed.COMMAND}"


def test_every_committed_number_is_of_a_product() -> None:
    names = {workload_name(product, dtype) for product in committed.all_products() for dtype in DataType}
    assert set(committed.CYCLES.load(committed.CONFIG)) <= names


def test_goals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goals cover every product except those repeated in another layout."""
    products = {**dict.fromkeys(SINGLE, "networks"), **dict.fromkeys(TRANSPOSED, "transposed")}
    monkeypatch.setattr(committed, "all_products", lambda: products)
    judged = committed.judged_products(measured((*SINGLE, *TRANSPOSED)))
    assert {each.product for each in judged} == set(SINGLE)
    lines = committed.goal_lines(find_goals(judged))
    assert lines[0] == "| goal | wanted | measured | of | |"
    row = "| roofline of a single row, lowest | at least 0.9 | 0.798 | int8 1x576x1536 | **missed** |"
    assert row in lines
    assert "| overhead of the 16 cube, highest, cycles | at most 150 | 116 | fp32 16x16x16 | met |" in lines


def test_table(monkeypatch: pytest.MonkeyPatch) -> None:
    products = dict.fromkeys(SINGLE, "networks")
    products |= dict.fromkeys(TRANSPOSED, "transposed") | dict.fromkeys(BATCHES, "attention")
    monkeypatch.setattr(committed, "all_products", lambda: products)
    found = measured((*SINGLE, *TRANSPOSED, *BATCHES))
    lines = committed.table([each for each in found if each.name != "int8 16x16x16"])
    assert lines[0] == "| set | product | fp32 | bf16 | fp16 | int8 |"
    assert [line.split(" | ")[0] for line in lines[2:]] == [
        "| networks", "| ", "| ", "| ", "| transposed", "| attention", "| ",
        "| mean roofline", "| mean roofline", "| mean roofline",
    ]  # fmt: skip
    assert lines[2].startswith("| networks | 1x576x1536 | 138,430 0.02 0.80 | ")
    assert lines[3].endswith(" | - |")
    means = [(cells[1], float(cells[2])) for line in lines[-3:] for cells in [line.strip("| ").split(" | ")]]
    assert means == [
        ("single products", pytest.approx((138330 / 1.25 / 138430 * 0.8) ** 0.5, abs=1e-3)),
        ("transposed", pytest.approx(110664 / 138430, abs=1e-3)),
        ("attention", pytest.approx((2304 / 2980 * 57344 / 71780) ** 0.5, abs=1e-3)),
    ]
