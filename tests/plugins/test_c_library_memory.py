"""Memory by the C library: kinds and bounds of copies, whose a pointer is, what resets and failures leave."""

import contextlib
import ctypes
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from echo_npu.server import protocol
from echo_npu.server.protocol import RequestKind
from tests.plugins.c_library import DeviceArray, memories, random, sizes
from tests.runtime.server.server_client import opened

DEVICE_BYTES = 512 << 20
IN_USE, ARGUMENT = 3, 5
"""Numbers of errors."""


def count(value: int) -> ctypes.c_size_t:
    return ctypes.c_size_t(value)


def allocated(library: ctypes.CDLL, size: int) -> int:
    pointer = ctypes.c_void_p()
    assert not library.echoNpuMalloc(ctypes.byref(pointer), count(size))
    assert pointer.value is not None
    return pointer.value


@pytest.mark.parametrize("kind", range(-1, 6))
def test_a_kind_of_copy_fits_its_pointers_or_is_refused(library: ctypes.CDLL, kind: int) -> None:
    values, other = random(8), random(8)
    for found, (source_is_there, target_is_there) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        host, target_host = values.copy(), other.copy()
        device, target_device = memories(library, values, other)
        source = device.pointer if source_is_there else ctypes.c_void_p(host.ctypes.data)
        target = target_device.pointer if target_is_there else ctypes.c_void_p(target_host.ctypes.data)
        error = library.echoNpuMemcpy(target, source, count(32), kind)
        fits = kind in (found, 4)
        assert error == (0 if fits else ARGUMENT), found
        if not fits:
            assert b"contradicts" in library.echoNpuGetLastErrorMessage()
        got = target_device.read() if target_is_there else target_host
        assert np.array_equal(got, values if fits else other), found


def test_copies_and_fills_of_parts_leave_the_rest(library: ctypes.CDLL) -> None:
    values = np.arange(256, dtype=np.uint8)
    (held,) = memories(library, values)
    given = np.full(5, 99, np.uint8)
    assert not library.echoNpuMemcpy(held.at(67), ctypes.c_void_p(given.ctypes.data), count(5), 1)
    assert not library.echoNpuMemset(held.at(130), 0x1A5, count(3))
    assert not library.echoNpuMemcpy(held.at(201), held.at(10), count(7), 3)
    values[67:72], values[130:133], values[201:208] = 99, 0xA5, values[10:17]
    assert np.array_equal(held.read(), values)
    got = np.zeros(9, np.uint8)
    assert not library.echoNpuMemcpy(ctypes.c_void_p(got.ctypes.data), held.at(65), count(9), 2)
    assert np.array_equal(got, values[65:74])


def test_a_copy_of_nothing_may_have_no_host_memory(library: ctypes.CDLL) -> None:
    (held,) = memories(library, random(4))
    assert not library.echoNpuMemcpy(held.pointer, None, count(0), 1)
    assert not library.echoNpuMemcpy(None, held.pointer, count(0), 2)
    assert not library.echoNpuMemset(held.pointer, 1, count(0))
    assert not library.echoNpuFree(None)
    assert np.array_equal(held.read(), held.like)


def test_ranges_that_leave_device_memory_are_refused(library: ctypes.CDLL) -> None:
    (held,) = memories(library, random(16))
    assert held.pointer.value is not None
    base = held.pointer.value & ~((1 << 40) - 1)
    host = np.zeros(64, np.uint8)
    here = ctypes.c_void_p(host.ctypes.data)
    last = ctypes.c_void_p(base + DEVICE_BYTES - 8)
    assert not library.echoNpuMemcpy(here, last, count(8), 2)
    assert not library.echoNpuMemcpy(here, ctypes.c_void_p(base + DEVICE_BYTES), count(0), 2)
    for place, size in ((last, 9), (last, 2**64 - 1), (ctypes.c_void_p(base + (1 << 40) - 1), 1)):
        for error in (
            library.echoNpuMemcpy(here, place, count(size), 2),
            library.echoNpuMemcpy(place, here, count(size), 1),
            library.echoNpuMemcpy(held.pointer, place, count(size), 3),
            library.echoNpuMemcpy(place, held.pointer, count(size), 3),
            library.echoNpuMemset(place, 0, count(size)),
        ):
            assert error == ARGUMENT
            words = library.echoNpuGetLastErrorMessage().decode()
            assert words.endswith(f"{size} bytes leave the memory of device 0")


