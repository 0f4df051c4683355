"""Faults of a card: each ends with a named exception, and the card works afterwards."""

import errno
import gc
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import echo_npu
from echo_npu import (
    Device,
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
from echo_npu.backends.board import card as card_module
from echo_npu.backends.board.files import SystemFiles
from echo_npu.backends.fpga import FpgaBackend
from echo_npu.model.constants import constant_registers
from echo_npu.spec import registers as regs
from echo_npu.spec.memory_map import MEMORY_SIZE
from echo_npu.spec.status import State
from echo_sim.config import LEGAL, MEMORY, NpuConfig, load_config
from tests.boards.conftest import CONFIG
from tests.boards.slots import CardSlot
from tests.boards.working import in_a_child, refuses_after_close, works
from tests.boards.xdma_card import NAMES, Hook, XdmaCalls
from tests.refusals import refuses


def works_again(slot: CardSlot) -> None:
    """Check that the card works when it is opened again without the fault."""
    slot.card.hook = lambda *_: None
    slot.behind.gone = slot.behind.silent = False
    slot.behind.lies.clear()
    with slot.open() as npu:
        works(npu)


def failing(code: int, file: str, call: str, after: int = 0) -> Hook:
    """Return a hook with which a file's calls fail after so many."""
    left = [after]

    def hook(seen: str, name: str, offset: int, size: int) -> None:
        if (seen, name) == (call, file):
            left[0] -= 1
            if left[0] < 0:
                raise OSError(code, os.strerror(code))

    return hook


def descriptors() -> int:
    gc.collect()  # those of earlier tests
    return len(os.listdir("/proc/self/fd"))


# --- opening ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("code", "error"),
    [
        (errno.EACCES, NpuCardPermissionError),
        (errno.EPERM, NpuCardPermissionError),
        (errno.ENODEV, NpuCardMissingError),
        (errno.ENXIO, NpuCardMissingError),
        (errno.EIO, NpuCardError),
    ],
    ids=str,
)
def test_a_file_that_cannot_be_opened(
    slot: CardSlot, name: str, code: int, error: type[NpuCardError]
) -> None:
    before = descriptors()
    slot.card.hook = failing(code, name, "open")
    refuses(error, [f"{slot.device}_{name}", os.strerror(code)], slot.open)
    assert descriptors() == before
    works_again(slot)


def test_a_card_that_is_not_there(slot: CardSlot) -> None:
    refuses(NpuCardMissingError, "xdma9_user cannot be opened", slot.open, device=f"{slot.device[:-1]}9")


@pytest.mark.parametrize(
    ("register", "value", "words"),
    [
        (regs.ID, 0x1234_5678, "register ID reads 0x12345678: an ECHO NPU has 0x4543484f"),
        (regs.ID, 0xFFFF_FFFF, "register ID reads 0xffffffff: nothing answers"),
        (regs.VERSION, 0x2_0003, "version 2.3; this runtime knows version 1"),
        (regs.CAP_ARRAY, 0x8_0008, "register CAP_ARRAY reads 0x00080008; configuration small has 0x00040004"),
    ],
)
def test_another_device_is_refused_before_anything_is_written(
    slot: CardSlot, register: int, value: int, words: str
) -> None:
    before = descriptors()
    slot.behind.lies[register] = value
    refuses(NpuCardIdentityError, [words], slot.open)
    assert slot.behind.stores == 0
    assert not [call for call in slot.card.calls if call[0] == "write"]
    assert descriptors() == before
    works_again(slot)


@pytest.mark.parametrize("minor", [2, 3])
def test_a_later_minor_version_is_taken(slot: CardSlot, minor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card_module, "constant_registers", with_version(0x1_0002))
    slot.behind.lies[regs.VERSION] = 0x1_0000 + minor
    with slot.open() as npu:
        works(npu)


