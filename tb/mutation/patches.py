"""Known bugs, kept as patches of the RTL, as changes behind the selector.

A patch is a unified diff after sentences that describe the bug. A line `Tests: a, b` there names suites or
tests to run first; all others follow. A line `Search: fuzz 200000` names a random campaign that must find the
bug too (see `searches`).
"""

import dataclasses
import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyslang import parsing

from echo_sim.places import RTL
from tb.mutation.schemata import Edit
from tb.mutation.searches import Search, SearchError, parse_search
from tb.mutation.syntax import RtlSource, children, kind_of, one_line
from tb.mutation.widths import Arithmetic, arithmetic_of
from tb.repository import ROOT
from tb.results import UnjudgedError

FOLDER = ROOT / "tests" / "bugs"


class PatchError(UnjudgedError):
    """A patch that is malformed, does not apply, or has a change that cannot be selected."""


@dataclasses.dataclass(frozen=True)
class Bug:
    """A known bug.

    Attributes:
        name: file name of the patch, without suffix.
        text: description.
        hints: tests to run first.
        edits: its changes of the RTL.
        search: the random campaign that must find it, if any.
    """

    name: str
    text: str
    hints: tuple[str, ...]
    edits: tuple[Edit, ...]
    search: Search | None = None

    @property
    def shows_on_board(self) -> bool:
        """Whether a test of the whole device is named that finds it."""
        return any(not hint.startswith("tests/rtl/") for hint in self.hints)


def bug_names() -> list[str]:
    """Return the names of all known bugs, sorted. To load the bugs takes long: each is compared by syntax."""
    return sorted(path.stem for path in FOLDER.glob("*.patch"))


@functools.cache
def load_bugs() -> tuple[Bug, ...]:
    """Load all known bugs, sorted by name, once. Raises PatchError."""
    return tuple(load_bug(FOLDER / f"{name}.patch") for name in bug_names())


def load_bug(path: Path) -> Bug:
    """Load the bug in a patch.

    Raises PatchError: it has no description, does not apply to the RTL, or cannot be selected.
    """
    head, _, _ = path.read_text(encoding="utf-8").partition("--- a/")
    hints = re.search(r"^Tests: (.*)$", head, re.MULTILINE)
    search = re.search(r"^Search: (.*)$", head, re.MULTILINE)
    text = " ".join(line for line in head.split("\n") if line and not line.startswith(("Tests:", "Search:")))
    if not text:
        raise PatchError(f"{path.name}: it must begin with what the bug is")
    edits: list[Edit] = []
    for name, changed in apply(path).items():
        edits += differences(_unchanged(name), RtlSource(RTL / name, changed))
    if not edits:
        raise PatchError(f"{path.name}: it changes nothing")
    names = tuple(name.strip() for name in hints[1].split(",")) if hints else ()
    try:
        campaign = parse_search(search[1]) if search else None
    except SearchError as error:
        raise PatchError(f"{path.name}: {error}") from None
    return Bug(path.stem, text.strip(), names, tuple(edits), campaign)


@functools.cache
def _unchanged(name: str) -> RtlSource:
    """Parse a file of rtl/, once for all patches of it."""
    return RtlSource(RTL / name)


