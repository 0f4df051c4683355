"""The backend fpga by UIO and u-dma-buf."""

import errno
import gc
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu import (
    Device,
    DeviceClosedError,
    NpuCardBusyError,
    NpuCardError,
    NpuCardIdentityError,
    NpuCardLostError,
    NpuCardMissingError,
    NpuCardPermissionError,
    NpuCardResetError,
    NpuInterruptLostError,
    NpuTimeoutError,
    NpuTransferError,
    nop_packet,
)
from echo_npu.backends import get_backend_class
from echo_npu.backends.board import card as card_module
from echo_npu.backends.board.transfers import CHUNK
from echo_npu.backends.fpga import FpgaBackend
from echo_npu.spec import registers as regs
from echo_npu.spec.memory_map import MEMORY_SIZE
from echo_npu.spec.status import State
from tb.repository import ROOT
from tests.boards.conftest import CONFIG
from tests.boards.hardware import HardwareBehind
from tests.boards.uio_board import BUFFER, UIO, UioBoard, real_maps
from tests.boards.working import as_device, in_a_child, refuses_after_close, works
from tests.refusals import refuses


@pytest.fixture
def board(tmp_path: Path) -> Iterator[UioBoard]:
    backend = get_backend_class("cmodel").open(CONFIG, {})
    yield UioBoard(tmp_path, HardwareBehind(backend))
    backend.close()


def opened(board: UioBoard, **options: Any) -> Device:
    """Open a board as a program does."""
    options = {"transport": "uio", "clock_mhz": 1.0, **options}
    backend = FpgaBackend.open_with(board, CONFIG, options)
    return as_device(backend)


