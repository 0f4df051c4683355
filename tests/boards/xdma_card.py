"""A card with the XDMA driver: what each of its files does, call by call."""

import errno
import threading
import time
from collections.abc import Callable

import numpy as np

from echo_npu.backends.board.files import SystemFiles
from echo_npu.spec.memory_map import MEMORY_SIZE
from tests.boards.hardware import HardwareBehind

NAMES = ("user", "h2c_0", "c2h_0", "events_0")
Hook = Callable[[str, str, int, int], int | None]
"""Called before a call with its name, the file, the offset and the size. It raises OSError, or returns how
many bytes the call may move at most, or None."""


def _os_error(code: int) -> OSError:
    return OSError(code, errno.errorcode[code])


class XdmaCard:
    """The files of one card, as cdev_ctrl.c, cdev_sgdma.c and cdev_events.c of the driver serve them.

    Args:
        behind: the NPU.
        memory_base: where its memory begins for the DMA engines.

    Attributes:
        hook: a fault to inject.
        calls: the calls so far: name, file, offset, size.
    """

    def __init__(self, behind: HardwareBehind, memory_base: int = 0) -> None:
        self.behind = behind
        self.hook: Hook = lambda *_: None
        self.calls: list[tuple[str, str, int, int]] = []
        self.changed = threading.Condition()
        self._base = memory_base
        self._events = 0
        behind.raised = self._event

    def _event(self) -> None:
        with self.changed:
            self._events += 1
            self.changed.notify_all()

    def _admit(self, call: str, name: str, offset: int, size: int) -> int:
        """Return how many bytes the call may move."""
        self.calls.append((call, name, offset, size))
        most = self.hook(call, name, offset, size)
        return size if most is None else min(most, size)

    def open(self, name: str) -> None:
        self._admit("open", name, 0, 0)
        if name not in NAMES:
            raise _os_error(errno.ENOENT)

    def read(self, name: str, size: int, offset: int) -> bytes:
        most = self._admit("read", name, offset, size)
        if name == "user":
            if offset % 4:
                raise _os_error(errno.EPROTO)
            return self.behind.load(offset).to_bytes(4, "little")[:most]  # one word, whatever was asked for
        if name == "c2h_0":
            with self.behind.lock:
                return self.behind.backend.read_mem(self._address(offset, size), most).tobytes()
        if name != "events_0":
            raise _os_error(errno.EINVAL)
        if size != 4:
            raise _os_error(errno.EPROTO)
        with self.changed:
            if not self._events:
                raise _os_error(errno.EAGAIN)  # as after a signal; the driver would sleep
            taken, self._events = self._events, 0
        return taken.to_bytes(4, "little")[:most]

    def write(self, name: str, data: bytes, offset: int) -> int:
        most = self._admit("write", name, offset, len(data))
        if name == "user":
            if offset % 4:
                raise _os_error(errno.EPROTO)
            if most >= 4:
                self.behind.store(offset, int.from_bytes(data[:4], "little"))
            return min(most, 4)
        if name != "h2c_0":
            raise _os_error(errno.EINVAL)
        with self.behind.lock:
            address = self._address(offset, len(data))
            self.behind.backend.write_mem(address, np.frombuffer(data[:most], np.uint8))
        return most

    def ready(self, name: str) -> bool:
        """Whether poll tells POLLIN."""
        return bool(self._events) if name == "events_0" else True

    def _address(self, offset: int, size: int) -> int:
        address = offset - self._base
        if not 0 <= address <= MEMORY_SIZE - size:
            raise _os_error(errno.EIO)
        return address


class XdmaCalls(SystemFiles):
    """The calls, answered in this process: where a machine has no FUSE, and for what FUSE cannot see.

    Args:
        card: what answers.
        device: what the names of its files begin with.
        granularity: of the DMA engines, bytes: buffer and address must be equally aligned.
    """

    def __init__(self, card: XdmaCard, device: str, granularity: int = 64) -> None:
        self._card = card
        self._device = device
        self._granularity = granularity
        self._opened: dict[int, str] = {}
        self._locked = _LOCKS

    def open(self, path: str, *, synchronous: bool = False) -> int:
        prefix, _, name = path.partition(f"{self._device}_")
        if prefix or not name:
            raise _os_error(errno.ENOENT)
        self._card.open(name)
        fd = 1_000_000 + next(_NUMBERS)
        self._opened[fd] = name
        return fd

    def open_stream(self, path: str, *, write: bool) -> int:
        return self.open(path)

    def close(self, fd: int) -> None:
        del self._opened[fd]

    def lock(self, fd: int) -> None:
        if self._locked.setdefault(id(self._card), fd) != fd:
            raise BlockingIOError(errno.EAGAIN, "locked")

    def unlock(self, fd: int) -> None:
        assert self._locked.pop(id(self._card)) == fd

    def lock_holder(self, fd: int) -> int | None:
        return None

    def pread(self, fd: int, buffer: memoryview, offset: int) -> int:
        self._check_alignment(fd, buffer, offset)
        data = self._card.read(self._opened[fd], len(buffer), offset)
        buffer[: len(data)] = data
        return len(data)

    def pwrite(self, fd: int, data: memoryview, offset: int) -> int:
        self._check_alignment(fd, data, offset)
        return self._card.write(self._opened[fd], bytes(data), offset)

    def _check_alignment(self, fd: int, buffer: memoryview, offset: int) -> None:
        place = np.frombuffer(buffer, np.uint8).ctypes.data
        if self._opened[fd] != "user" and (place - offset) % self._granularity:
            raise _os_error(errno.EINVAL)

    def read(self, fd: int, count: int) -> bytes:
        return self._card.read(self._opened[fd], count, 0)

    def poll(self, fd: int, seconds: float) -> int:
        name = self._opened[fd]
        end = time.monotonic() + seconds
        while not self._card.ready(name):
            if time.monotonic() >= end:
                return 0
            self._card.behind.advance()
            with self._card.changed:
                self._card.changed.wait(0.001)
        return 1  # POLLIN


_LOCKS: dict[int, int] = {}
_NUMBERS = iter(range(1_000_000))