def test_an_earlier_minor_version_is_refused(slot: CardSlot, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may lack what a later one has added."""
    monkeypatch.setattr(card_module, "constant_registers", with_version(0x1_0002))
    slot.behind.lies[regs.VERSION] = 0x1_0001
    refuses(NpuCardIdentityError, ["version 1.1", "version 1, from 1.2 on"], slot.open)
    assert slot.behind.stores == 0


def with_version(version: int) -> Callable[[NpuConfig], dict[int, int]]:
    """Return `constant_registers` of a runtime that knows another version."""
    return lambda config: {**constant_registers(config), regs.VERSION: version}


def test_one_device_at_a_time(slot: CardSlot) -> None:
    with slot.open() as npu:
        refuses(NpuCardBusyError, f"process has {slot.device}_user open|process {os.getpid()} has", slot.open)
        works(npu)
    works_again(slot)


@pytest.mark.parametrize("folder", ["fuse"], indirect=True)
def test_two_processes_on_one_card(slot: CardSlot) -> None:
    """The second process is told who has the card, and can have it afterwards."""
    code = (
        "import echo_npu\n"
        f"try:\n    echo_npu.open('fpga', device={slot.device!r}, config={CONFIG!r}, clock_mhz=0.1).close()\n"
        "except echo_npu.NpuCardBusyError as error:\n    print(error.holder)\n"
        "else:\n    print('opened')"
    )

    def elsewhere() -> str:
        command = [sys.executable, "-c", code]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()

    with slot.open() as npu:
        assert elsewhere() == str(os.getpid())
        works(npu)
    assert elsewhere() == "opened"


@pytest.mark.parametrize("folder", ["fuse"], indirect=True)
def test_a_forked_child_has_no_file_of_the_card(slot: CardSlot) -> None:
    before = descriptors()
    with slot.open() as npu:
        assert descriptors() > before
        assert in_a_child(lambda: descriptors() == before)
        works(npu)


def test_what_the_last_user_left_is_gone(slot: CardSlot) -> None:
    """A program that ended without a word left limits, an error and unfinished work."""
    with slot.open() as npu:
        npu.limit(watchdog_cycles=5, protect_ring=True)
        npu.backend.write_reg(regs.AXI_PROT, 2)
        npu.backend.write_reg(regs.RING_BASE, 0x1000_0000)
        npu.submit([echo_npu.NpuCommandPacket(0x66), nop_packet()])
    with slot.open() as npu:
        kept = (
            regs.WATCHDOG,
            regs.GUARD_BASE,
            regs.GUARD_SIZE,
            regs.AXI_PROT,
            regs.RING_BASE,
            regs.RING_SIZE,
        )
        assert [npu.backend.read_reg(offset) for offset in kept] == [0] * 6
        works(npu)


def test_memory_above_four_gigabytes_is_refused(
    slot: CardSlot, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Before the card is asked for anything; the card is free afterwards."""
    small, large = load_config("small"), load_config("large")
    keys = {key: getattr(small, key) for key in LEGAL} | {key: getattr(large, key) for key in MEMORY}
    wide = tmp_path_factory.mktemp("configurations") / "wide.toml"
    wide.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()), encoding="utf-8")
    before = descriptors()
    config, slot.config = slot.config, str(wide)
    refuses(ValueError, "no board has memory above 4 GiB", slot.open)
    assert not [call for call in slot.card.calls if call[0] != "open"]
    assert descriptors() == before
    slot.config = config
    works_again(slot)


def test_memory_of_the_host_that_is_refused(slot: CardSlot, monkeypatch: pytest.MonkeyPatch) -> None:
    def allocate(*_: object) -> memoryview:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    before = descriptors()
    with monkeypatch.context() as patch:
        for files in (SystemFiles, XdmaCalls):
            patch.setattr(files, "allocate", allocate)
        refuses(NpuCardError, [slot.device, "the host refused 1 MiB of memory: Cannot allocate"], slot.open)
    assert descriptors() == before
    works_again(slot)


def test_a_card_that_was_closed(slot: CardSlot) -> None:
    with slot.open() as npu:
        pass
    slot.card.calls.clear()
    refuses_after_close(npu.backend)
    assert not slot.card.calls


def test_a_card_that_does_not_become_idle(slot: CardSlot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card_module, "_RESET_S", 0.05)
    slot.behind.lies[regs.STATUS] = State.BUSY
    refuses(NpuCardError, "did not become idle within 0.05 s", slot.open)
    works_again(slot)


# --- a card that vanishes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.ENODEV, errno.ENXIO, errno.ESHUTDOWN], ids=errno.errorcode.get)
@pytest.mark.parametrize("what", ["register read", "register write", "memory read", "memory write"])
def test_a_driver_that_says_that_the_card_has_gone(slot: CardSlot, what: str, code: int) -> None:
    file, call, action = ACCESSES[what]
    with slot.open() as npu:
        slot.card.hook = failing(code, file, call)
        refuses(NpuCardLostError, "does not answer any more", action, npu)
        slot.card.hook = lambda *_: None
        for again in (npu.status, lambda: npu.backend.read_mem(0, 1), npu.wait):
            refuses(NpuCardLostError, "does not answer any more", again)
    works_again(slot)


