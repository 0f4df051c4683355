"""The report of the benchmarks, made from made-up results."""

import base64
import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from benchmarks.page import render
from benchmarks.run import write_report
from tests.runtime.benchmark.canned import BATCHES, SINGLE, TRANSPOSED, results

SVG = "{http://www.w3.org/2000/svg}"


class Page(HTMLParser):
    """The parts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.images: dict[str, str] = {}
        self.links: list[str] = []
        self.headings: list[str] = []
        self.cells = 0
        self._heading = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "img":
            self.images[given["alt"] or ""] = given["src"] or ""
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        self.cells += tag == "td"
        self._heading = tag in ("h1", "h2")

    def handle_data(self, data: str) -> None:
        if self._heading:
            self.headings.append(data)
            self._heading = False


def pictures(page: Page) -> dict[str, ET.Element]:
    """Return the page's pictures, parsed, by their titles."""
    encoded = {alt: source.removeprefix("data:image/svg+xml;base64,") for alt, source in page.images.items()}
    return {alt: ET.fromstring(base64.b64decode(text)) for alt, text in encoded.items()}


def texts(picture: ET.Element) -> str:
    return " ".join("".join(each.itertext()) for each in picture.iter(f"{SVG}text"))


@pytest.fixture
def blank_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace pictures by blank ones, which take no time."""
    monkeypatch.setattr("tb.report.pictures.svg", lambda figure: "<svg/>")


def test_the_report_has_every_part_and_needs_no_other_file() -> None:
    page = Page(render(results()))
    assert page.headings == [
        "ECHO NPU benchmarks", "Goals", "Matrix products", "Right operand stored as [N, K]", "Attention",
        "A transformer layer: tiny", "Operations", "Simulation speed",
    ]  # fmt: skip
    assert all(link.startswith(("data:", "#")) for link in page.links)
    found = pictures(page)
    assert len(found) == 5  # both groups of products have pictures of the same titles
    for text in ("q <projection>", "3,000 together"):
        assert text in texts(found["Cycles of each operation of the layer"])
    assert "150,000" in texts(found["Simulated cycles a second"])
    for name in ("fp32", "bf16", "fp16", "int8", "1024 MACs a cycle: int8", "32 bytes a cycle"):
        assert name in texts(found["Multiply-accumulates a cycle against intensity"])
    rows = 4 * (len(SINGLE) + len(TRANSPOSED) + len(BATCHES))
    assert page.cells == 16 * rows + 6 * 2 + 5 * len(results()["goals"])


@pytest.mark.usefixtures("blank_pictures")
def test_figures_are_those_of_the_results() -> None:
    text = render(results())
    first = results()["gemm"]["products"][0]
    for figure in (f"<td>{first['cycles']:,}</td>", f"<td>{first['roofline']:.3f}</td>", "abc1234"):
        assert figure in text
    assert "Single rows reach at least 0.79" in text


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize(
    ("change", "shown", "missing"),
    [
        ({}, "Simulation speed", ["A short run", "FAILED"]),
        ({"quick": True, "goals": []}, "A short run", ["Goals"]),
        ({"simulation": None}, "Goals", ["Simulation speed"]),
        ({"layer": {**results()["layer"], "passed": False}}, "FAILED", []),
    ],
    ids=["whole", "short", "no simulation", "failure"],
)
def test_parts_that_a_run_may_have(change: dict[str, Any], shown: str, missing: list[str]) -> None:
    text = render({**results(), **change})
    assert shown in text
    assert not [word for word in missing if word in text]


@pytest.mark.usefixtures("blank_pictures")
def test_files_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_report(results(), tmp_path / "bench")
    assert json.loads((tmp_path / "bench/results.json").read_text(encoding="utf-8")) == results()
    assert "<!doctype html>" in (tmp_path / "bench/report.html").read_text(encoding="utf-8")
    assert "report.html" in re.sub(r"\s", "", capsys.readouterr().out)
