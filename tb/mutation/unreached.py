"""Cuts of bits that never change, as the exclusions of toggle coverage say, with the reason of each.

A coverage run fails where an exclusion describes a bit that has changed, so none of them is only believed.
"""

import re
from collections.abc import Sequence
from typing import Final

from tb.coverage.exclusions import Exclusion
from tb.mutation.schemata import Mutant
from tb.mutation.syntax import RtlSource
from tb.mutation.widths import widths_of
from tb.repository import ROOT

_CUT: Final = re.compile(r"(?P<bits>\d+)'\((?P<signal>[A-Za-z_][\w.]*(?:\[\w+\])?)\)")
_BITS: Final = re.compile(r"(?P<signal>.+?)\[(?P<high>\d+):(?P<low>\d+)\]")


def why_unreached(mutant: Mutant, source: RtlSource, exclusions: Sequence[Exclusion]) -> str:
    """Return why the bits that a mutant cuts off never change; empty if it cuts others, or none.

    Args:
        source: the mutant's file.
    """
    if mutant.operator != "width" or len(mutant.edits) != 1:
        return ""
    (edit,) = mutant.edits
    cut = _CUT.fullmatch(edit.mutated)
    width = widths_of(source).get((edit.start, edit.end), 0)
    if cut is None or not width:
        return ""
    wanted = set(range(int(cut["bits"]), width))
    signal = re.sub(r"\[\w+\]", "[*]", cut["signal"])
    for exclusion in exclusions:
        if exclusion.kind != "toggle" or exclusion.file != str(source.path.relative_to(ROOT)):
            continue
        for text in exclusion.match:
            parsed = _BITS.fullmatch(text)
            if parsed is None or parsed["signal"] != signal:
                continue
            wanted -= set(range(int(parsed["low"]), int(parsed["high"]) + 1))
            if not wanted:
                return f"bits that never change: {exclusion.reason}"
    return ""