ACCESSES: dict[str, tuple[str, str, Callable[[Device], object]]] = {
    "register read": ("user", "read", lambda npu: npu.backend.read_reg(regs.STATUS)),
    "register write": ("user", "write", lambda npu: npu.backend.write_reg(regs.WATCHDOG, 1)),
    "memory read": ("c2h_0", "read", lambda npu: npu.backend.read_mem(0, 8)),
    "memory write": ("h2c_0", "write", lambda npu: npu.backend.write_mem(0, np.zeros(8, np.uint8))),
}


def test_a_bus_that_returns_all_ones(slot: CardSlot) -> None:
    """PCIe has no errors: a read of a card that is not there returns all ones."""
    with slot.open() as npu:
        npu.submit(nop_packet())
        slot.behind.gone = True
        refuses(NpuCardLostError, "reads return all ones", npu.wait)
        refuses(NpuCardLostError, "reads return all ones", npu.status)
    works_again(slot)


def test_a_register_may_be_all_ones(slot: CardSlot) -> None:
    with slot.open() as npu:
        npu.backend.write_reg(regs.WATCHDOG, 0xFFFF_FFFF)
        assert npu.backend.read_reg(regs.WATCHDOG) == 0xFFFF_FFFF


# --- transfers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ACCESSES)
def test_an_access_that_fails(slot: CardSlot, what: str) -> None:
    file, call, action = ACCESSES[what]
    with slot.open() as npu:
        slot.card.hook = failing(errno.EIO, file, call)
        with pytest.raises(NpuTransferError, match=f"the {what} at 0x.*Input/output error") as caught:
            action(npu)
        assert (caught.value.errno, caught.value.done) == (errno.EIO, 0)
        slot.card.hook = lambda *_: None
        works(npu)
    works_again(slot)


@pytest.mark.parametrize("what", ["memory read", "memory write"])
def test_an_error_in_the_middle_of_a_transfer(slot: CardSlot, what: str) -> None:
    """It tells what was moved before, in all calls, and the card works on."""
    file, call, _ = ACCESSES[what]
    data = np.arange(1, 600_001, dtype=np.uint32).view(np.uint8)  # three calls, if none is cut short
    moved = 0
    actions: dict[str, Callable[[Device], object]] = {
        "memory read": lambda npu: npu.backend.read_mem(0x2000, data.size),
        "memory write": lambda npu: npu.backend.write_mem(0x2000, data),
    }

    def hook(seen: str, name: str, offset: int, size: int) -> int | None:
        nonlocal moved
        if (seen, name) != (call, file):
            return None
        if moved == 1_300_000:
            raise OSError(errno.EIO, "")
        count = min(size, 100_000, 1_300_000 - moved)
        moved += count
        return count

    with slot.open() as npu:
        npu.backend.write_mem(0x2000, np.zeros(data.size, np.uint8))
        slot.card.hook = hook
        with pytest.raises(NpuTransferError) as caught:
            actions[what](npu)
        error = caught.value
        assert (error.address, error.done, error.wanted, error.errno) == (
            0x2000,
            1_300_000,
            data.size,
            errno.EIO,
        )
        slot.card.hook = lambda *_: None
        if what == "memory write":
            there = npu.backend.read_mem(0x2000, data.size)
            assert np.array_equal(there[:1_300_000], data[:1_300_000])
            assert not there[1_300_000:].any()
        works(npu)


@pytest.mark.parametrize("what", ACCESSES)
def test_an_access_that_moves_nothing(slot: CardSlot, what: str) -> None:
    file, call, action = ACCESSES[what]
    with slot.open() as npu:
        slot.card.hook = lambda seen, name, offset, size: 0 if (seen, name) == (call, file) else None
        with pytest.raises(NpuTransferError, match="no error was named") as caught:
            action(npu)
        assert (caught.value.errno, caught.value.done) == (None, 0)
        slot.card.hook = lambda *_: None
        works(npu)


@pytest.mark.parametrize("what", ["register read", "register write"])
def test_half_a_register(slot: CardSlot, what: str) -> None:
    file, call, action = ACCESSES[what]
    with slot.open() as npu:
        slot.card.hook = lambda seen, name, offset, size: 2 if (seen, name) == (call, file) else None
        with pytest.raises(NpuTransferError, match="after 2 of 4 bytes"):
            action(npu)
        slot.card.hook = lambda *_: None
        works(npu)


