"""What a coverage plan is made of: axes with bins, crosses of them, and bins that nothing can reach."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

Bin = tuple[str, ...]
"""A bin of a cross, one label for each of its axes; of an axis alone, one label."""


@dataclasses.dataclass(frozen=True)
class ExcludedBins:
    """Bins that cannot be reached: those that have one of the given labels on each of the given axes."""

    labels: Mapping[str, Sequence[str]]
    reason: str

    def holds(self, axes: Sequence[str], labels: Bin) -> bool:
        """Whether a bin, whose labels are those of `axes`, is among them."""
        place = dict(zip(axes, labels, strict=True))
        return all(place.get(axis) in wanted for axis, wanted in self.labels.items())


@dataclasses.dataclass(frozen=True)
class CoverAxis:
    """One property of what is sampled, and the values that it is sorted into."""

    name: str
    labels: tuple[str, ...]
    why: str


@dataclasses.dataclass(frozen=True)
class Cross:
    """All combinations of several axes of a group."""

    name: str
    axes: tuple[str, ...]
    why: str
    excluded: tuple[ExcludedBins, ...] = ()


@dataclasses.dataclass(frozen=True)
class CoverGroup:
    """What is sampled together.

    Attributes:
        name: of the group in the library's tree.
        source: where samples come from, in words.
        axes, crosses: what is counted.
        excluded: bins of single axes that cannot be reached.
    """

    name: str
    source: str
    axes: tuple[CoverAxis, ...]
    crosses: tuple[Cross, ...] = ()
    excluded: tuple[ExcludedBins, ...] = ()

    def __post_init__(self) -> None:
        known = {axis.name for axis in self.axes}
        for name in (*known, *(cross.name for cross in self.crosses)):
            # The library's merge takes each element whose tag contains "bin" for a bin.
            if "bin" in name or not name.isidentifier():
                raise ValueError(f"{self.name}.{name}: not a name that the library can merge")
        for cross in self.crosses:
            for name in (*cross.axes, *(axis for each in cross.excluded for axis in each.labels)):
                if name not in known:
                    raise ValueError(f"{self.name}.{cross.name}: there is no axis {name}")
        for axis, label in self._excluded_labels():
            if label not in self.axis(axis).labels:
                raise ValueError(f"{self.name}.{axis} has no bin {label!r} to exclude")

    def _excluded_labels(self) -> Iterator[tuple[str, str]]:
        everything = itertools.chain(self.excluded, *(cross.excluded for cross in self.crosses))
        for each in everything:
            for axis, labels in each.labels.items():
                yield from ((axis, label) for label in labels)

    def axis(self, name: str) -> CoverAxis:
        """The axis of that name."""
        return next(axis for axis in self.axes if axis.name == name)

    def counters(self) -> Iterator[Counter]:
        """Every axis and every cross."""
        for axis in self.axes:
            yield Counter(self.name, axis.name, axis.why, (axis,), self.excluded)
        for cross in self.crosses:
            axes = tuple(self.axis(name) for name in cross.axes)
            # What an axis can never be, it can never be together with something.
            yield Counter(self.name, cross.name, cross.why, axes, (*self.excluded, *cross.excluded))


@dataclasses.dataclass(frozen=True)
class Counter:
    """An axis or a cross, as it is counted: a CoverPoint or a CoverCross of the library."""

    group: str
    item: str
    why: str
    axes: tuple[CoverAxis, ...]
    excluded: tuple[ExcludedBins, ...]

    @property
    def name(self) -> str:
        """In the library's tree."""
        return f"npu.{self.group}.{self.item}"

    def bins(self) -> list[Bin]:
        """All bins, in the library's order."""
        return list(itertools.product(*(axis.labels for axis in self.axes)))

    def reason(self, labels: Bin) -> str:
        """Why a bin cannot be reached; empty when it can."""
        names = [axis.name for axis in self.axes]
        for each in self.excluded:
            # An exclusion that names an axis which is not here says nothing about this counter.
            if each.labels.keys() <= set(names) and each.holds(names, labels):
                return each.reason
        return ""
