"""Render the benchmark results as one self-contained HTML file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from matplotlib.figure import Figure

from benchmarks import plots
from tb.report import page, pictures

Json: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG as a data URL."""

    alt: str
    data: str


@dataclass(frozen=True, slots=True)
class Numbers:
    """A table; text is aligned left, numbers right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the report."""

    id: str
    title: str
    facts: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    table: Numbers | None = None


def render(results: Json) -> str:
    """Render what `benchmarks.run.measure` returns; the simulation's speed is optional."""
    sections = [
        *([_goals(results["goals"])] if results["goals"] else []),  # of all products, or not at all
        _products(results, "gemm", "Matrix products"),
        _products(results, "transposed", "Right operand stored as [N, K]"),
        _products(results, "attention", "Attention"),
        _layer(results["layer"]),
        _operations(results["operations"]),
    ]
    if results["simulation"]:
        sections.append(_simulation(results["simulation"]))
    return page.render("benchmarks", results=results, sections=sections)


def _goals(goals: Sequence[Json]) -> Section:
    return Section(
        id="goals",
        title="Goals",
        table=Numbers(
            ("goal", "wanted", "measured", "of", ""),
            [
                [
                    each["name"],
                    each["meant"],
                    each["value"],
                    each["product"],
                    "met" if each["met"] else "missed",
                ]
                for each in goals
            ],
        ),
    )


def _products(results: Json, key: str, title: str) -> Section:
    products, summary = results[key]["products"], results[key]["summary"]
    hardware = results["hardware"]
    means = ", ".join(f"{name} {mean:.3f}" for name, mean in summary["roofline_geometric_mean"].items())
    facts = [f"Roofline, geometric mean: {means}."]
    if summary["below"]:
        below = ", ".join(f"{name} {value:.3f}" for name, value in summary["below"].items())
        facts.append(f"Below what is wanted: {below}.")
    if summary["decode_lowest"] is not None:
        facts.append(f"Single rows reach at least {summary['decode_lowest']:.3f} of the roofline.")
    if summary["overhead_cycles"]:
        small = ", ".join(f"{name} {value:.0f}" for name, value in summary["overhead_cycles"].items())
        facts.append(f"Small products, cycles beyond the bound: {small}.")
    columns = (
        *("m", "k", "n", "batch", "trans_b", "dtype"),
        *("cycles", "macs", "utilisation", "bound", "bound_by", "roofline"),
    )
    stalls = ("stall_read", "stall_write", "stall_bus")
    return Section(
        id=key,
        title=title,
        facts=facts,
        pictures=[
            _picture(
                "Multiply-accumulates a cycle against intensity",
                plots.roofline(products, hardware["bus_bytes"], hardware["peak"]),
            ),
            _picture("Utilisation of each product in each type", plots.utilisation(products)),
        ],
        table=Numbers(
            ("set", *columns, *stalls),
            [
                [
                    each["set"],
                    *(each[name] for name in columns),
                    *(each["counters"].get(name) for name in stalls),
                ]
                for each in products
            ],
        ),
    )


def _layer(run: Json) -> Section:
    matrix = sum(each["cycles"] for each in run["ops"] if each["macs"])
    return Section(
        id="layer",
        title=f"A transformer layer: {run['layer']}",
        facts=[
            f"{run['cycles']:,} cycles for {run['tokens']} tokens, {matrix / run['cycles']:.0%} of them for "
            f"matrix products; every result checked: {'passed' if run['passed'] else 'FAILED'}."
        ],
        pictures=[_picture("Cycles of each operation of the layer", plots.layer(run["ops"]))],
    )


def _operations(operations: Sequence[Json]) -> Section:
    columns = ("name", "shape", "cycles", "commands", "beats", "bus")
    return Section(
        id="operations",
        title="Operations",
        facts=[
            "What takes few instructions an element is meant to reach the bandwidth of memory, a beat each "
            "cycle. What takes many is bound by the lanes."
        ],
        pictures=[_picture("Use of the memory bus by operations", plots.bus(operations))],
        table=Numbers(columns, [[each[name] for name in columns] for each in operations]),
    )


def _simulation(measured: Json) -> Section:
    return Section(
        id="simulation",
        title="Simulation speed",
        facts=measured["facts"],
        pictures=[
            _picture("Simulated cycles a second", plots.bars(measured["speeds"], "simulated cycles a second"))
        ],
    )


def _picture(alt: str, figure: Figure) -> Picture:
    return Picture(alt, pictures.address(figure))