# --- interrupts and resets ----------------------------------------------------------------------------------


def test_an_interrupt_that_never_comes(slot: CardSlot) -> None:
    """The card says that its interrupt is high; the host never hears of it. Another wait goes on."""
    with slot.open(clock_mhz=10) as npu:
        slot.behind.silent = True
        npu.submit(nop_packet())
        refuses(NpuInterruptLostError, "no event arrived", npu.wait)
        npu.wait()
        slot.behind.silent = False
        works(npu)


@pytest.mark.parametrize("comes", [True, False])
def test_an_event_may_come_late(slot: CardSlot, comes: bool) -> None:
    """The time is up and the interrupt is high: its event may still come within a second."""
    with slot.open() as npu, pytest.MonkeyPatch.context() as patch:
        assert isinstance(npu.backend, FpgaBackend)
        npu.backend.write_reg(regs.IRQ_STATUS, 7)
        asked: list[float] = []

        def wait(seconds: float) -> bool:
            asked.append(seconds)
            slot.behind.lies[regs.IRQ_STATUS] = 7
            return comes and seconds == 1

        patch.setattr(npu.backend.transport, "wait", wait)
        if comes:
            assert npu.backend.wait_irq(1000)
        else:
            refuses(NpuInterruptLostError, "no event arrived within 1 s", npu.backend.wait_irq, 1000)
        assert asked[1:] == [1]
        slot.behind.lies.clear()


def test_interrupts_are_events_of_the_driver(slot: CardSlot) -> None:
    """A wait that finds the interrupt low reads an event."""
    with slot.open() as npu:
        slot.card.calls.clear()
        npu.submit(nop_packet())
        npu.wait()
    assert ("read", 4) in [(call, size) for call, name, _, size in slot.card.calls if name == "events_0"]


@pytest.mark.parametrize(("code", "error"), [(errno.ENODEV, NpuCardLostError), (errno.EIO, NpuTransferError)])
def test_a_driver_that_fails_in_a_wait(slot: CardSlot, code: int, error: type[NpuCardError]) -> None:
    with slot.open() as npu:
        slot.card.hook = failing(code, "events_0", "read")
        npu.submit(nop_packet())
        refuses(error, None, npu.wait)
        slot.card.hook = lambda *_: None
        if error is NpuCardLostError:  # which stays lost until it is opened again
            refuses(error, None, npu.wait)
            refuses(error, None, npu.backend.read_reg, regs.ID)
    works_again(slot)


def test_a_device_that_is_not_done_in_time(slot: CardSlot) -> None:
    """The interrupt stays low, and none is due: the device says that it is busy."""
    with slot.open(clock_mhz=1) as npu:
        npu.backend.write_reg(regs.IRQ_STATUS, 7)
        assert not npu.backend.wait_irq(1000)
        assert not npu.backend.wait_irq(0)
        slot.behind.lies[regs.STATUS] = State.BUSY
        with pytest.raises(NpuTimeoutError) as caught:
            npu.wait(timeout_cycles=1000)
        assert caught.value.cycles == 1000
        slot.behind.lies.clear()
        npu.reset()
        works(npu)


def test_a_reset_from_outside(slot: CardSlot) -> None:
    with slot.open() as npu:
        npu.submit(nop_packet())
        slot.behind.power_cycle()
        refuses(NpuCardResetError, "something else has reset the card", npu.wait)
        refuses(NpuCardResetError, "open it again", npu.memset, 0, 1, 5)
    works_again(slot)


@pytest.mark.parametrize("arrives", [False, True])
def test_a_failed_write_of_the_enable_is_no_reset(slot: CardSlot, arrives: bool) -> None:
    """The driver may report an error of a write that has arrived, or of one that has not."""
    with slot.open() as npu:
        before = npu.backend.read_reg(regs.IRQ_ENABLE)
        after = before ^ 4
        if arrives:
            slot.behind.store(regs.IRQ_ENABLE, after)
        slot.card.hook = failing(errno.EIO, "user", "write")
        refuses(NpuTransferError, None, npu.backend.write_reg, regs.IRQ_ENABLE, after)
        slot.card.hook = lambda *_: None
        works(npu)
        slot.behind.store(regs.IRQ_ENABLE, before if arrives else after)  # by now it is known
        words = f"IRQ_ENABLE reads {before if arrives else after} in place of {after if arrives else before}:"
        refuses(NpuCardResetError, words, npu.backend.wait_irq, 0)


