"""Accesses by XDMA: aligned, in pieces, repeated and continued as the driver demands."""

import errno
import itertools
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import echo_npu
from echo_npu import ErrorCode, NpuBusError, NpuDeviceError, NpuPointerError, NpuTransferError, nop_packet
from echo_npu.backends import get_backend_class
from echo_npu.backends.board import transfers
from echo_npu.backends.board.transfers import CHUNK, PAGE, chunk_size, move
from echo_npu.backends.fpga import FpgaBackend
from echo_npu.spec.memory_map import MEMORY_SIZE
from tests.boards.conftest import CONFIG
from tests.boards.slots import CardSlot, inserted
from tests.boards.xdma_card import XdmaCalls
from tests.refusals import refuses

MEMORY_FILES = ("h2c_0", "c2h_0")


def drawn(size: int) -> np.ndarray:
    """Draw bytes; print the seed."""
    seed = random.getrandbits(32)
    print(f"seed {seed}")
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def moves(slot: CardSlot, size: int, address: int) -> None:
    """Write and read memory through the card; compare both ways with the memory behind it."""
    data = drawn(size)
    with slot.open() as npu:
        slot.card.calls.clear()
        npu.backend.write_mem(address, data)
        assert np.array_equal(slot.behind.backend.read_mem(address, size), data)
        assert np.array_equal(npu.backend.read_mem(address, size), data)


def test_results_are_those_of_the_device_behind(slot: CardSlot) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((9, 33), dtype=np.float32), rng.standard_normal((33, 5), dtype=np.float32)
    with slot.open() as npu, echo_npu.open("cmodel", config=CONFIG) as model:
        assert np.array_equal(npu.matmul(a, b), model.matmul(a, b))
        assert np.array_equal(npu.softmax(a), model.softmax(a))
        npu.submit_batch([nop_packet()] * 40)
        npu.wait()
        npu.submit(echo_npu.NpuCommandPacket(0x66))
        with pytest.raises(NpuDeviceError) as caught:
            npu.wait()
        assert caught.value.code == ErrorCode.BAD_OPCODE
        npu.clear_error()
        assert np.array_equal(npu.add(a, a), a + a)
        assert npu.info()["card"] == {"transport": "xdma", "device": slot.device}
        assert npu.info()["config"] == CONFIG


def test_a_register_is_one_aligned_word(slot: CardSlot) -> None:
    with slot.open() as npu:
        npu.matmul(np.eye(3, dtype=np.float32), np.eye(3, dtype=np.float32))
    accesses = [call for call in slot.card.calls if call[1] == "user" and call[0] != "open"]
    assert {size for _, _, _, size in accesses} == {4}
    assert {offset % 4 for _, _, offset, _ in accesses} == {0}


def test_registers_are_refused_as_the_device_would(slot: CardSlot) -> None:
    """The bus has no answer for a refused access, so the runtime refuses it; it is never made."""
    with slot.open() as npu, echo_npu.open("cmodel", config=CONFIG) as model:

        def outcome(call: Callable[[], object]) -> str:
            try:
                call()
            except NpuBusError as error:
                return str(error)
            return "done"

        before = slot.behind.stores
        writes = 0
        for offset in range(0, 0x400, 4):
            reads = [outcome(lambda d=d, o=offset: d.backend.read_reg(o)) for d in (npu, model)]
            stores = [outcome(lambda d=d, o=offset: d.backend.write_reg(o, 0)) for d in (npu, model)]
            assert reads[0] == reads[1]
            assert stores[0] == stores[1]
            writes += stores[0] == "done"
        assert slot.behind.stores - before == writes
        refuses(ValueError, "register offset is 0x2", npu.backend.read_reg, 2)
        refuses(ValueError, "must fit 32 bits", npu.backend.write_reg, 0x64, 1 << 32)


