"""The system calls by which cards are reached, on ordinary files."""

import errno
import fcntl
import os
import select
import subprocess
import sys
import termios
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from echo_npu import NpuCardBusyError, NpuCardError
from echo_npu.backends.board.files import SystemFiles
from echo_npu.backends.board.locking import lock_card
from echo_npu.backends.board.transfers import PAGE, WordMap
from tests.refusals import refuses

FILES = SystemFiles()


def test_reads_and_writes_use_the_given_buffer(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    fd = FILES.open(str(path))
    buffer = FILES.allocate(PAGE)
    buffer[3:8] = b"hello"
    assert FILES.pwrite(fd, buffer[3:8], 50) == 5
    assert FILES.pread(fd, buffer[100:105], 50) == 5
    assert bytes(buffer[98:107]) == b"\0\0hello\0\0"
    assert FILES.pread(fd, buffer[:60], 90) == 10  # a file that ends
    FILES.close(fd)
    refuses(OSError, "Bad file descriptor", FILES.pread, fd, buffer, 0)
    assert np.frombuffer(buffer, np.uint8).ctypes.data % PAGE == 0


@pytest.mark.parametrize("synchronous", [False, True])
def test_a_file_may_be_opened_synchronously(tmp_path: Path, synchronous: bool) -> None:
    """Which makes u-dma-buf synchronise the processor's cache."""
    path = tmp_path / "file"
    path.touch()
    fd = FILES.open(str(path), synchronous=synchronous)
    assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_SYNC == (os.O_SYNC if synchronous else 0)
    assert not os.get_inheritable(fd)
    FILES.close(fd)


def test_offsets_go_beyond_four_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    path.touch()
    fd = FILES.open(str(path))
    assert FILES.pwrite(fd, memoryview(b"far"), 5 << 32) == 3
    buffer = FILES.allocate(3)
    assert FILES.pread(fd, buffer, 5 << 32) == 3
    assert bytes(buffer) == b"far"
    FILES.close(fd)


def test_one_direction(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"1234")
    reader, writer = (FILES.open_stream(str(path), write=write) for write in (False, True))
    refuses(OSError, "Bad file descriptor", FILES.pwrite, reader, memoryview(b"x"), 0)
    refuses(OSError, "Bad file descriptor", FILES.pread, writer, FILES.allocate(4), 0)
    FILES.close(reader)
    FILES.close(writer)


def test_a_pipe_in_the_place_of_an_engine_does_not_wait(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    refuses(OSError, "No such device or address", FILES.open_stream, str(path), write=True)
    reader = FILES.open_stream(str(path), write=False)
    assert os.get_blocking(reader)
    refuses(OSError, "Illegal seek", FILES.pread, reader, FILES.allocate(4), 0)
    FILES.close(reader)


def test_words_of_a_map_are_the_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 32)
    fd = FILES.open(str(path), synchronous=True)
    words = WordMap(FILES.map(fd, PAGE, PAGE)[16:64])
    assert words.load(4) == 0x17161514
    words.store(8, 0xAABBCCDD)
    FILES.close(fd)  # the map stays
    assert path.read_bytes()[PAGE + 24 : PAGE + 28] == b"\xdd\xcc\xbb\xaa"
    refuses(IndexError, None, words.load, 48)


def test_events() -> None:
    fd = FILES.eventfd()
    assert FILES.poll(fd, 0) == 0
    assert FILES.poll(fd, 0.01) == 0
    FILES.write(fd, (3).to_bytes(8, "little"))
    assert FILES.poll(fd, 1) == select.POLLIN
    assert FILES.read(fd, 8) == (3).to_bytes(8, "little")
    FILES.close(fd)


def test_an_ioctl_fills_the_given_bytes() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"12345")
    count = bytearray(4)
    assert FILES.ioctl(reader, termios.FIONREAD, count) == 0
    assert int.from_bytes(count, sys.byteorder) == 5
    refuses(OSError, "Inappropriate ioctl", FILES.ioctl, reader, 0x3B64)
    FILES.close(reader)
    FILES.close(writer)