def test_a_pointer_of_no_open_device_is_refused(library: ctypes.CDLL) -> None:
    (held,) = memories(library, random(16))
    host = np.zeros(16, np.float32)
    here = ctypes.c_void_p(host.ctypes.data)
    never_opened = held.at(1 << 40)
    no_device = held.at(70 << 40)
    low = held.at(-(1 << 62))  # as a program has its own that lies low in memory
    for pointer in (here, low, never_opened, no_device):
        for error in (
            library.echoNpuFree(pointer),
            library.echoNpuMemset(pointer, 1, count(4)),
            library.echoNpuAbs(pointer, pointer, *sizes(4)),
        ):
            assert error == ARGUMENT
    assert np.array_equal(held.read(), held.like)
    for operands in ((here, held.pointer), (held.pointer, low), (held.pointer, never_opened)):
        assert library.echoNpuAbs(*operands, *sizes(4)) == ARGUMENT
    assert not library.echoNpuReset()
    assert library.echoNpuMemcpy(here, held.pointer, count(4), 2) == ARGUMENT
    assert library.echoNpuFree(held.pointer) == ARGUMENT
    assert b"device 0, which is not open" in library.echoNpuGetLastErrorMessage()
    assert not host.any()


def test_every_operand_is_on_the_device_of_the_result(library: ctypes.CDLL) -> None:
    first = memories(library, *(random(1, 2, 4) for _ in range(4)))
    library.echoNpuSetDevice(1)
    (other,) = memories(library, random(1, 2, 4))
    for wrong in range(4):
        operands = [each.pointer for each in first]
        operands[wrong] = other.pointer
        error = library.echoNpuSDPA(*operands, ctypes.c_float(1), *sizes(1, 1, 2, 2, 4))
        assert error == ARGUMENT
        assert b"not on one device" in library.echoNpuGetLastErrorMessage()


def test_a_copy_within_a_device_is_made_by_that_one(library: ctypes.CDLL) -> None:
    """Neither the current device plays a part, nor do the same addresses of another one."""
    here = memories(library, random(16), random(16))
    library.echoNpuSetDevice(1)
    there = memories(library, random(16), random(16))
    library.echoNpuSetDevice(0)
    assert not library.echoNpuMemcpy(there[1].pointer, there[0].pointer, count(64), 3)
    assert np.array_equal(there[1].read(), there[0].like)
    assert not library.echoNpuMemcpy(here[1].pointer, there[0].pointer, count(64), 3)
    assert np.array_equal(here[1].read(), there[0].like)
    assert np.array_equal(here[0].read(), here[0].like)


def test_a_failed_allocation_leaves_no_pointer(library: ctypes.CDLL) -> None:
    pointer = ctypes.c_void_p(1 << 62 | 64)
    assert library.echoNpuMalloc(ctypes.byref(pointer), count(1 << 40)) == 4
    assert pointer.value is None


def test_what_a_scaled_sum_takes_is_freed(library: ctypes.CDLL) -> None:
    a, b = memories(library, random(100), random(100))
    free = allocated(library, 400)
    assert not library.echoNpuFree(ctypes.c_void_p(free))
    for _ in range(2):
        assert not library.echoNpuAddTensor(a.pointer, a.pointer, b.pointer, ctypes.c_float(2), *sizes(100))
    assert allocated(library, 400) == free


def test_a_reset_gives_back_the_current_device_alone(library: ctypes.CDLL, server_path: Path) -> None:
    (first,) = memories(library, random(16))
    library.echoNpuSetDevice(1)
    before = allocated(library, 64)
    allocated(library, 64)
    assert not library.echoNpuReset()
    assert np.array_equal(first.read(), first.like)
    with opened(server_path, 1) as other:  # which waits for it, if need be
        free, total, _ = protocol.MEMORY.unpack(other.ask(RequestKind.MEMORY))
        assert 0 < free < total == DEVICE_BYTES
        pointer = ctypes.c_void_p()
        assert library.echoNpuMalloc(ctypes.byref(pointer), count(64)) == IN_USE
    assert not library.echoNpuReset()  # of a device that is not open
    until = time.monotonic() + 10
    while library.echoNpuMalloc(ctypes.byref(pointer), count(64)) == IN_USE:
        assert time.monotonic() < until  # the server takes it back a moment later
    assert pointer.value == before