def test_a_reset_after_a_failed_write_of_the_enable(slot: CardSlot) -> None:
    with slot.open() as npu:
        before = npu.backend.read_reg(regs.IRQ_ENABLE)
        slot.card.hook = failing(errno.EIO, "user", "write")
        refuses(NpuTransferError, None, npu.backend.write_reg, regs.IRQ_ENABLE, before | 4)
        slot.card.hook = lambda *_: None
        slot.behind.power_cycle()
        refuses(NpuCardResetError, f"reads 0 in place of {before} or {before | 4}", npu.backend.wait_irq, 0)


def test_an_error_that_is_raised_again_does_not_grow(slot: CardSlot) -> None:
    with slot.open() as npu:
        slot.behind.gone = True
        raised = []
        for _ in range(3):
            with pytest.raises(NpuCardLostError) as caught:
                npu.backend.read_reg(regs.STATUS)
            raised.append(caught.value)
        depths = [len(list(traceback.walk_tb(error.__traceback__))) for error in raised]
        assert depths[1] == depths[2] <= depths[0]
        assert len({id(error) for error in raised}) == 3
        assert {(str(error), error.device) for error in raised} == {(str(raised[0]), slot.device)}


@contextmanager
def waiting(slot: CardSlot, call: Callable[[float], None] = lambda _: None) -> Iterator[Device]:
    """A device at 50 MHz whose interrupt never tells, in a time that passes only in waits.

    Args:
        call: is called with the seconds of each wait.
    """
    with slot.open(clock_mhz=50) as npu, pytest.MonkeyPatch.context() as patch:
        assert isinstance(npu.backend, FpgaBackend)
        npu.backend.write_reg(regs.IRQ_STATUS, 7)
        passed: list[float] = []

        def wait(seconds: float) -> bool:
            passed.append(seconds)
            call(seconds)
            return False

        patch.setattr(npu.backend.transport, "wait", wait)
        patch.setattr(card_module, "time", SimpleNamespace(monotonic=lambda: sum(passed)))
        yield npu


def test_cycles_become_seconds_by_the_clock(slot: CardSlot) -> None:
    asked: list[float] = []
    with waiting(slot, asked.append) as npu:
        assert not npu.backend.wait_irq(1_000_000)
        assert asked == [pytest.approx(0.02)]
        assert npu.backend.reset_cycles == 500_000_000  # ten seconds


def test_a_wait_that_is_longer_than_a_call_can_be(slot: CardSlot) -> None:
    """It takes several calls, and ends with the interrupt or after its time."""
    asked: list[float] = []

    def call(seconds: float) -> None:
        asked.append(seconds)
        if len(asked) == 5:
            slot.behind.lies[regs.IRQ_STATUS] = 7

    with waiting(slot, call) as npu:
        assert not npu.backend.wait_irq(9000 * 50_000_000)
        assert asked == [3600, 3600, 1800]
        assert npu.backend.wait_irq(10**400)
        assert asked[3:] == [3600, 3600]
        slot.behind.lies.clear()


def test_registers_behind_the_window(slot: CardSlot) -> None:
    refuses(NpuCardError, "ffffffff", slot.open, registers=0x10000)
    works_again(slot)


def test_the_enable_keeps_what_it_has_bits_for(slot: CardSlot) -> None:
    """More ones than it has are no reset from outside."""
    with slot.open() as npu:
        npu.backend.write_reg(regs.IRQ_ENABLE, 0xFFFF_FFFF)
        npu.backend.write_reg(regs.IRQ_STATUS, 7)
        assert not npu.backend.wait_irq(0)
        works(npu)


def test_ones_own_reset_is_none(slot: CardSlot) -> None:
    with slot.open() as npu:
        npu.reset()
        works(npu)


def test_memory_outlives_an_error(slot: CardSlot) -> None:
    """What is in memory is there after the device was closed and opened."""
    data = np.arange(100, dtype=np.uint8)
    with slot.open() as npu:
        npu.backend.write_mem(MEMORY_SIZE - 200, data)
    with slot.open() as npu:
        assert np.array_equal(npu.backend.read_mem(MEMORY_SIZE - 200, 100), data)


def test_no_file_is_left_open(slot: CardSlot, tmp_path: Path) -> None:
    before = descriptors()
    with slot.open() as npu:
        works(npu)
        assert (slot.folder is None) == (descriptors() == before)
    assert descriptors() == before