def test_results_are_those_of_the_device_behind(board: UioBoard, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((9, 33), dtype=np.float32), rng.standard_normal((33, 5), dtype=np.float32)
    with opened(board) as npu, echo_npu.open("cmodel", config=CONFIG) as model:
        assert np.array_equal(npu.matmul(a, b), model.matmul(a, b))
        assert np.array_equal(npu.softmax(a), model.softmax(a))
        works(npu)
        assert npu.info()["card"] == {
            "transport": "uio",
            "device": UIO,
            "memory_file": BUFFER,
            "memory_physical_address": 0x4000_0000,
        }
        assert real_maps(tmp_path) == 1
    del npu
    gc.collect()
    assert real_maps(tmp_path) == 0


def test_memory_is_the_buffer(board: UioBoard) -> None:
    seed = random.getrandbits(32)
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    with opened(board) as npu:
        for size in (1, 63, 64, 70_001, CHUNK + 65):
            data = rng.integers(0, 256, size, dtype=np.uint8)
            for address in (0, 4095, int(rng.integers(MEMORY_SIZE - size)), MEMORY_SIZE - size):
                around = slice(max(address - 200, 0), address + size + 200)
                memory = board.behind.backend.memory.bytes  # type: ignore[attr-defined]
                expected = memory[around].copy()
                expected[address - around.start : address - around.start + size] = data
                npu.backend.write_mem(address, data)
                assert np.array_equal(memory[around], expected)
                assert np.array_equal(npu.backend.read_mem(address, size), data)
        assert npu.backend.read_mem(7, 0).size == 0
        npu.backend.write_mem(7, np.empty(0, np.uint8))


def test_whole_cache_lines_are_written(board: UioBoard) -> None:
    """What the NPU wrote beside a write of the host stays, though the driver keeps old bytes in its cache."""
    pieces: list[tuple[str, int, int]] = []
    with opened(board) as npu:
        board.memory_hook = lambda call, name, offset, size: pieces.append((call, offset, size))
        npu.backend.write_mem(100, np.zeros(10, np.uint8))
        npu.backend.write_mem(0x1000, np.zeros(128, np.uint8))
        npu.backend.write_mem(0x2010, np.zeros(CHUNK, np.uint8))
    assert pieces[:4] == [("pread", 64, 64), ("pread", 64, 64), ("pwrite", 64, 64), ("pwrite", 0x1000, 128)]
    assert all(offset % 64 == 0 and size % 64 == 0 and size <= CHUNK for _, offset, size in pieces)


@pytest.mark.parametrize("call", ["pread", "pwrite"])
def test_a_transfer_that_fails(board: UioBoard, call: str) -> None:
    """After pieces that moved less than they were asked for; the board works on."""
    seen: list[int] = []

    def hook(name: str, path: str, offset: int, size: int) -> int | None:
        if name != call:
            return None
        seen.append(size)
        if len(seen) == 4:
            raise OSError(errno.EIO, "")
        return 1000

    with opened(board) as npu:
        board.memory_hook = hook
        actions = {
            "pread": lambda: npu.backend.read_mem(0x4000, 8192),
            "pwrite": lambda: npu.backend.write_mem(0x4000, np.zeros(8192, np.uint8)),
        }
        with pytest.raises(NpuTransferError) as caught:
            actions[call]()
        error = caught.value
        assert (error.address, error.done, error.wanted, error.errno) == (0x4000, 3000, 8192, errno.EIO)
        board.memory_hook = lambda *_: None
        works(npu)


@pytest.mark.parametrize(("start", "registers"), [(0x400, 0), (0, 0x1000), (0x400, 0x1000)])
def test_the_window_may_begin_anywhere_in_the_map(tmp_path: Path, start: int, registers: int) -> None:
    """UIO maps whole pages and tells where in the first one a device begins; designs have further offsets."""
    backend = get_backend_class("cmodel").open(CONFIG, {})
    board = UioBoard(tmp_path, HardwareBehind(backend), start + registers)
    board.facts["/sys/class/uio/uio0/maps/map0/offset"] = hex(start)
    with opened(board, registers=registers) as npu:
        works(npu)
    backend.close()


def test_the_interrupt_is_enabled_before_each_wait(board: UioBoard) -> None:
    calls: list[str] = []
    with opened(board) as npu:
        board.hook = lambda call, *_: calls.append(call)
        for _ in range(3):
            npu.submit(nop_packet())
            npu.wait()
    assert calls == ["write", "poll", "read"] * 3


@pytest.mark.parametrize(
    ("path", "code", "error"),
    [
        (UIO, errno.ENOENT, NpuCardMissingError),
        (UIO, errno.EACCES, NpuCardPermissionError),
        (BUFFER, errno.ENOENT, NpuCardMissingError),
        (BUFFER, errno.EACCES, NpuCardPermissionError),
        (BUFFER, errno.EBUSY, NpuCardError),
    ],
)
def test_a_file_that_cannot_be_opened(
    board: UioBoard, path: str, code: int, error: type[NpuCardError]
) -> None:
    def hook(call: str, name: str, offset: int, size: int) -> None:
        if name == path:
            raise OSError(code, os.strerror(code))

    board.hook = hook
    refuses(error, path, opened, board)
    board.hook = lambda *_: None
    with opened(board) as npu:
        works(npu)


@pytest.mark.parametrize(
    ("fact", "value", "words"),
    [
        ("/sys/class/u-dma-buf/udmabuf0/size", "1048576", "has 1048576 bytes; device memory takes 536870912"),
        ("/sys/class/uio/uio0/maps/map0/size", "0x100", "no register window of 608 fits at 0"),
        ("/sys/class/uio/uio0/maps/map0/size", "none", "cannot be read"),
        ("/sys/class/uio/uio0/maps/map0/offset", "0xff00", "no register window of 608 fits at 65280"),
        ("/sys/class/uio/uio0/maps/map0/offset", "0x20000", "no register window of 608 fits at 131072"),
    ],
)
def test_maps_that_are_too_small(board: UioBoard, fact: str, value: str, words: str) -> None:
    board.facts[fact] = value
    refuses(NpuCardError, words, opened, board)
    assert board.behind.stores == 0


def registers_of(folder: Path) -> int:
    """Return the inode of the file that stands for the registers of a board."""
    return (folder / "uio0").stat().st_ino


def test_one_device_at_a_time(board: UioBoard) -> None:
    """The lock is a real one, on the file."""
    with opened(board) as npu:
        refuses(NpuCardBusyError, f"process {os.getpid()} has {UIO} open", opened, board)
        works(npu)
    with opened(board) as npu:
        works(npu)


def test_two_boards_do_not_share_memory(board: UioBoard, tmp_path: Path) -> None:
    """Each board has a u-dma-buf of its own: the one that both would have by default is the first one's."""
    (tmp_path / "second").mkdir()
    second = UioBoard(tmp_path / "second", board.behind)
    assert registers_of(tmp_path) != registers_of(tmp_path / "second")
    with opened(board) as npu:
        stores = board.behind.stores
        refuses(NpuCardBusyError, f"process {os.getpid()} has {BUFFER} open", opened, second)
        assert board.behind.stores == stores
        works(npu)
    with opened(second) as npu:
        works(npu)


ORPHAN = """
import os, sys, time
from pathlib import Path
from echo_npu.backends import get_backend_class
from tests.boards.hardware import HardwareBehind
from tests.boards.test_uio import opened
from tests.boards.uio_board import UioBoard

npu = opened(UioBoard(Path(sys.argv[1]), HardwareBehind(get_backend_class("cmodel").open("small", {}))))
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(600)
"""


def test_a_child_does_not_keep_the_board(board: UioBoard, tmp_path: Path) -> None:
    """A process is killed while it has the board open; one that it has forked lives on."""
    command = [sys.executable, "-c", ORPHAN, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            refuses(NpuCardBusyError, f"process {parent.pid} has {UIO} open", opened, board)
            parent.kill()
            parent.wait()
            os.kill(child, 0)
            with opened(board) as npu:
                works(npu)
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_forked_child_that_closes_the_device_leaves_it_to_its_parent(board: UioBoard) -> None:
    with opened(board) as npu:

        def close() -> bool:
            npu.close()
            npu.backend.close()
            return True

        assert in_a_child(close)
        refuses(NpuCardBusyError, f"process {os.getpid()} has {UIO} open", opened, board)
        works(npu)

        def use() -> bool:
            refuses(DeviceClosedError, f"belongs to process {os.getppid()}", npu.backend.read_reg, regs.ID)
            return True

        assert in_a_child(use)


def test_a_board_that_was_closed(board: UioBoard) -> None:
    with opened(board) as npu:
        pass
    refuses_after_close(npu.backend)


def test_a_reset_that_takes_long(board: UioBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take as long as when the board is opened, by the clock on the wall: a map is read at once."""
    monkeypatch.setattr(card_module, "_RESET_S", 0.5)
    with opened(board, clock_mhz=100) as npu:
        board.behind.lies[regs.STATUS] = State.BUSY
        began = time.monotonic()
        with pytest.raises(NpuTimeoutError, match="within 50000000 cycles") as caught:
            npu.reset()
        assert time.monotonic() - began >= 0.5
        assert caught.value.cycles == 50_000_000
        assert npu.backend.read_reg(regs.IRQ_ENABLE)  # a later wait needs it
        end = time.monotonic() + 0.3

        class UntilEnd(dict[int, int]):
            def get(self, offset: int, other: Any = None) -> Any:
                return State.BUSY if offset == regs.STATUS and time.monotonic() < end else other

        board.behind.lies = UntilEnd()
        npu.reset()
        assert time.monotonic() >= end
        board.behind.lies = {}
        works(npu)


def test_another_device_is_refused_before_anything_is_written(board: UioBoard) -> None:
    board.behind.lies[regs.ID] = 5
    refuses(NpuCardIdentityError, "register ID reads 0x00000005", opened, board)
    assert board.behind.stores == 0


def test_an_event_without_an_interrupt(board: UioBoard) -> None:
    """The driver disables the interrupt with every event, so each further wait enables it again."""
    calls: list[str] = []

    def hook(call: str, *_: object) -> int | None:
        calls.append(call)
        if calls.count("poll") == 2:
            board.behind.lies[regs.IRQ_STATUS] = 7
        return select.POLLIN if call == "poll" else None

    with opened(board, clock_mhz=100) as npu:
        npu.backend.write_reg(regs.IRQ_STATUS, 7)
        board.hook = hook
        assert npu.backend.wait_irq(10**10)
        assert calls == ["write", "poll", "read"] * 2
        board.behind.lies.clear()


def test_names_may_be_links(board: UioBoard, tmp_path: Path) -> None:
    """sysfs has the names that the kernel gave."""
    links = {}
    for name, target in (("npu", UIO), ("npu-memory", BUFFER)):
        link = tmp_path / name
        link.symlink_to(target)
        links[target] = str(link)
        board.paths[str(link)] = board.paths[target]
    with opened(board, device=links[UIO], memory_file=links[BUFFER]) as npu:
        works(npu)
    board.paths["/dev/null"] = board.paths[UIO]
    refuses(
        NpuCardError,
        ["/sys/class/uio/null/maps/map0/size cannot be read: No such file", "is /dev/null a UIO device?"],
        opened,
        board,
        device="/dev/null",
    )


def test_an_interrupt_that_never_comes(board: UioBoard) -> None:
    with opened(board, clock_mhz=100) as npu:
        board.behind.silent = True
        npu.submit(nop_packet())
        refuses(NpuInterruptLostError, "no event arrived", npu.wait)
        npu.wait()
        board.behind.silent = False
        works(npu)


def test_a_reset_from_outside(board: UioBoard) -> None:
    with opened(board) as npu:
        npu.submit(nop_packet())
        board.behind.power_cycle()
        refuses(NpuCardResetError, "something else has reset the card", npu.wait)
    with opened(board) as npu:
        works(npu)


@pytest.mark.parametrize("call", ["read", "write", "poll"])
@pytest.mark.parametrize(
    ("code", "error"), [(errno.EIO, NpuTransferError), (errno.ENODEV, NpuCardLostError)], ids=str
)
def test_a_driver_that_fails_in_a_wait(
    board: UioBoard, call: str, code: int, error: type[NpuCardError]
) -> None:
    def hook(seen: str, *_: object) -> None:
        if seen == call:
            raise OSError(code, os.strerror(code))

    with opened(board) as npu:
        npu.submit(nop_packet())
        board.hook = hook
        refuses(error, None, npu.wait)
        board.hook = lambda *_: None
    with opened(board) as npu:
        works(npu)


@pytest.mark.parametrize(("call", "error"), [("read", NpuTransferError), ("write", NpuTransferError)])
def test_a_count_that_is_cut_short(board: UioBoard, call: str, error: type[NpuCardError]) -> None:
    with opened(board) as npu:
        npu.submit(nop_packet())
        board.hook = lambda seen, *_: 2 if seen == call else None
        refuses(error, "2 of 4 bytes", npu.wait)
        board.hook = lambda *_: None
        npu.wait()
        works(npu)


@pytest.mark.parametrize("events", [select.POLLERR, select.POLLHUP, select.POLLNVAL, select.POLLERR | 1])
def test_a_poll_that_reports_an_error(board: UioBoard, events: int) -> None:
    """uio_poll returns an error without a device behind the file."""
    with opened(board) as npu:
        npu.submit(nop_packet())
        board.hook = lambda seen, *_: events if seen == "poll" else None
        refuses(NpuCardLostError, "does not answer any more", npu.wait)


def test_calls_are_repeated(board: UioBoard) -> None:
    seen: set[str] = set()

    def hook(call: str, *_: object) -> None:
        if call not in seen and call in ("read", "write"):
            seen.add(call)
            raise OSError(errno.EINTR if call == "read" else errno.EAGAIN, "")

    with opened(board) as npu:
        board.hook = hook
        npu.submit(nop_packet())
        npu.wait()
        assert seen == {"read", "write"}
