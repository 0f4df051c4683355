"""Parts of the hierarchy in which a changed module is compared: alone, with those below, and around it."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from tb.mutation.equivalence.circuit import CLOCK_GATE, Modules, base_of

MOST_WEIGHT = 250_000
"""Estimated gates of a scope besides those of modules that must be open. In a larger one, the heaviest others
are boxes."""
_PER_BIT = {"$add": 8, "$sub": 8, "$neg": 8, "$lt": 8, "$le": 8, "$gt": 8, "$ge": 8, "$eq": 4, "$ne": 4}
_SHIFTS = frozenset(("$shl", "$shr", "$sshl", "$sshr", "$shiftx"))


@dataclasses.dataclass(frozen=True)
class Scope:
    """A module with what is below it, but for the modules `boxes`; alone unless `inlined`.

    Attributes:
        word: what it is, for a report.
        around: whether it is more than the changed module and what is below it.
    """

    top: str
    inlined: bool
    word: str
    boxes: frozenset[str] = frozenset()
    around: bool = False


def scopes(modules: Modules, changed: Mapping[str, object], name: str) -> Iterator[Scope]:
    """Yield the scopes of an instance of the changed module, smallest first."""
    yield Scope(name, False, "module")
    weights = _Weights(modules)
    if children(modules, name):
        yield Scope(name, True, "module with those below it", weights.boxes(name, set(changed)))
    parents = {child: parent for parent in modules for child in children(modules, parent)}
    top = name
    while top in parents:
        top = parents[top]
        open_modules = set(changed)
        for each in changed:
            while each in parents and each != top:
                each = parents[each]
                open_modules.add(each)
        yield Scope(top, True, f"in {base_of(top)}", weights.boxes(top, open_modules), True)


def children(modules: Modules, name: str) -> list[str]:
    """Return the modules of the instances in a module, clock gates apart."""
    kinds = (cell["type"] for cell in modules[name]["cells"].values())
    return [kind for kind in kinds if not kind.startswith("$") and base_of(kind) != CLOCK_GATE]


class _Weights:
    """Estimated gates of modules."""

    def __init__(self, modules: Modules) -> None:
        self._modules = modules
        self._own: dict[str, int] = {}
        self._children: dict[str, list[str]] = {}

    def _of(self, name: str) -> tuple[int, list[str]]:
        if name not in self._own:
            cells = self._modules[name]["cells"].values()
            self._own[name] = sum(map(_weight, cells))
            self._children[name] = children(self._modules, name)
        return self._own[name], self._children[name]

    def _total(self, name: str, boxes: set[str]) -> int:
        own, below = self._of(name)
        return own + sum(self._total(each, boxes) for each in below if each not in boxes)

    def _below(self, name: str, boxes: set[str]) -> Iterator[str]:
        for each in self._of(name)[1]:
            if each not in boxes:
                yield each
                yield from self._below(each, boxes)

    def boxes(self, top: str, open_modules: set[str]) -> frozenset[str]:
        """Return the modules that are boxes so that the others are not too heavy."""
        boxes: set[str] = set()
        fixed = sum(self._of(each)[0] for each in {top, *self._below(top, boxes)} & open_modules)
        while self._total(top, boxes) > MOST_WEIGHT + fixed:
            others = [each for each in self._below(top, boxes) if each not in open_modules]
            if not others:
                break
            # Not with what is below: the engines stay open, their arithmetic does not.
            boxes.add(max(others, key=lambda each: (self._of(each)[0], each)))
        return frozenset(boxes)


def _weight(cell: Mapping[str, Any]) -> int:
    kind, connections = cell["type"], cell["connections"]
    if not kind.startswith("$") or "Y" not in connections:
        return 0
    width = max(map(len, connections.values()))
    if kind == "$mul":
        return 6 * width * width
    if kind in _SHIFTS:
        return 3 * width * len(connections["B"])
    return width * _PER_BIT.get(kind, 3)
