"""The backend asic by VFIO, on answers to its calls."""

import errno
import gc
import mmap
import os
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu import (
    BackendError,
    Device,
    NpuCardBusyError,
    NpuCardError,
    NpuCardIdentityError,
    NpuCardLostError,
    NpuCardMissingError,
    NpuCardPermissionError,
    NpuCardResetError,
    NpuInterruptLostError,
    NpuTransferError,
    nop_packet,
)
from echo_npu.backends import get_backend_class
from echo_npu.backends.asic import AsicBackend
from echo_npu.backends.board.transport import WINDOW_BYTES
from echo_npu.backends.board.vfio_calls import VfioCall
from echo_npu.spec import registers as regs
from echo_npu.spec.memory_map import MEMORY_SIZE
from tests.boards.conftest import CONFIG
from tests.boards.hardware import HardwareBehind
from tests.boards.vfio_device import COMMAND, DEVICE, GROUP, VfioDevice
from tests.boards.working import as_device, in_a_child, refuses_after_close, works
from tests.boards.xdma_card import Hook
from tests.refusals import refuses


@pytest.fixture
def device() -> Iterator[VfioDevice]:
    backend = get_backend_class("cmodel").open(CONFIG, {})
    yield VfioDevice(HardwareBehind(backend))
    backend.close()


def opened(files: VfioDevice, **options: Any) -> Device:
    """Open a device as a program does."""
    backend = AsicBackend.open_with(files, CONFIG, {"device": DEVICE, "clock_mhz": 1.0, **options})
    return as_device(backend)


def works_again(files: VfioDevice) -> None:
    files.hook = lambda *_: None
    files.behind.gone = files.behind.silent = False
    files.behind.lies.clear()
    with opened(files) as npu:
        works(npu)


def failing(code: int, call: str, path: str | None = None) -> Hook:
    """Return a hook with which a call fails."""

    def hook(seen: str, name: str, offset: int, size: int) -> None:
        if seen == call and path in (None, name):
            raise OSError(code, os.strerror(code))

    return hook


def test_the_numbers_are_those_of_the_header() -> None:
    """`_IO(';', 100 + n)`, n as in linux/vfio.h."""
    expected = {
        "GET_API_VERSION": 0x3B64,
        "CHECK_EXTENSION": 0x3B65,
        "SET_IOMMU": 0x3B66,
        "GROUP_GET_STATUS": 0x3B67,
        "GROUP_SET_CONTAINER": 0x3B68,
        "GROUP_GET_DEVICE_FD": 0x3B6A,
        "DEVICE_GET_REGION_INFO": 0x3B6C,
        "DEVICE_GET_IRQ_INFO": 0x3B6D,
        "DEVICE_SET_IRQS": 0x3B6E,
        "IOMMU_MAP_DMA": 0x3B71,
        "IOMMU_UNMAP_DMA": 0x3B72,
    }
    assert {call.name: call.value for call in VfioCall} == expected


@pytest.mark.parametrize("options", [{}, {"registers": 0x2000}, {"bar": 2}, {"iova": 1 << 33}], ids=str)
def test_results_are_those_of_the_device_behind(options: dict[str, int]) -> None:
    backend = get_backend_class("cmodel").open(CONFIG, {})
    files = VfioDevice(HardwareBehind(backend), options.get("registers", 0), options.get("bar", 0))
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((9, 33), dtype=np.float32), rng.standard_normal((33, 5), dtype=np.float32)
    with opened(files, **options) as npu, echo_npu.open("cmodel", config=CONFIG) as model:
        assert files.mapped == {options.get("iova", 0): MEMORY_SIZE}
        assert files.command == COMMAND | 0x0004
        assert np.array_equal(npu.matmul(a, b), model.matmul(a, b))
        assert np.array_equal(npu.softmax(a), model.softmax(a))
        works(npu)
        assert npu.info()["card"] == {"transport": "vfio", "device": DEVICE}
    backend.close()


