"""A board with UIO and u-dma-buf: real files, a real map, and a device that sees each load and store."""

import errno
import os
import select
import time
from pathlib import Path
from typing import Any

from echo_npu.backends.board.files import SystemFiles
from echo_npu.backends.cmodel import CmodelBackend
from echo_npu.spec.memory_map import MEMORY_SIZE, REGISTERS
from tests.boards.hardware import HardwareBehind
from tests.boards.xdma_card import Hook

UIO, BUFFER = "/dev/uio0", "/dev/udmabuf0"


class MappedRegisters:
    """A map of the register window. The device acts before each load and after each store.

    A store to plain memory has no effect that a device in software could see in time, so this stands between
    the backend and the map. The values go through the map.
    """

    def __init__(self, view: memoryview, behind: HardwareBehind, start: int) -> None:
        self._view = view
        self._behind = behind
        self._start = start  # of the window in the view

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return MappedRegisters(self._view[index], self._behind, self._start - (index.start or 0))
        offset = 4 * index - self._start
        words = self._view.cast("I")
        words[index] = self._behind.load(offset)
        return words[index]

    def __setitem__(self, index: int, value: int) -> None:
        words = self._view.cast("I")
        words[index] = value
        self._behind.store(4 * index - self._start, words[index])

    def cast(self, form: str) -> "MappedRegisters":
        assert form == "I"
        return self


class UioBoard(SystemFiles):
    """The calls on the files of a board; only those of the UIO device and the paths are replaced.

    Args:
        folder: an empty folder for what the files of a board would be.
        behind: the NPU, a functional model.
        start: where in its page the register window begins.

    Attributes:
        hook: a fault to inject in `open`, `read`, `write` and `poll` of the UIO device.
        memory_hook: likewise in `pread` and `pwrite` of the u-dma-buf.
        facts: what sysfs says.
        paths: the real file behind each name.
        armed: whether the interrupt is enabled at the host.
    """

    def __init__(self, folder: Path, behind: HardwareBehind, start: int = 0) -> None:
        assert isinstance(behind.backend, CmodelBackend)
        self.behind = behind
        self.hook: Hook = lambda *_: None
        self.memory_hook: Hook = lambda *_: None
        self.armed = False
        self._start = start
        self._count = 0
        self._pending = False
        self._registers = folder / "uio0"
        self._registers.write_bytes(bytes(2 * REGISTERS.size))
        self.paths = {UIO: str(self._registers), BUFFER: behind.backend.memory.share_path}
        self._uio: set[int] = set()
        self.facts = {
            "/sys/class/uio/uio0/maps/map0/size": hex(REGISTERS.size + start),
            "/sys/class/uio/uio0/maps/map0/offset": hex(start),
            "/sys/class/u-dma-buf/udmabuf0/size": str(MEMORY_SIZE),
            "/sys/class/u-dma-buf/udmabuf0/phys_addr": "0x0000000040000000",
        }

    def open(self, path: str, *, synchronous: bool = False) -> int:
        self.hook("open", path, 0, 0)
        assert synchronous == (self.paths.get(path) == self.paths[BUFFER])
        if path not in self.paths:
            raise OSError(errno.ENOENT, "No such file or directory")
        fd = super().open(self.paths[path], synchronous=synchronous)
        if self.paths[path] == self.paths[UIO]:
            self._uio.add(fd)
        return fd

    def close(self, fd: int) -> None:
        self._uio.discard(fd)
        super().close(fd)

    def pread(self, fd: int, buffer: memoryview, offset: int) -> int:
        most = self.memory_hook("pread", BUFFER, offset, len(buffer))
        return super().pread(fd, buffer if most is None else buffer[:most], offset)

    def pwrite(self, fd: int, data: memoryview, offset: int) -> int:
        most = self.memory_hook("pwrite", BUFFER, offset, len(data))
        return super().pwrite(fd, data if most is None else data[:most], offset)

    def read_text(self, path: str) -> str:
        if path not in self.facts:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return self.facts[path]

    def map(self, fd: int, size: int, offset: int) -> Any:
        view = super().map(fd, size, offset)
        return MappedRegisters(view, self.behind, self._start) if fd in self._uio else view

    def _update(self) -> None:
        """An interrupt is level-high: it comes as soon as it is enabled, and is then disabled."""
        assert isinstance(self.behind.backend, CmodelBackend)
        if self.armed and not self.behind.silent and self.behind.backend.model.irq:
            self.armed = False
            self._pending = True
            self._count += 1

    def write(self, fd: int, data: bytes) -> int:
        assert fd in self._uio
        if (most := self.hook("write", UIO, 0, len(data))) is not None:
            return most
        if len(data) != 4:
            raise OSError(errno.EINVAL, "Invalid argument")
        self.armed = data != bytes(4)
        return 4

    def read(self, fd: int, count: int) -> bytes:
        assert fd in self._uio
        if (most := self.hook("read", UIO, 0, count)) is not None:
            return bytes(most)
        if count != 4:
            raise OSError(errno.EINVAL, "Invalid argument")
        self._pending = False
        return self._count.to_bytes(4, "little")

    def poll(self, fd: int, seconds: float) -> int:
        assert fd in self._uio
        end = time.monotonic() + seconds
        if (events := self.hook("poll", UIO, 0, 0)) is not None:
            return events
        while True:
            self.behind.advance()
            self._update()
            if self._pending:
                return select.POLLIN
            if time.monotonic() >= end:
                return 0
            time.sleep(0.001)


def real_maps(folder: Path) -> int:
    """Return how many maps of the register file this process has."""
    return sum(
        str(folder / "uio0") in line for line in Path(f"/proc/{os.getpid()}/maps").read_text().splitlines()
    )