@pytest.mark.parametrize("size", [1, 3, PAGE, PAGE + 1, CHUNK - 1, CHUNK + 1, 3 * CHUNK + 5])
def test_memory_of_any_place_and_size(slot: CardSlot, size: int) -> None:
    for address in (0, 1, random.randrange(1, MEMORY_SIZE - size), MEMORY_SIZE - size):
        moves(slot, size, address)
        for file in MEMORY_FILES:
            pieces = [call for call in slot.card.calls if call[1] == file]
            assert sum(length for *_, length in pieces) == size
            assert all(length <= CHUNK for *_, length in pieces)
            assert all((offset + length) % PAGE == 0 for _, _, offset, length in pieces[:-1])


def test_memory_ends(slot: CardSlot) -> None:
    with slot.open() as npu:
        for address, size in ((-1, 2), (MEMORY_SIZE - 1, 2), (MEMORY_SIZE, 1), (0, MEMORY_SIZE + 1)):
            refuses(NpuPointerError, "leaves memory", npu.backend.read_mem, address, size)
        refuses(
            NpuPointerError, "leaves memory", npu.backend.write_mem, MEMORY_SIZE - 1, np.zeros(2, np.uint8)
        )
        assert npu.backend.read_mem(5, 0).size == 0


def test_no_call_crosses_four_gigabytes(folder: Path | None) -> None:
    base = (1 << 32) - 2 * PAGE
    with inserted(get_backend_class("cmodel").open(CONFIG, {}), CONFIG, folder, base) as slot:
        data = drawn(6 * PAGE)
        with slot.open(memory_base=base) as npu:
            slot.card.calls.clear()
            npu.backend.write_mem(100, data)
            assert np.array_equal(npu.backend.read_mem(100, data.size), data)
        pieces = [(offset, size) for _, name, offset, size in slot.card.calls if name in MEMORY_FILES]
        assert all(offset >> 32 == (offset + size - 1) >> 32 for offset, size in pieces)
        assert {offset >> 32 for offset, _ in pieces} == {0, 1}


def test_pieces_end_on_pages() -> None:
    for address, wanted in itertools.product((0, 1, 4095, 4097, (1 << 32) - 3), (1, 4096, 1 << 33)):
        size = chunk_size(address, wanted)
        assert 0 < size <= min(wanted, CHUNK)
        assert size == wanted or (address + size) % PAGE == 0
        assert address >> 32 == (address + size - 1) >> 32


@pytest.mark.parametrize("most", [1, 777, PAGE])
def test_a_transfer_that_moves_less_is_continued(slot: CardSlot, most: int) -> None:
    slot.card.hook = lambda call, name, offset, size: most if name in MEMORY_FILES else None
    moves(slot, 20 * most + 1, 12345)


@pytest.mark.parametrize("code", [errno.EINTR, errno.EAGAIN], ids=errno.errorcode.get)
def test_calls_are_repeated(slot: CardSlot, code: int) -> None:
    """Every third call of each file is interrupted or postponed; twice in a row now and then."""
    count = itertools.count()

    def hook(call: str, name: str, offset: int, size: int) -> None:
        if next(count) % 7 in (2, 5, 6):
            raise OSError(code, os.strerror(code))

    slot.card.hook = hook
    moves(slot, CHUNK + 100, 4090)
    with slot.open() as npu:
        assert np.array_equal(
            npu.matmul(np.eye(5, dtype=np.float32), np.ones((5, 2), np.float32)), np.ones((5, 2))
        )


def test_a_call_moves_a_mebibyte_at_most(slot: CardSlot) -> None:
    """The driver pins the pages of a call, so a larger one would take more of the host's memory at once."""
    size = (3 << 20) + 5
    with slot.open() as npu:
        slot.card.calls.clear()
        npu.backend.write_mem(0, drawn(size))
    assert [count for _, name, _, count in slot.card.calls if name == "h2c_0"] == [1 << 20] * 3 + [5]