def test_facts_of_sysfs(tmp_path: Path) -> None:
    (tmp_path / "size").write_text("0x10000\n")
    (tmp_path / "group").symlink_to("../../kernel/iommu_groups/17")
    assert FILES.read_text(str(tmp_path / "size")) == "0x10000"
    assert FILES.link_name(str(tmp_path / "group")) == "17"
    refuses(FileNotFoundError, None, FILES.read_text, str(tmp_path / "none"))


def test_a_lock_holds_off_another_process(tmp_path: Path) -> None:
    """The error names the process that has the file; the lock ends with that process."""
    path = tmp_path / "xdma0_user"
    path.write_bytes(bytes(4))
    code = (
        "import fcntl, sys\n"
        f"file = open({str(path)!r}, 'r+')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()"
    )
    command = [sys.executable, "-c", code]
    fd = FILES.open(str(path))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(NpuCardBusyError, match=f"card: process {other.pid} has {path} open") as caught:
            lock_card(FILES, "card", str(path), fd, ExitStack())
        assert (caught.value.holder, caught.value.file) == (other.pid, str(path))
        other.kill()
    second = os.open(path, os.O_RDWR)
    with ExitStack() as stack:
        lock_card(FILES, "card", str(path), fd, stack)
        again = os.dup(fd)
        mine = f"process {os.getpid()} has"
        refuses(NpuCardBusyError, mine, lock_card, FILES, "card", str(path), second, ExitStack())
    FILES.close(fd)
    lock_card(FILES, "card", str(path), second, ExitStack())  # although the first file is still open
    FILES.close(again)
    FILES.close(second)


def test_a_process_that_has_ended_is_not_named(tmp_path: Path) -> None:
    """A child that another library has forked may have the lock still."""
    path = tmp_path / "xdma0_user"
    path.touch()
    code = (
        "import fcntl, os, sys\n"
        f"file = open({str(path)!r}, 'r+')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "if os.fork() == 0:\n    sys.stdin.read()"
    )
    fd = FILES.open(str(path))
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as parent:
        parent.wait()
        with pytest.raises(NpuCardBusyError, match="another process has") as caught:
            lock_card(FILES, "card", str(path), fd, ExitStack())
        assert caught.value.holder is None
    FILES.close(fd)


def test_a_lock_of_another_kind_has_no_holder(tmp_path: Path) -> None:
    """A lock of a range of the file (fcntl) says nothing of who has the card."""
    path = tmp_path / "card"
    path.write_bytes(b"x")
    fd = FILES.open(str(path))
    fcntl.lockf(fd, fcntl.LOCK_EX)
    assert FILES.lock_holder(fd) is None
    FILES.lock(fd)
    assert FILES.lock_holder(fd) == os.getpid()
    FILES.close(fd)


class LockedFiles(SystemFiles):
    """Files that another one has locked, on a host that does not tell who."""

    def lock(self, fd: int) -> None:
        raise BlockingIOError(errno.EWOULDBLOCK, "")

    def lock_holder(self, fd: int) -> int | None:
        raise FileNotFoundError(errno.ENOENT, "/proc/locks")


def test_a_host_that_hides_its_locks() -> None:
    with pytest.raises(NpuCardBusyError, match="another process has /dev/x open") as caught:
        lock_card(LockedFiles(), "card", "/dev/x", 3, ExitStack())
    assert caught.value.holder is None


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP], ids=errno.errorcode.get)
def test_a_file_that_cannot_be_locked(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def lock(fd: int) -> None:
        raise OSError(code, os.strerror(code))

    files, stack = SystemFiles(), ExitStack()
    monkeypatch.setattr(files, "lock", lock)
    words = ["card: /dev/x cannot be locked", os.strerror(code)]
    refuses(NpuCardError, words, lock_card, files, "card", "/dev/x", 3, stack)
    stack.close()  # there is nothing to unlock
