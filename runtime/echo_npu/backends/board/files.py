"""The system calls by which a card is reached: the one place that a stand-in replaces."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import mmap
import os
import select
from collections.abc import Callable
from pathlib import Path


class SystemFiles:
    """Device files, through the calls of Linux that their drivers implement.

    Every method raises OSError as the call does; nothing is repeated or completed here.
    """

    def open(self, path: str, *, synchronous: bool = False) -> int:
        """Open for reading and writing; `synchronous`: with O_SYNC."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_SYNC if synchronous else 0))

    def open_stream(self, path: str, *, write: bool) -> int:
        """Open one direction of a DMA engine.

        The open does not wait, so that a pipe in the place of the device is an error. What follows waits.
        """
        fd = os.open(path, (os.O_WRONLY if write else os.O_RDONLY) | os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(fd, True)
        return fd

    def close(self, fd: int) -> None:
        os.close(fd)

    def lock(self, fd: int) -> None:
        """Lock the file for this open file description; BlockingIOError while another one has it."""
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock(self, fd: int) -> None:
        """Unlock the file, whatever other descriptors of the same open file there are."""
        fcntl.flock(fd, fcntl.LOCK_UN)

    def lock_holder(self, fd: int) -> int | None:
        """Return the process that has locked a file, as /proc/locks tells.

        None if it does not tell, and if that process has ended: a child of it has the lock then.
        """
        status = os.fstat(fd)
        place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5] == place and Path("/proc", fields[4]).exists():
                return int(fields[4])
        return None

    def pread(self, fd: int, buffer: memoryview, offset: int) -> int:
        """Read into `buffer`, whose address the driver sees; return the number of bytes.

        It is pread(2). The call that Python has for a given buffer, preadv(2), takes another path through
        the kernel, which the DMA files of XDMA do not support.
        """
        target = (ctypes.c_char * len(buffer)).from_buffer(buffer)
        count = _libc_pread()(fd, target, len(buffer), offset)
        if count < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return count

    def pwrite(self, fd: int, data: memoryview, offset: int) -> int:
        """Write from `data`, whose address the driver sees; return the number of bytes."""
        return os.pwrite(fd, data, offset)

    def read(self, fd: int, count: int) -> bytes:
        return os.read(fd, count)

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def poll(self, fd: int, seconds: float) -> int:
        """Wait for POLLIN; return the events, 0 after the time-out."""
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        return next((events for _, events in poller.poll(max(seconds, 0) * 1000)), 0)

    def map(self, fd: int, size: int, offset: int) -> memoryview:
        """Map a part of a file, shared, as bytes. The map ends with its last user, not with the file."""
        return memoryview(mmap.mmap(fd, size, mmap.MAP_SHARED, offset=offset))

    def allocate(self, size: int) -> memoryview:
        """Return new memory of the host, zeroed, that starts on a page."""
        return memoryview(mmap.mmap(-1, size))

    def ioctl(self, fd: int, request: int, argument: bytearray | int = 0) -> int:
        """Make the call; a bytearray holds what the driver stores there."""
        return fcntl.ioctl(fd, request, argument)

    def eventfd(self) -> int:
        return os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def read_text(self, path: str) -> str:
        """Return the content of a file of sysfs, without the end of its line."""
        return Path(path).read_text(encoding="ascii").strip()

    def link_name(self, path: str) -> str:
        """Return the last part of what a symbolic link points to."""
        return os.path.basename(os.readlink(path))


@functools.cache
def _libc_pread() -> Callable[..., int]:
    call = ctypes.CDLL(None, use_errno=True).pread64
    call.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64)
    call.restype = ctypes.c_ssize_t
    pread: Callable[..., int] = call
    return pread
