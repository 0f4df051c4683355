"""A file system in user space, spoken to the kernel over /dev/fuse without any library.

It shows one folder of files whose every read, write and poll is a request to a Python object, so a program
that opens them makes real system calls. It needs /dev/fuse and the right to mount, and no package.
"""

import contextlib
import ctypes
import errno
import os
import stat
import struct
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol
from unittest import mock

_HEAD = struct.Struct("=IIQQIIIHH")  # len, opcode, unique, nodeid, uid, gid, pid, extensions, padding
_REPLY = struct.Struct("=IiQ")  # len, error, unique
_ATTRIBUTES = struct.Struct("=6Q10I")
_ENTRY = struct.Struct("=4QII")
_INIT = struct.Struct("=IIIIHHIIHHI28x")
_READ = struct.Struct("=QQIIQII")  # fh, offset, size; also of a write
_POLL = struct.Struct("=QQII")  # fh, kh, flags, events

_MOST = 1 << 20  # bytes of one request
_ROOT = 1
_DIRECT_IO = 1
_MAX_PAGES = 1 << 22
_POLL_NOTIFY = 1
_POLLIN = 1
_DETACH = 2
_NO_SUID_DEV = 6
(
    _LOOKUP, _FORGET, _GETATTR, _SETATTR, _OPEN, _READ_OP, _WRITE_OP, _STATFS, _RELEASE, _FLUSH, _INIT_OP,
    _OPENDIR, _READDIR, _RELEASEDIR, _ACCESS, _INTERRUPT, _DESTROY, _POLL_OP, _BATCH_FORGET,
) = (1, 2, 3, 4, 14, 15, 16, 17, 18, 25, 26, 27, 28, 29, 34, 36, 38, 40, 42)  # fmt: skip


class ServedFiles(Protocol):
    """What answers. Every method may raise OSError, which the caller of the system call gets."""

    def open(self, name: str) -> None: ...
    def read(self, name: str, size: int, offset: int) -> bytes: ...
    def write(self, name: str, data: bytes, offset: int) -> int: ...
    def ready(self, name: str) -> bool: ...


