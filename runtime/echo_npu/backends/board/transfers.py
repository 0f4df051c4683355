"""Move bytes through files whose drivers may interrupt, postpone, shorten or refuse a call."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from echo_npu.backends.board.files import SystemFiles
from echo_npu.errors import (
    NpuCardError,
    NpuCardLostError,
    NpuCardMissingError,
    NpuCardPermissionError,
    NpuTransferError,
)

PAGE: Final = 4096
CHUNK: Final = 1 << 20
"""Most bytes of one call: a driver pins the pages of a transfer for as long as it takes."""

_SPAN: Final = 1 << 32
_REPEATS: Final = 100
_PAUSE_S: Final = 0.001
GONE: Final = (errno.ENODEV, errno.ENXIO, errno.ESHUTDOWN)
"""What drivers return when the device behind them has gone."""

Move: TypeAlias = Callable[[memoryview, int], int]
"""Moves bytes of a buffer to or from a place in a file; returns how many."""

_R = TypeVar("_R")


def chunk_size(address: int, wanted: int) -> int:
    """Return how many bytes of a transfer one call moves.

    A call ends on a page, unless it is the last one, and crosses no multiple of 4 GiB, since the descriptors
    of a DMA engine count in 32 bits.
    """
    return min(wanted, CHUNK - address % PAGE, _SPAN - address % _SPAN)


def retried(call: Callable[[], _R]) -> _R:
    """Return what `call` returns; repeat it at once after EINTR and after a pause of 1 ms after EAGAIN.

    Raises:
        OSError: any other one, or EAGAIN once more after it was repeated 100 times for that.
    """
    left = _REPEATS
    while True:
        try:
            return call()
        except InterruptedError:
            continue
        except BlockingIOError:
            if not left:
                raise
        left -= 1
        time.sleep(_PAUSE_S)


def opened(device: str, path: str, call: Callable[[], int]) -> int:
    """Return the descriptor that `call` opens.

    Raises:
        NpuCardMissingError: there is no such file, or no device behind it.
        NpuCardPermissionError: this user may not open it.
        NpuCardError: anything else.
    """
    try:
        return retried(call)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, *GONE):
            raise NpuCardMissingError(device, f"{path} cannot be opened: {error.strerror}") from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise NpuCardPermissionError(device, f"{path} may not be opened: {error.strerror}") from None
        raise NpuCardError(device, f"{path} cannot be opened: {error.strerror}") from error


def allocated(files: SystemFiles, device: str, size: int) -> memoryview:
    """Return new memory of the host, zeroed, that starts on a page.

    Raises:
        NpuCardError: the host has too little.
    """
    try:
        return files.allocate(size)
    except OSError as error:
        raise NpuCardError(
            device, f"the host refused {size >> 20} MiB of memory: {error.strerror}"
        ) from error


def lost(device: str) -> NpuCardLostError:
    """Return the error of a card that has vanished."""
    return NpuCardLostError(device, "the card does not answer any more")


def failed(
    device: str, what: str, address: int, done: int, wanted: int, error: OSError | None = None
) -> NpuCardError:
    """Return the error of a transfer that ended early; of `error`, or because nothing was moved."""
    if error is not None and error.errno in GONE:
        return lost(device)
    return NpuTransferError(device, what, address, done, wanted, error.errno if error is not None else None)


def move(
    call: Move,
    device: str,
    what: str,
    address: int,
    buffer: memoryview,
    *,
    base: int = 0,
    before: int = 0,
    wanted: int | None = None,
) -> None:
    """Move all of `buffer`, a part of a transfer, and go on where a call moved less.

    Args:
        what: names the transfer in errors.
        address: of the first byte of the whole transfer.
        base: the place in the file of address 0.
        before: bytes of the transfer that were moved before.
        wanted: bytes of the whole transfer; None: this part is all of it.

    Raises:
        NpuTransferError: a call failed, or moved nothing.
        NpuCardLostError: the card has vanished.
    """
    total = len(buffer) if wanted is None else wanted
    done = 0
    while done < len(buffer):
        place = base + address + before + done
        try:
            count = retried(lambda: call(buffer[done:], place))  # noqa: B023  (called at once)
        except OSError as error:
            raise failed(device, what, address, before + done, total, error) from error
        if count <= 0:
            raise failed(device, what, address, before + done, total)
        done += count


class WordFile:
    """A file in which each call moves one register, four bytes in the order of the bus.

    Args:
        base: offset of the register window in the file.
    """

    def __init__(self, files: SystemFiles, device: str, fd: int, base: int) -> None:
        self._files = files
        self._device = device
        self._fd = fd
        self._base = base

    def load(self, offset: int) -> int:
        word = bytearray(4)
        self._once(self._files.pread, "register read", offset, memoryview(word))
        return int.from_bytes(word, "little")

    def store(self, offset: int, value: int) -> None:
        word = bytearray(value.to_bytes(4, "little"))
        self._once(self._files.pwrite, "register write", offset, memoryview(word))

    def _once(
        self, call: Callable[[int, memoryview, int], int], what: str, offset: int, word: memoryview
    ) -> None:
        try:
            count = retried(lambda: call(self._fd, word, self._base + offset))
        except OSError as error:
            raise failed(self._device, what, offset, 0, 4, error) from error
        if count != 4:  # half a register cannot be continued: the next call would start anew
            raise failed(self._device, what, offset, max(count, 0), 4)


class WordMap:
    """Registers that are mapped: each access is one load or store of 32 bits.

    Args:
        view: the register window, bytes; it starts on a word.
    """

    def __init__(self, view: memoryview) -> None:
        self._words = view.cast("I")

    def load(self, offset: int) -> int:
        return int(self._words[offset // 4])

    def store(self, offset: int, value: int) -> None:
        self._words[offset // 4] = value
