"""Plots of the benchmark report, drawn from its JSON results."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from echo_npu.benchmark.products import Product

Json: TypeAlias = Mapping[str, Any]

# Colours that colour-blind people can tell apart (Okabe and Ito 2008), and a marker each.
STYLES = {
    "fp32": ("#0072B2", "o"),
    "bf16": ("#E69F00", "s"),
    "fp16": ("#009E73", "^"),
    "int8": ("#D55E00", "D"),
}
MATRIX, VECTOR, LIMIT = "#0072B2", "#E69F00", "#888888"


def roofline(products: Sequence[Json], bus_bytes: int, peaks: Mapping[str, int]) -> Figure:
    """Plot multiply-accumulates per cycle against intensity, with a roof per peak and a point per product."""
    figure, axes = _figure(8, 5.2)
    _draw_roofline(axes, products, bus_bytes, peaks)
    return figure


def overview(products: Sequence[Json], bus_bytes: int, peaks: Mapping[str, int]) -> Figure:
    """Plot the roofline, and how near each product comes to its bound."""
    figure = Figure(figsize=(12, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_roofline(left, products, bus_bytes, peaks)
    for dtype, group in _by_type(products).items():
        _points(right, dtype, [each["macs"] for each in group], [each["roofline"] for each in group])
    right.set_xscale("log", base=2)
    right.set_ylim(0, 1.05)
    right.set_xlabel("multiply-accumulates of the product")
    right.set_ylabel("roofline: fewest possible cycles / cycles")
    right.set_title("Matrix products of real networks against what the hardware permits", fontsize=10)
    _finish(right, legend=False)
    return figure


def utilisation(products: Sequence[Json]) -> Figure:
    """Plot the used part of the array's peak per product and type, and the part that the bound allows."""
    names = list(dict.fromkeys(_name(each) for each in products))
    figure, axes = _figure(9, 1.2 + 0.24 * len(names))
    groups = _by_type(products)
    offsets = np.linspace(-0.3, 0.3, len(groups)) if len(groups) > 1 else [0.0]
    for offset, (dtype, group) in zip(offsets, groups.items(), strict=True):
        colour, _ = STYLES[dtype]
        y = [names.index(_name(each)) + offset for each in group]
        used = [each["utilisation"] for each in group]
        allowed = [each["utilisation"] / each["roofline"] for each in group]
        axes.barh(y, allowed, height=0.6 / len(groups), color=LIMIT, alpha=0.25)
        axes.barh(y, used, height=0.6 / len(groups), color=colour, label=dtype)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(0, 1.02)
    axes.set_xlabel("utilisation; grey: what the bound allows")
    _finish(axes, legend=False)
    figure.legend(loc="outside upper center", ncols=len(groups), fontsize=8)
    return figure


def layer(operations: Sequence[Json]) -> Figure:
    """Plot the cycles of each operation of a layer, in execution order."""
    figure, axes = _figure(9, 1 + 0.26 * len(operations))
    total = sum(each["cycles"] for each in operations)
    for kind, colour in (("matrix engine", MATRIX), ("vector engine and copies", VECTOR)):
        chosen = [
            (row, each) for row, each in enumerate(operations) if (each["macs"] > 0) == (colour == MATRIX)
        ]
        axes.barh(
            [row for row, _ in chosen], [each["cycles"] for _, each in chosen], color=colour, label=kind
        )
    for row, each in enumerate(operations):
        share = each["cycles"] / total
        axes.text(each["cycles"], row, f" {each['cycles']:,} ({share:.0%})", va="center", fontsize=7)
    axes.set_yticks(
        range(len(operations)), [f"{each['name']}  {each['shape']}" for each in operations], fontsize=7
    )
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel(f"cycles; {total:,} together")
    _finish(axes)
    return figure


def bus(operations: Sequence[Json]) -> Figure:
    """Plot the share of its cycles in which each operation moves a beat."""
    figure, axes = _figure(9, 1 + 0.28 * len(operations))
    rows = range(len(operations))
    axes.barh(rows, [each["bus"] for each in operations], color=VECTOR)
    for row, each in enumerate(operations):
        axes.text(each["bus"], row, f" {each['bus']:.2f}", va="center", fontsize=8)
    axes.axvline(1, color=LIMIT, linestyle="--", linewidth=1)
    axes.set_yticks(rows, [f"{each['name']}  {each['shape']}" for each in operations], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.1)
    axes.set_xlabel("beats of the busier direction / cycles")
    _finish(axes, legend=False)
    return figure