def eventfds() -> int:
    """Return how many eventfds this process has."""
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return sum("eventfd" in os.readlink(link) for link in links if os.path.islink(link))


def test_everything_is_given_back_in_order(device: VfioDevice) -> None:
    before = eventfds()
    with opened(device) as npu:
        works(npu)
        assert eventfds() == before + 1
        device.calls.clear()
    assert device.calls == ["DEVICE_SET_IRQS", "IOMMU_UNMAP_DMA"]
    assert not device.mapped
    assert not device.opened
    assert eventfds() == before


def test_memory_that_was_read_is_the_caller_s(device: VfioDevice) -> None:
    """It neither changes with device memory, nor changes it, nor keeps it."""
    with opened(device) as npu:
        npu.backend.write_mem(64, np.arange(32, dtype=np.uint8))
        found = npu.backend.read_mem(64, 32)
        npu.backend.write_mem(64, np.zeros(32, np.uint8))
        assert np.array_equal(found, np.arange(32))
        found[:] = 9
        assert not npu.backend.read_mem(64, 32).any()


def address_space() -> int:
    """Return the bytes of address space that this process has."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * mmap.PAGESIZE


def test_closing_gives_memory_back(device: VfioDevice) -> None:
    """Though somebody still has the closed device."""
    before = address_space()
    npu = opened(device)
    assert address_space() > before + MEMORY_SIZE // 2
    npu.close()
    gc.collect()
    assert address_space() < before + MEMORY_SIZE // 2
    assert npu.backend.name == "asic"


def test_the_device_is_identified_before_anything_is_written(device: VfioDevice) -> None:
    device.behind.lies[regs.ID] = 0x10EE
    refuses(NpuCardIdentityError, "register ID reads 0x000010ee", opened, device)
    assert device.behind.stores == 0
    assert device.command == COMMAND
    assert "IOMMU_MAP_DMA" not in device.calls
    works_again(device)


# --- opening ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [GROUP, "/dev/vfio/vfio"])
@pytest.mark.parametrize(
    ("code", "error"),
    [(errno.ENOENT, NpuCardMissingError), (errno.EACCES, NpuCardPermissionError), (errno.EIO, NpuCardError)],
    ids=str,
)
def test_a_file_that_cannot_be_opened(
    device: VfioDevice, path: str, code: int, error: type[NpuCardError]
) -> None:
    device.hook = failing(code, "open", path)
    refuses(error, path, opened, device)
    works_again(device)


def test_a_device_that_is_not_there(device: VfioDevice) -> None:
    refuses(NpuCardMissingError, "is the IOMMU enabled", opened, device, device="0000:02:00.0")


def test_one_device_at_a_time(device: VfioDevice) -> None:
    with opened(device) as npu:
        refuses(NpuCardBusyError, f"another process has {GROUP} open", opened, device)
        works(npu)
    works_again(device)


@pytest.mark.parametrize(
    ("fact", "value", "words"),
    [
        ("version", 1, "VFIO has version 1"),
        ("extension", 0, "no IOMMU of type 1"),
        ("viable", False, "bind every device of the group"),
        ("flags", 1, "region 0 has 4096 bytes and flags 1"),
        ("bar_size", 64, "region 0 has 64 bytes"),
        ("vectors", 0, "no MSI-X vector"),
        ("irq_flags", 0, "no MSI-X vector"),
    ],
)
def test_what_vfio_lacks_is_named(device: VfioDevice, fact: str, value: int, words: str) -> None:
    usual = getattr(device, fact)
    setattr(device, fact, value)
    refuses(NpuCardError, words, opened, device)
    assert device.behind.stores == 0
    setattr(device, fact, usual)
    works_again(device)


OPENING = [each.name for each in VfioCall if "UNMAP" not in each.name]


@pytest.mark.parametrize("call", OPENING)
def test_a_call_that_fails_is_named(device: VfioDevice, call: str) -> None:
    device.hook = failing(errno.EFAULT, call)
    refuses(NpuCardError, "VFIO refused .*: Bad address", opened, device)
    works_again(device)


@pytest.mark.parametrize("code", [errno.ENOMEM, errno.EPERM], ids=errno.errorcode.get)
def test_memory_that_may_not_be_pinned(device: VfioDevice, code: int) -> None:
    """ENOMEM: it is more than `ulimit -l`."""
    device.hook = failing(code, "IOMMU_MAP_DMA")
    words = ["512 MiB of memory may not be pinned", os.strerror(code), "ulimit -l"]
    refuses(NpuCardPermissionError, words, opened, device)
    works_again(device)


@pytest.mark.parametrize("code", [errno.ENODEV, errno.ENXIO, errno.ESHUTDOWN], ids=errno.errorcode.get)
@pytest.mark.parametrize("call", [each for each in OPENING if each != "GROUP_GET_DEVICE_FD"])
def test_a_device_that_vanishes_while_it_is_opened(device: VfioDevice, call: str, code: int) -> None:
    device.hook = failing(code, call)
    refuses(NpuCardLostError, "does not answer any more", opened, device)
    works_again(device)


def test_a_device_that_vfio_does_not_have(device: VfioDevice) -> None:
    """It is in the group, but another driver has it, or none."""
    device.hook = failing(errno.ENODEV, "GROUP_GET_DEVICE_FD")
    refuses(NpuCardMissingError, [DEVICE, "is it bound to vfio-pci?"], opened, device)
    works_again(device)


def test_the_window_may_end_where_the_bar_ends() -> None:
    backend = get_backend_class("cmodel").open(CONFIG, {})
    files = VfioDevice(HardwareBehind(backend), 0x2000)
    files.bar_size = 0x2000 + WINDOW_BYTES - 1
    words = f"region 0 has {files.bar_size} bytes .* {files.bar_size + 1} are needed"
    refuses(NpuCardError, words, opened, files, registers=0x2000)
    assert files.behind.stores == 0
    files.bar_size += 1
    with opened(files, registers=0x2000) as npu:
        works(npu)
    backend.close()


@pytest.mark.parametrize(("call", "code"), [("eventfd", errno.EMFILE), ("allocate", errno.ENOMEM)])
def test_what_the_host_refuses_is_named(
    device: VfioDevice, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    def refused(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(device, call, refused)
        refuses(NpuCardError, [DEVICE, os.strerror(code)], opened, device)
    assert not device.opened
    works_again(device)


def test_a_forked_child_has_nothing_of_the_device(device: VfioDevice) -> None:
    """It could keep the group after its parent has ended. Neither does it take the device from its parent."""
    before = eventfds()
    with opened(device) as npu:
        assert in_a_child(lambda: not device.opened and eventfds() == before)

        def close() -> bool:
            device.calls.clear()
            npu.close()
            npu.backend.close()
            return not device.calls

        assert in_a_child(close)
        works(npu)
    assert not device.opened


def test_a_device_that_was_closed(device: VfioDevice) -> None:
    with opened(device) as npu:
        pass
    refuses_after_close(npu.backend)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"device": "01:00.0"}, ValueError, "must be a PCI address"),
        ({"device": "0000:01:20.0"}, ValueError, "must be a PCI address"),
        ({"device": "0000:01:00.8"}, ValueError, "must be a PCI address"),
        ({"device": "00000:01:00.0"}, ValueError, "must be a PCI address"),
        ({"device": "0000:01:00.0\n"}, ValueError, "must be a PCI address"),
        ({"device": 3}, TypeError, r"device is 3 \(int\); it must be a PCI address as text"),
        ({"device": PurePath(DEVICE)}, TypeError, "it must be a PCI address as text"),
        ({"bar": 6}, ValueError, "bar is 6"),
        ({"bar": True}, TypeError, "bar is True"),
        ({"iova": 100}, ValueError, "iova is 100; it must be a multiple of 4096"),
        ({"iova": (1 << 63) - 4096}, ValueError, rf"a multiple of 4096 up to 2\^63 - {MEMORY_SIZE}"),
        ({"registers": 2}, ValueError, "registers is 2"),
        ({"clock_mhz": 0}, ValueError, "clock_mhz is 0"),
        ({"clock_mhz": "fast"}, TypeError, "clock_mhz is 'fast'"),
        ({"transport": "vfio"}, TypeError, "asic has no option 'transport'"),
    ],
)
def test_wrong_options(options: dict[str, Any], error: type[Exception], words: str) -> None:
    refuses(error, words, echo_npu.open, "asic", CONFIG, **options)


def test_a_device_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ECHO_NPU_DEVICE", raising=False)
    refuses(BackendError, "needs the PCI address", echo_npu.open, "asic", CONFIG)
    monkeypatch.setenv("ECHO_NPU_DEVICE", "/dev/xdma0")
    refuses(BackendError, "'/dev/xdma0'", echo_npu.open, "asic", CONFIG)
    for address in ("ffff:00:00.0", "10000:e1:00.0"):  # the latter behind a volume management device
        monkeypatch.setenv("ECHO_NPU_DEVICE", address)
        refuses(NpuCardMissingError, address, echo_npu.open, "asic", CONFIG)
        monkeypatch.delenv("ECHO_NPU_DEVICE")
        refuses(NpuCardMissingError, address, echo_npu.open, "asic", CONFIG, device=address)


# --- at work ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "error"), [(errno.EIO, NpuTransferError), (errno.ENODEV, NpuCardLostError)])
@pytest.mark.parametrize("call", ["pread", "pwrite"])
def test_a_register_access_that_fails(
    device: VfioDevice, call: str, code: int, error: type[NpuCardError]
) -> None:
    with opened(device) as npu:
        device.hook = failing(code, call)
        refuses(error, None, npu.submit, nop_packet())
        device.hook = lambda *_: None
    works_again(device)


def test_half_a_register(device: VfioDevice) -> None:
    with opened(device) as npu:
        device.hook = lambda call, *_: 2 if call == "pread" else None
        refuses(NpuTransferError, "after 2 of 4 bytes", npu.status)
        device.hook = lambda *_: None
        works(npu)


def test_a_bus_that_returns_all_ones(device: VfioDevice) -> None:
    with opened(device) as npu:
        device.behind.gone = True
        refuses(NpuCardLostError, "reads return all ones", npu.status)
        device.behind.gone = False
        refuses(NpuCardLostError, "reads return all ones", npu.backend.read_mem, 0, 1)
    works_again(device)


def test_the_interrupt_is_an_eventfd(device: VfioDevice) -> None:
    seen: list[str] = []
    with opened(device) as npu:
        device.hook = lambda call, name, *_: seen.append(call) if name == "eventfd" else None
        npu.submit(nop_packet())
        npu.wait()
    assert seen == ["poll", "read"]


@pytest.mark.parametrize(("code", "error"), [(errno.EIO, NpuTransferError), (errno.ENODEV, NpuCardLostError)])
@pytest.mark.parametrize("call", ["poll", "read"])
def test_a_wait_that_fails(device: VfioDevice, call: str, code: int, error: type[NpuCardError]) -> None:
    with opened(device) as npu:
        device.hook = failing(code, call, "eventfd")
        npu.submit(nop_packet())
        refuses(error, None, npu.wait)
    works_again(device)


def test_an_interrupt_that_never_comes(device: VfioDevice) -> None:
    """A device without the right to master the bus sends no message."""
    with opened(device, clock_mhz=100) as npu:
        device.command &= ~4
        npu.submit(nop_packet())
        refuses(NpuInterruptLostError, "high on the device", npu.wait)
        npu.wait()
    works_again(device)


def test_a_reset_from_outside(device: VfioDevice) -> None:
    with opened(device) as npu:
        npu.submit(nop_packet())
        device.behind.power_cycle()
        refuses(NpuCardResetError, "something else has reset the device", npu.wait)
    works_again(device)
