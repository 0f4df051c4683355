"""Where the intermediate results of a recorded graph lie: those that live at different times share memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_ALIGNMENT: Final = 64


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A block and the launches between which it is in use, both included."""

    nbytes: int
    first: int
    last: int


def layout(blocks: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Return the offset of each block, a multiple of 64, and the bytes of all together.

    Blocks that are in use at the same launch do not overlap. Each block, in the order of its first use, gets
    the first gap that is large enough.
    """
    offsets = [0] * len(blocks)
    placed: list[tuple[int, int, int]] = []  # (offset, end, last), ascending, those still in use
    total = 0
    for number in sorted(range(len(blocks)), key=lambda i: blocks[i].first):
        block = blocks[number]
        placed = [each for each in placed if each[2] >= block.first]
        at = 0
        for offset, end, _ in placed:
            if at + block.nbytes <= offset:
                break
            at = end
        offsets[number] = at
        end = at + -(-max(block.nbytes, 1) // _ALIGNMENT) * _ALIGNMENT
        placed.append((at, end, block.last))
        placed.sort()
        total = max(total, end)
    return offsets, total