def bars(values: Mapping[str, float], label: str) -> Figure:
    """Draw a labelled bar per value."""
    figure, axes = _figure(9, 1 + 0.35 * len(values))
    rows = range(len(values))
    axes.barh(rows, list(values.values()), color=MATRIX)
    for row, value in enumerate(values.values()):
        axes.text(value, row, f" {value:,.0f}", va="center", fontsize=8)
    axes.set_yticks(rows, list(values), fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel(label)
    _finish(axes, legend=False)
    return figure


def speed_up(
    workers: Sequence[int], curves: Mapping[str, Sequence[float]], points: Mapping[str, tuple[int, float]]
) -> Figure:
    """Plot speed-up against workers: a line per modelled curve, a point per measurement, and the ideal."""
    figure, axes = _figure(7, 4.4)
    axes.plot(workers, workers, color=LIMIT, linestyle="--", linewidth=1, label="as many times as workers")
    colours = (colour for colour, _ in STYLES.values())
    for (name, values), colour in zip(curves.items(), colours, strict=False):
        axes.plot(workers, values, color=colour, marker="o", markersize=4, label=name)
    for name, (count, value) in points.items():
        axes.plot([count], [value], color="black", linestyle="none", marker="x", markersize=8, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(workers, [str(count) for count in workers])
    axes.set_yticks(workers, [str(count) for count in workers])
    axes.set_xlabel("workers")
    axes.set_ylabel("speed-up against one simulation")
    _finish(axes, legend=False)
    axes.legend(fontsize=8, loc="upper left", framealpha=0.9)
    return figure


def _draw_roofline(axes: Axes, products: Sequence[Json], bus_bytes: int, peaks: Mapping[str, int]) -> None:
    intensities = [each["intensity"] for each in products]
    low, high = min(intensities) / 2, max([*intensities, *(peak / bus_bytes for peak in peaks.values())]) * 2
    x = np.geomspace(low, high, 200)
    for peak in sorted(set(peaks.values())):
        axes.plot(x, np.minimum(peak, bus_bytes * x), color=LIMIT, linewidth=1.2)
        types = ", ".join(dtype for dtype, value in peaks.items() if value == peak)
        axes.annotate(
            f"{peak} MACs a cycle: {types}",
            (high, peak),
            xytext=(-2, 4),
            textcoords="offset points",
            ha="right",
            fontsize=8,
        )
    middle = min(peaks.values()) / bus_bytes / 4
    axes.annotate(
        f"{bus_bytes} bytes a cycle",
        (middle, bus_bytes * middle),
        xytext=(-6, 4),
        textcoords="offset points",
        ha="right",
        fontsize=8,
    )
    for dtype, group in _by_type(products).items():
        _points(
            axes,
            dtype,
            [each["intensity"] for each in group],
            [each["macs"] / each["cycles"] for each in group],
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_ylim(top=2 * max(peaks.values()))
    axes.set_xlabel("intensity: MACs for a byte of the busier direction of the bus")
    axes.set_ylabel("MACs a cycle")
    axes.set_title("Roofline", fontsize=10)
    _finish(axes)


def _points(axes: Axes, dtype: str, x: Sequence[float], y: Sequence[float]) -> None:
    """Plot a point per product of a type."""
    colour, marker = STYLES[dtype]
    axes.plot(x, y, linestyle="none", marker=marker, color=colour, label=dtype, markersize=5, alpha=0.8)


def _by_type(products: Sequence[Json]) -> dict[str, list[Json]]:
    return {
        dtype: group for dtype in STYLES if (group := [each for each in products if each["dtype"] == dtype])
    }


def _name(product: Json) -> str:
    fields = ("m", "k", "n", "batch", "trans_b")
    return str(Product(**{name: product[name] for name in fields}))


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _finish(axes: Axes, *, legend: bool = True) -> None:
    axes.grid(alpha=0.3, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if legend:
        axes.legend(fontsize=8, loc="lower right", framealpha=0.9)
