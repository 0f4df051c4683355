"""N-dimensional strided loops: whether they overlap, and how they become the two batch levels of a
command."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from echo_npu.commands.packets import MAX_BATCH


@dataclass(frozen=True, slots=True)
class Loop:
    """`count` steps; operand i moves on by `strides[i]` bytes a step."""

    count: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one command repeats: each operand's start (bytes), (inner, outer) counts and strides (bytes)."""

    offsets: tuple[int, ...]
    batch: tuple[int, int]
    strides: tuple[tuple[int, int], ...]  # for each operand (inner, outer)


def overlaps(nbytes: int, steps: Iterable[tuple[int, int]]) -> bool:
    """Return whether runs of `nbytes` bytes, one for each step of all loops, share bytes.

    Also True of runs that interlace without sharing any.

    Args:
        steps: (stride in bytes, count) of each loop.
    """
    extent = nbytes
    for stride, count in sorted(steps):
        if count == 1:
            continue
        if stride < extent:
            return True
        extent += (count - 1) * stride
    return False


def collapse(shape: Sequence[int], *strides: Sequence[int]) -> list[Loop]:
    """Return the loops over `shape`, outermost first, without loops of one step, merged where possible."""
    loops: list[Loop] = []
    for axis, count in enumerate(shape):
        if count == 1:
            continue
        inner = Loop(count, tuple(s[axis] for s in strides))
        if loops and all(a == b * count for a, b in zip(loops[-1].strides, inner.strides, strict=True)):
            inner = Loop(loops.pop().count * count, inner.strides)
        loops.append(inner)
    return loops


def chunks(loops: Sequence[Loop], operands: int) -> Iterator[Chunk]:
    """Yield a chunk for each command: the inner two loops are in the command, the others are unrolled."""
    one = Loop(1, (0,) * operands)
    *unrolled, outer, inner = [one, one, *loops]
    steps = [[(step, 1) for step in range(loop.count)] for loop in unrolled]
    for parts in itertools.product(*steps, _pieces(outer.count), _pieces(inner.count)):
        (_, outer_count), (_, inner_count) = parts[-2:]
        starts = [(start, loop) for (start, _), loop in zip(parts, (*unrolled, outer, inner), strict=True)]
        yield Chunk(
            offsets=tuple(sum(start * loop.strides[i] for start, loop in starts) for i in range(operands)),
            batch=(inner_count, outer_count),
            strides=tuple(
                (inner.strides[i] if inner_count > 1 else 0, outer.strides[i] if outer_count > 1 else 0)
                for i in range(operands)
            ),
        )


def _pieces(count: int) -> list[tuple[int, int]]:
    """Return `(start, length)` of the parts of a loop that each fit a batch count."""
    return [(start, min(MAX_BATCH, count - start)) for start in range(0, count, MAX_BATCH)]
