"""Pages of device memory: copies of their content at a moment, and which of them a command touches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.checked import CheckedCommand, MemoryOperand
from echo_npu.commands.packets import Opcode
from echo_npu.model.memory import DeviceMemory
from echo_npu.model.vector_scatter import row_addresses

PAGE: Final = 4096
"""Bytes of a page: the unit in which the host holds memory, and the longest burst of the device."""

_DIGEST_BYTES: Final = 16
_MOST_RUNS: Final = 1 << 14
"""More runs of bytes than this are taken for everything between the first and the last of them."""

Runs = NDArray[np.int64]
"""Runs of bytes, int64 [n, 2]: first address, bytes."""


def digest_of(content: bytes) -> bytes:
    """Return what a page's content is named by."""
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


class MemoryPage:
    """The content of a page at a moment. Immutable, and shared by everything that needs the same content.

    Attributes: content (PAGE bytes), digest.
    """

    __slots__ = ("content", "digest")

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.digest = digest_of(content)

    def __reduce__(self) -> tuple[type[MemoryPage], tuple[bytes]]:
        return MemoryPage, (self.content,)


ZERO: Final = MemoryPage(bytes(PAGE))


class PageTable:
    """The pages as they are now; each is copied when it is first asked for after a change."""

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._pages: dict[int, MemoryPage] = {}

    def at(self, number: int) -> MemoryPage:
        """Return page `number` (its address is PAGE times that)."""
        page = self._pages.get(number)
        if page is None:
            content = self._content(number)
            page = ZERO if content == ZERO.content else MemoryPage(content)
            self._pages[number] = page
        return page

    def _content(self, number: int) -> bytes:
        return self._memory.bytes[number * PAGE : (number + 1) * PAGE].tobytes()

    @property
    def held(self) -> set[int]:
        """The numbers of the pages that are copied."""
        return set(self._pages)

    def is_now(self, number: int, page: MemoryPage) -> bool:
        """Return whether memory holds what a page does."""
        return self._content(number) == page.content

    def changed(self, numbers: Iterable[int]) -> None:
        """Note that pages are about to change."""
        for number in numbers:
            self._pages.pop(number, None)


def pages_of(runs: Runs, around: int = 0) -> list[int]:
    """Return the numbers of the pages that runs of bytes lie in, ascending.

    Args:
        around: pages before and behind each run that count too.
    """
    first = runs[:, 0] // PAGE - around
    last = (runs[:, 0] + runs[:, 1] - 1) // PAGE + around
    numbers: set[int] = set()
    for start, end in zip(first.tolist(), last.tolist(), strict=True):
        numbers.update(range(start, end + 1))
    return sorted(number for number in numbers if number >= 0)


def runs_of(operand: MemoryOperand, batch: tuple[int, int]) -> Runs:
    """Return the bytes that an operand takes in memory. Gaps shorter than a page count as taken."""
    inner, outer = batch
    steps = (
        (operand.segment_stride, operand.segments),
        (operand.row_stride, operand.rows),
        (operand.batch_strides[0], inner),
        (operand.batch_strides[1], outer),
    )
    starts = np.array([operand.address], dtype=np.int64)
    length = operand.row_bytes
    for stride, count in sorted(steps):
        if count == 1:
            continue
        if stride <= length + PAGE:
            length += (count - 1) * stride
        elif starts.size * count > _MOST_RUNS:
            return np.array([[operand.address, operand.extent(batch)]], dtype=np.int64)
        else:
            starts = np.add.outer(starts, stride * np.arange(count, dtype=np.int64)).reshape(-1)
    return np.stack([starts, np.full_like(starts, length)], axis=1)


def read_by(command: CheckedCommand, memory: DeviceMemory) -> list[Runs]:
    """Return the bytes that a command reads, now that it is about to be executed."""
    if command.packet.opcode != Opcode.GATHER:
        return [runs_of(source, command.batch) for source in command.sources]
    table, indices = command.sources
    wanted = memory.read(indices.address, indices.row_bytes).view(np.int32).astype(np.int64)
    wanted = np.unique(wanted[(wanted >= 0) & (wanted < table.rows)])
    rows = np.stack(
        [table.address + wanted * table.row_stride, np.full_like(wanted, table.row_bytes)], axis=1
    )
    return [runs_of(indices, (1, 1)), rows]


def written_by(command: CheckedCommand, memory: DeviceMemory) -> Runs:
    """Return the bytes that a command writes, now that it is about to be executed; there may be none."""
    if command.dst is None:
        return np.empty((0, 2), dtype=np.int64)
    if command.vector is not None and command.vector.table_rows:
        starts = row_addresses(memory.bytes, command.vector)
        return np.stack([starts, np.full_like(starts, command.dst.row_bytes)], axis=1)
    return runs_of(command.dst, command.batch)