def test_a_call_is_repeated_a_hundred_times_when_it_is_postponed(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(transfers, "time", SimpleNamespace(sleep=pauses.append))
    for postponed in (100, 101):
        left = iter([*[errno.EINTR, errno.EAGAIN] * postponed, *[errno.EINTR] * 1000, 0])
        pauses.clear()

        def call(left: Iterator[int] = left) -> str:
            if code := next(left):
                raise OSError(code, os.strerror(code))
            return "done"

        if postponed == 100:
            assert transfers.retried(call) == "done"
        else:
            refuses(BlockingIOError, None, transfers.retried, call)
        assert pauses == [0.001] * 100


def test_a_call_that_is_postponed_for_ever_fails(slot: CardSlot) -> None:
    with slot.open() as npu:

        def hook(call: str, name: str, offset: int, size: int) -> None:
            if name == "h2c_0":
                raise OSError(errno.EAGAIN, "")

        slot.card.hook = hook
        with pytest.raises(NpuTransferError) as caught:
            npu.backend.write_mem(0, np.zeros(8, np.uint8))
        assert (caught.value.errno, caught.value.done, caught.value.wanted) == (errno.EAGAIN, 0, 8)


@pytest.mark.parametrize("granularity", [1, 64, PAGE])
def test_buffer_and_address_are_equally_aligned(granularity: int) -> None:
    """The driver refuses a transfer whose buffer in the host is aligned otherwise than its address."""
    with inserted(get_backend_class("cmodel").open(CONFIG, {}), CONFIG, None) as slot:
        calls = XdmaCalls(slot.card, slot.device, granularity)
        slot.card.hook = lambda call, name, offset, size: 100_000 if name in MEMORY_FILES else None
        backend = FpgaBackend.open_with(calls, CONFIG, {"device": slot.device})
        for address in (0, 7, 4097):
            data = drawn(300_000)
            backend.write_mem(address, data)
            assert np.array_equal(backend.read_mem(address, data.size), data)
        backend.close()
        # The stand-in sees a wrong one.
        fd = calls.open(f"{slot.device}_c2h_0")
        if granularity > 1:
            with pytest.raises(OSError, match="EINVAL"):
                calls.pread(fd, calls.allocate(PAGE)[1:9], 0)


@contextmanager
def alarms(seconds: float, handler: Callable[..., object], *, repeat: bool) -> Iterator[None]:
    """Let a signal arrive after so many seconds inside the block, once or again and again."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds if repeat else 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_signals_do_no_harm(slot: CardSlot) -> None:
    """Transfers and waits go on after the handler of a signal."""
    seen: list[int] = []
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    with slot.open() as npu, alarms(0.002, lambda *_: seen.append(1), repeat=True):
        while len(seen) < 20:
            data = drawn(300_000)
            npu.backend.write_mem(1001, data)
            assert np.array_equal(npu.backend.read_mem(1001, data.size), data)
            assert np.array_equal(npu.matmul(x, x.T), x @ x.T)


class StopWaitingError(Exception):
    """Raised by the handler of a signal, as KeyboardInterrupt is."""


def test_a_wait_may_be_broken_off(slot: CardSlot) -> None:
    """An exception from a signal's handler ends a wait at once; the device can be used after it."""

    def stop(*_: object) -> None:
        raise StopWaitingError

    with slot.open() as npu:
        slot.behind.silent = True  # the wait would take ten seconds
        npu.submit(nop_packet())
        with pytest.raises(StopWaitingError), alarms(0.1, stop, repeat=False):
            npu.wait()
        slot.behind.silent = False
        slot.behind.raised()  # late: the file system polls until then, and lets the device's time pass
        npu.wait()
        assert np.array_equal(npu.relu(np.array([-1, 2], np.float32)), [0, 2])


@pytest.mark.parametrize("last", [0, errno.EIO])
def test_an_error_counts_what_was_moved_before(last: int) -> None:
    """By earlier parts of the transfer and by earlier calls of this one; a call moves nothing, or fails."""
    counts = iter([60, 30])

    def call(data: memoryview, place: int) -> int:
        count = next(counts, 0)
        if last and not count:
            raise OSError(last, "failed")
        return count

    with pytest.raises(NpuTransferError) as caught:
        move(call, "card", "memory write", 0x1000, memoryview(bytearray(100)), before=4096, wanted=8192)
    assert (caught.value.done, caught.value.errno) == (4096 + 90, last or None)