def sockets() -> dict[str, int]:
    """Return the sockets of this process, and a descriptor of each."""
    found = {}
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the folder
            found[os.readlink(f"/proc/self/fd/{each}")] = int(each)
    return {name: number for name, number in found.items() if name.startswith("socket:")}


def test_programs_that_this_one_runs_inherit_no_connection(library: ctypes.CDLL) -> None:
    before = sockets()
    allocated(library, 64)
    made = [number for name, number in sockets().items() if name not in before]
    assert len(made) >= 2  # both ends: the server is a thread of this process
    assert not any(os.get_inheritable(each) for each in made)


def test_each_thread_has_a_device_and_a_message_of_its_own(library: ctypes.CDLL) -> None:
    current = ctypes.c_int(99)
    found: list[object] = []

    def other() -> None:
        device = ctypes.c_int(99)
        found.append(library.echoNpuGetLastErrorMessage())
        library.echoNpuGetDevice(ctypes.byref(device))
        found.append(device.value)
        library.echoNpuMemset(None, 1, count(1))
        found.append(library.echoNpuGetLastErrorMessage())
        library.echoNpuSetDevice(0)

    assert not library.echoNpuSetDevice(1)
    assert library.echoNpuSetDevice(2) == ARGUMENT
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [b"", 0, b"(nil) is no device pointer"]
    assert library.echoNpuGetLastErrorMessage() == b"no device 2: the server has 2"
    library.echoNpuGetDevice(ctypes.byref(current))
    assert current.value == 1


def test_threads_share_a_device(library: ctypes.CDLL) -> None:
    """A connection carries one request at a time, whoever has it."""
    wrong: list[object] = []

    def work(factor: int) -> None:
        for turn in range(25):
            values = np.full(16, turn, np.float32)
            pointer = ctypes.c_void_p()
            got = np.zeros_like(values)
            errors = [library.echoNpuMalloc(ctypes.byref(pointer), count(64))]
            errors += [library.echoNpuMemcpy(pointer, ctypes.c_void_p(values.ctypes.data), count(64), 1)]
            errors += [library.echoNpuScale(pointer, pointer, ctypes.c_float(factor), *sizes(16))]
            errors += [library.echoNpuMemcpy(ctypes.c_void_p(got.ctypes.data), pointer, count(64), 2)]
            errors += [library.echoNpuFree(pointer)]
            if any(errors) or not np.array_equal(got, factor * values):
                wrong.append((factor, turn, errors, got))
                return

    threads = [threading.Thread(target=work, args=(factor,), daemon=True) for factor in range(2, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert not wrong


def test_a_device_that_does_not_exist_changes_nothing(library: ctypes.CDLL) -> None:
    current = ctypes.c_int()
    assert not library.echoNpuSetDevice(1)
    for device in (-1, 2, 64, 1 << 30):
        assert library.echoNpuSetDevice(device) == ARGUMENT
    library.echoNpuGetDevice(ctypes.byref(current))
    assert current.value == 1


def test_each_error_has_a_text_of_its_own(library: ctypes.CDLL) -> None:
    words = [
        "success", "the device server does not run", "another version", "another program has the device",
        "out of device memory", "an argument that cannot be", "does not compute this", "the device failed",
        "unknown error",
    ]  # fmt: skip
    for error, text in enumerate(words):
        assert text in library.echoNpuGetErrorString(error).decode()
    assert library.echoNpuGetErrorString(-1) == b"unknown error"


@pytest.mark.parametrize("kind", [-1, 3, 1 << 30])
def test_a_type_that_there_is_not_is_refused(library: ctypes.CDLL, kind: int) -> None:
    (x,) = memories(library, random(4))
    assert library.echoNpuMatMul(x.pointer, x.pointer, x.pointer, *sizes(2, 2, 2), kind) == ARGUMENT
    assert library.echoNpuGetLastErrorMessage() == f"no type has the number {kind}".encode()


def test_a_norm_that_fails_multiplies_nothing(library: ctypes.CDLL) -> None:
    y, weight = memories(library, random(2, 8), random(8))
    beyond = DeviceArray(library, random(4)).at(DEVICE_BYTES)
    eps = ctypes.c_float(1e-5)
    assert library.echoNpuRMSNorm(y.pointer, beyond, weight.pointer, eps, *sizes(2, 8)) != 0
    assert np.array_equal(y.read(), y.like)
