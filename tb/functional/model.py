"""Elements of a coverage plan: axes with bins, crosses of axes, and unreachable bins."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

Bin = tuple[str, ...]
"""A bin: one label for each axis of its cross, or one label for a single axis."""


@dataclasses.dataclass(frozen=True)
class ExcludedBins:
    """Unreachable bins: those with one of the given labels on each given axis."""

    labels: Mapping[str, Sequence[str]]
    reason: str

    def holds(self, axes: Sequence[str], labels: Bin) -> bool:
        """Return whether it excludes the bin with these labels on these axes."""
        place = dict(zip(axes, labels, strict=True))
        return all(place.get(axis) in wanted for axis, wanted in self.labels.items())


@dataclasses.dataclass(frozen=True)
class CoverAxis:
    """A sampled property and the classes of its values."""

    name: str
    labels: tuple[str, ...]
    why: str


@dataclasses.dataclass(frozen=True)
class Cross:
    """All combinations of several axes of a group."""

    name: str
    axes: tuple[str, ...]
    why: str


@dataclasses.dataclass(frozen=True)
class CoverGroup:
    """Properties that are sampled together.

    Attributes:
        name: of the group in the library's tree.
        source: what is sampled, in words.
        axes: the properties.
        crosses: the combinations that are counted.
        excluded: unreachable bins, of every counter that has all their axes.
    """

    name: str
    source: str
    axes: tuple[CoverAxis, ...]
    crosses: tuple[Cross, ...] = ()
    excluded: tuple[ExcludedBins, ...] = ()

    def __post_init__(self) -> None:
        known = {axis.name for axis in self.axes}
        for name in (*known, *(cross.name for cross in self.crosses)):
            # The library's merge treats each element whose tag contains "bin" as a bin.
            if "bin" in name or not name.isidentifier():
                raise ValueError(f"{self.name}.{name}: not a name that the library can merge")
        for cross in self.crosses:
            for name in cross.axes:
                if name not in known:
                    raise ValueError(f"{self.name}.{cross.name}: there is no axis {name}")
        for each in self.excluded:
            for axis, labels in each.labels.items():
                for label in labels:
                    if axis not in known or label not in self.axis(axis).labels:
                        raise ValueError(f"{self.name}.{axis} has no bin {label!r} to exclude")

    def axis(self, name: str) -> CoverAxis:
        """Return the axis of that name."""
        return next(axis for axis in self.axes if axis.name == name)

    def counters(self) -> Iterator[Counter]:
        """Yield every axis and every cross as a counter."""
        for axis in self.axes:
            yield Counter(self.name, axis.name, axis.why, (axis,), self.excluded)
        for cross in self.crosses:
            axes = tuple(self.axis(name) for name in cross.axes)
            yield Counter(self.name, cross.name, cross.why, axes, self.excluded)


@dataclasses.dataclass(frozen=True)
class Counter:
    """A counted axis or cross: a CoverPoint or a CoverCross of the library."""

    group: str
    item: str
    why: str
    axes: tuple[CoverAxis, ...]
    excluded: tuple[ExcludedBins, ...]

    @property
    def name(self) -> str:
        """Name in the library's tree."""
        return f"npu.{self.group}.{self.item}"

    def bins(self) -> list[Bin]:
        """Return all bins in the library's order."""
        return list(itertools.product(*(axis.labels for axis in self.axes)))

    def reason(self, labels: Bin) -> str:
        """Return why a bin is unreachable; empty if it is reachable."""
        names = [axis.name for axis in self.axes]
        for each in self.excluded:
            # An exclusion applies only if the counter has all its axes.
            if each.labels.keys() <= set(names) and each.holds(names, labels):
                return each.reason
        return ""