class FuseMount:
    """A mounted folder of files; a context manager.

    Args:
        folder: an empty folder.
        names: of the files, as they are shown, to their names for `served`.
        served: what answers.
        polled: called when a program waits for a file that is not ready; it lets time pass until the
            file is, or for as long as it likes.

    Raises:
        OSError: there is no FUSE, or no right to mount.
    """

    def __init__(
        self, folder: Path, names: dict[str, str], served: ServedFiles, polled: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._shown = list(names)
        self._names = list(names.values())
        self._served = served
        self._polled = polled
        self._waiting: dict[str, set[int]] = {}
        self._wanted = threading.Condition()
        self._ended = False
        self._fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        try:
            options = f"fd={self._fd},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.mount(b"echo-npu", os.fsencode(folder), b"fuse", _NO_SUID_DEV, options.encode()):
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code))
        except BaseException:
            os.close(self._fd)
            raise
        # A child that has the files open asks for each to be closed. Before Python 3.11.4 vfork keeps the
        # interpreter's lock until the child's program runs, so nothing would answer it.
        self._without_vfork = mock.patch.object(subprocess, "_USE_VFORK", False)
        self._without_vfork.start()
        self._failures: list[Exception] = []
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._serve, self._wait)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> "FuseMount":
        return self

    def __exit__(self, *_: object) -> None:
        with self._wanted:
            self._ended = True
            self._wanted.notify_all()
        ctypes.CDLL(None).umount2(os.fsencode(self._folder), _DETACH)
        for thread in self._threads:
            thread.join(10)  # longer only if a test left a file open
        os.close(self._fd)
        self._without_vfork.stop()
        assert not self._failures, self._failures

    # --- requests -------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            try:
                request = os.read(self._fd, _MOST + 8192)
            except InterruptedError:
                continue
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EAGAIN):  # the request was taken back
                    continue
                return  # unmounted
            length, opcode, unique, node, *_ = _HEAD.unpack_from(request)
            body = request[_HEAD.size : length]
            if opcode in (_FORGET, _BATCH_FORGET, _INTERRUPT):
                continue
            try:
                self._answer(unique, 0, self._handle(opcode, node, body))
            except OSError as error:
                self._answer(unique, -(error.errno or errno.EIO), b"")
            except Exception as error:  # without an answer the caller would wait for ever, whatever kills it
                self._failures.append(error)
                self._answer(unique, -errno.EIO, b"")
            if opcode == _DESTROY:
                return

    def _answer(self, unique: int, code: int, data: bytes) -> None:
        with contextlib.suppress(OSError):  # the caller has gone
            os.write(self._fd, _REPLY.pack(_REPLY.size + len(data), code, unique) + data)

    def _handle(self, opcode: int, node: int, body: bytes) -> bytes:
        if opcode == _INIT_OP:
            return _INIT.pack(7, 31, _MOST, _MAX_PAGES, 16, 12, _MOST, 1, _MOST // 4096, 0, 0)
        if opcode == _LOOKUP:
            name = os.fsdecode(body.rstrip(b"\0"))
            if node != _ROOT or name not in self._shown:
                raise FileNotFoundError(errno.ENOENT, name)
            found = self._shown.index(name) + 2
            return _ENTRY.pack(found, 0, 60, 60, 0, 0) + self._attributes(found)
        if opcode in (_GETATTR, _SETATTR):
            return struct.pack("=QII", 60, 0, 0) + self._attributes(node)
        if opcode == _OPEN:
            self._served.open(self._name(node))
            return struct.pack("=QII", node, _DIRECT_IO, 0)
        if opcode == _READ_OP:
            _, offset, size, *_ = _READ.unpack_from(body)
            return self._served.read(self._name(node), size, offset)
        if opcode == _WRITE_OP:
            _, offset, size, *_ = _READ.unpack_from(body)
            data = body[_READ.size : _READ.size + size]
            return struct.pack("=II", self._served.write(self._name(node), data, offset), 0)
        if opcode == _POLL_OP:
            return self._poll(self._name(node), body)
        if opcode in (_RELEASE, _FLUSH, _RELEASEDIR, _ACCESS, _DESTROY):
            return b""
        if opcode == _OPENDIR:
            return struct.pack("=QII", 0, 0, 0)
        if opcode == _READDIR:
            return self._listing(_READ.unpack_from(body)[1])
        raise OSError(errno.ENOSYS, "")

    def _name(self, node: int) -> str:
        return self._names[node - 2]

    def _attributes(self, node: int) -> bytes:
        mode = stat.S_IFDIR | 0o700 if node == _ROOT else stat.S_IFREG | 0o600
        return _ATTRIBUTES.pack(
            node, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, os.getuid(), os.getgid(), 0, 4096, 0
        )  # fmt: skip

    def _listing(self, first: int) -> bytes:
        data = b""
        for index, name in enumerate(self._shown[first:], first):
            raw = os.fsencode(name)
            data += struct.pack("=QQII", index + 2, index + 1, len(raw), stat.S_IFREG >> 12) + raw
            data += bytes(-len(data) % 8)
        return data

    # --- poll -----------------------------------------------------------------------------------------------

    def _poll(self, name: str, body: bytes) -> bytes:
        _, handle, flags, _ = _POLL.unpack(body)
        with self._wanted:
            ready = self._served.ready(name)
            if not ready and flags & _POLL_NOTIFY:
                self._waiting.setdefault(name, set()).add(handle)
                self._wanted.notify_all()
        return struct.pack("=II", _POLLIN if ready else 0, 0)

    def _wait(self) -> None:
        """Let time pass for those who wait, and wake them."""
        while True:
            with self._wanted:
                while not self._waiting and not self._ended:
                    self._wanted.wait()
                if self._ended:
                    return
                names: Sequence[str] = list(self._waiting)
            for name in names:
                self._polled(name)
                with self._wanted:
                    handles = self._waiting.pop(name, set()) if self._served.ready(name) else set()
                for handle in handles:
                    with contextlib.suppress(OSError):
                        os.write(self._fd, _REPLY.pack(_REPLY.size + 8, 1, 0) + struct.pack("=Q", handle))


def fuse_is_missing(folder: Path) -> str:
    """Return why no file system can be mounted on a folder; empty if one can."""
    try:
        with FuseMount(folder, {}, None, lambda _: None):  # type: ignore[arg-type]
            return ""
    except OSError as error:
        return f"no FUSE here: {error}"