def apply(path: Path) -> dict[str, str]:
    """Return the patched texts of the files in rtl/, by name.

    Raises PatchError: a hunk does not fit exactly once.
    """
    files: dict[str, str] = {}
    name = ""
    diff = path.read_text(encoding="utf-8")
    for part in re.split(r"^(?=--- a/|@@ )", diff, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        if lines[0].startswith("--- a/"):
            match = re.fullmatch(r"\+\+\+ b/rtl/(\S+)", lines[1])
            if match is None:
                raise PatchError(f"{path.name}: it must change files in rtl/")
            name = match[1]
            files[name] = (RTL / name).read_text(encoding="utf-8")
            continue
        old = "".join(f"{line[1:]}\n" for line in lines[1:] if line[:1] in (" ", "-", ""))
        new = "".join(f"{line[1:]}\n" for line in lines[1:] if line[:1] in (" ", "+", ""))
        if files[name].count(old) != 1:
            raise PatchError(f"{path.name}: {lines[0]} fits {files[name].count(old)} times into rtl/{name}")
        files[name] = files[name].replace(old, new)
    return files


def differences(old: RtlSource, new: RtlSource) -> list[Edit]:
    """Return the smallest expressions and statements of `old` that differ in `new`, and new declarations.

    The selector's `?:` extends both sides to the wider one, and makes both unsigned if one is. An expression
    is therefore edited only if its width and sign are equal in both; otherwise a larger one around it is.

    Raises PatchError: the difference cannot be expressed so.
    """
    places = {(site.start, site.end) for site in old.sites() if site.kind == "expression"}
    search = _Differences(old, new, places)
    found = search.below(old.root, new.root)
    if found is None:
        reason = search.refused or "the change is in no expression or statement that can be selected"
        raise PatchError(f"{old.path.name}: {reason}")
    return found


def _words(node: Any) -> list[str]:
    """Return the tokens of a node, regardless of layout."""
    if isinstance(node, parsing.Token):
        return [str(node.rawText)]
    return [word for child in node if child is not None for word in _words(child)]


class _Differences:
    def __init__(self, old: RtlSource, new: RtlSource, places: set[tuple[int, int]]) -> None:
        self._old = old
        self._new = new
        self._places = places
        self.refused = ""
        """Why the last expression tried is not evaluated alike on both sides; "" if none was."""

    def below(self, old: Any, new: Any) -> list[Edit] | None:
        """Return the edits that turn one node into the other; None if they cannot be expressed."""
        if _words(old) == _words(new):
            return []
        found = self._inside(old, new)
        return self._whole(old, new) if found is None else found

    def _inside(self, old: Any, new: Any) -> list[Edit] | None:
        ours, theirs = children(old), children(new)
        if old.kind != new.kind or _own(old) != _own(new):
            return None
        if len(ours) != len(theirs):
            return (
                self._members(ours, theirs) if kind_of(old) in ("ModuleDeclaration", "SyntaxList") else None
            )
        edits: list[Edit] = []
        for our, their in zip(ours, theirs, strict=True):
            found = self.below(our, their)
            if found is None:
                return None
            edits += found
        return edits

    def _members(self, ours: Sequence[Any], theirs: Sequence[Any]) -> list[Edit] | None:
        """Return the edits of a list into which declarations were inserted."""
        edits: list[Edit] = []
        rest = list(ours)
        for their in theirs:
            if kind_of(their) == "DataDeclaration" and not (
                rest and kind_of(rest[0]) == "DataDeclaration" and len(_words(rest[0])) == len(_words(their))
            ):
                if not rest:
                    return None
                at = self._old.span(rest[0])
                if at is None:
                    return None
                edits.append(
                    Edit(self._old.path.name, "insertion", at[0], at[0], f"{self._new.text_of(their)}\n")
                )
                continue
            if not rest:
                return None
            found = self.below(rest.pop(0), their)
            if found is None:
                return None
            edits += found
        return None if rest else edits

    def _whole(self, old: Any, new: Any) -> list[Edit] | None:
        span = self._old.span(old)
        if span is None:
            return None
        if span in self._places and self._alike(old, new):
            return [Edit(self._old.path.name, "expression", *span, self._new.text_of(new))]
        if kind_of(old).endswith("Statement") and kind_of(old) != "TimingControlStatement":
            return [Edit(self._old.path.name, "statement", *span, self._new.text_of(new))]
        return None

    def _alike(self, old: Any, new: Any) -> bool:
        """Return whether both have the same width and sign, so that `?:` preserves their meaning."""
        ours, theirs = _evaluated(self._old, old), _evaluated(self._new, new)
        if ours and ours == theirs:
            return True
        texts = [f"`{one_line(self._old.text_of(old))}` is {_as_text(ours)}"]
        texts.append(f"`{one_line(self._new.text_of(new))}` {_as_text(theirs)}")
        self.refused = f"{' and '.join(texts)}: `?:` would change the meaning of one; cast it"
        return False


def _evaluated(source: RtlSource, node: Any) -> tuple[Arithmetic, ...]:
    """Return how an expression is evaluated in each instance of its module; empty without instances."""
    while kind_of(node) == "ParenthesizedExpression":
        node = node.expression
    span = source.span(node)
    return arithmetic_of(source).get(span, ()) if span is not None else ()


def _as_text(copies: Sequence[Arithmetic]) -> str:
    """Describe widths and signs."""
    words = (f"{each.bits} bits{' signed' if each.signed else ''}" for each in copies)
    return ", ".join(dict.fromkeys(words)) or "not elaborated"


def _own(node: Any) -> list[str]:
    return [str(child.rawText) for child in node if isinstance(child, parsing.Token)]
