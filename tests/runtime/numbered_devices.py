"""The numbered devices. A program of its own, because a process chooses its devices once."""

import itertools
import os
import threading
from typing import Any

import numpy as np

import echo_npu
from echo_npu import Device, DeviceClosedError, NpuPointerError, devices
from echo_npu.backends.cmodel import CmodelBackend
from tests.refusals import refuses

COUNT = 3


def one_by_default() -> None:
    assert echo_npu.device_count() == 1
    assert echo_npu.get_device() == 0
    refuses(ValueError, ["no device 1", "only device is 0", "ECHO_NPU_DEVICES"], echo_npu.set_device, 1)


def counted() -> None:
    os.environ["ECHO_NPU_DEVICES"] = "2"
    assert echo_npu.device_count() == 2
    echo_npu.configure(backend="cmodel", config="small", devices=COUNT)
    assert echo_npu.device_count() == COUNT
    for wrong in (-1, COUNT):
        words = [f"no device {wrong}", f"0 to {COUNT - 1}"]
        refuses(ValueError, words, echo_npu.set_device, wrong)
        refuses(ValueError, words, echo_npu.open_device, wrong)
        refuses(ValueError, words, echo_npu.memcpy_peer, 64, 0, 64, wrong, 1)
        refuses(ValueError, words, echo_npu.memcpy_peer, 64, wrong, 64, 0, 1)
    refuses(TypeError, ["device", "'1'"], echo_npu.set_device, "1")
    assert echo_npu.get_device() == 0


def current_is_per_thread() -> None:
    called: list[int] = []
    devices.before_others(lambda: called.append(echo_npu.get_device()))
    echo_npu.set_device(0)
    assert called == []
    echo_npu.set_device(2)
    echo_npu.set_device(1)
    assert called == [0]
    echo_npu.set_device(2)
    assert echo_npu.get_device() == 2
    assert echo_npu.open_device() is echo_npu.open_device(2)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(echo_npu.get_device()))
    thread.start()
    thread.join()
    assert found == [0]
    echo_npu.set_device(0)
    assert echo_npu.open_device() is echo_npu.open_device(0)


def separate() -> None:
    opened = [echo_npu.open_device(index) for index in range(COUNT)]
    assert len({each.backend for each in opened}) == COUNT
    assert [echo_npu.open_device(index) for index in range(COUNT)] == opened
    assert {each.config for each in opened} == {"small"}
    tensors = [each.tensor(np.full(5, index, np.float32)) for index, each in enumerate(opened)]
    assert [tensor.to_numpy().tolist() for tensor in tensors] == [[index] * 5 for index in range(COUNT)]
    refuses(RuntimeError, ["configure()", "open"], echo_npu.configure, backend="cmodel", devices=1)
    echo_npu.configure(backend="cmodel", config="small", devices=COUNT)  # the same again


def copies() -> None:
    """Every bit arrives, in each direction, also of signalling NaNs, and only where it should."""
    first, second = echo_npu.open_device(0), echo_npu.open_device(1)
    values = np.random.default_rng(3).integers(0, 2**32, (7, 9), np.uint32)
    values[0, :2] = 0x7F80_0001, 0x8000_0000
    here = first.tensor(values.view(np.float32))
    there = here.to(second)
    assert here.to(first) is here
    assert there.device is second
    assert np.array_equal(there.to_numpy().view(np.uint32), values)
    assert np.array_equal(here[1:, ::2].to(second).to_numpy().view(np.uint32), values[1:, ::2])
    twice = np.add(values, 1, dtype=np.uint32)
    there.copy_from(twice.view(np.float32))
    for owner in (first, second):  # whichever device is asked
        blank = first.empty(values.shape)
        owner.memcpy(blank, there, there.nbytes)
        assert np.array_equal(blank.to_numpy().view(np.uint32), twice)
        host = np.empty_like(values)
        owner.memcpy(host, here, here.nbytes)
        assert np.array_equal(host, values)
    for target, source in ((0, 1), (first, second)):
        block = first.malloc(80)
        first.memset(block, 9, 80)
        echo_npu.memcpy_peer(block + 3, target, there.ptr + 5, source, 70)
        found = np.empty(80, np.uint8)
        first.memcpy(found, block, 80)
        expected = np.full(80, 9, np.uint8)
        expected[3:73] = twice.view(np.uint8).reshape(-1)[5:75]
        assert np.array_equal(found, expected)
    echo_npu.memcpy_peer(block, 0, here.ptr, 0, 16)
    assert first.tensor(np.zeros(1)).device is first
    refuses(NpuPointerError, ["src"], echo_npu.memcpy_peer, block, 0, 0x2000_0000, 1, 4)
    refuses(NpuPointerError, ["dst"], echo_npu.memcpy_peer, 0x2000_0000, 1, block, 0, 4)
    refuses(ValueError, ["nbytes is -1"], echo_npu.memcpy_peer, block, 0, block, 1, -1)
    refuses(TypeError, ["device", "None"], echo_npu.memcpy_peer, block, None, block, 1, 4)
    refuses(TypeError, ["device", "None"], echo_npu.memcpy_peer, block, 0, block, None, 4)


def within_one_device() -> None:
    """Ranges that overlap arrive as they were, in pieces as well; every byte of a copy arrives."""
    device = echo_npu.open_device(0)
    values = np.random.default_rng(4).integers(0, 256, 4099, np.uint8)
    block, other = device.malloc(values.size), device.malloc(values.size)
    for piece in (devices._PIECE_BYTES, 100):
        devices._PIECE_BYTES = piece  # type: ignore[misc]
        for dst, src, count in ((10, 0, 4000), (0, 10, 4000), (5, 5, 77), (1001, 1000, 3001), (4001, 2, 98)):
            device.memcpy(block, values, values.size)
            echo_npu.memcpy_peer(block + dst, 0, block + src, 0, count)
            expected = values.copy()
            expected[dst : dst + count] = values[src : src + count]
            found = np.empty_like(values)
            device.memcpy(found, block, found.size)
            assert np.array_equal(found, expected), (piece, dst, src, count)
        echo_npu.memcpy_peer(other, device, block, 0, values.size)
        device.memcpy(found, other, found.size)
        assert np.array_equal(found, expected)
        device.memset(block, 0, values.size)
        echo_npu.memcpy_peer(block, 0, other, 1, 0)
        device.memcpy(found, block, found.size)
        assert not found.any()
    devices._PIECE_BYTES = 1 << 24  # type: ignore[misc]
    refuses(NpuPointerError, ["src", "10010000000"], echo_npu.memcpy_peer, block, 0, 0x1000_0000, 1, 1 << 40)
    refuses(NpuPointerError, ["dst"], echo_npu.memcpy_peer, 0x1FFF_FFFC, 1, block, 0, 8)
    refuses(NpuPointerError, ["src"], echo_npu.memcpy_peer, block, 0, 0x0FFF_FFFC, 0, 8)


def beyond_four_gib() -> None:
    """A copy of more bytes than 32 bits count, to and from addresses that have more."""
    moved: list[tuple[int, int, int]] = []

    class Far(Device):
        """Has so much memory, and notes what is copied."""

        def check_peer_range(self, name: str, address: int, nbytes: int) -> None:
            pass

        def memcpy(self, dst: Any, src: Any, nbytes: Any, kind: Any = None) -> None:
            address, other = (dst, src) if isinstance(dst, int) else (src, dst)
            assert isinstance(other, int) or other.size == nbytes
            moved.append((id(self), address, nbytes))

    with Far(CmodelBackend.open("small", {})) as first, Far(CmodelBackend.open("small", {})) as second:
        size, src, dst = (1 << 32) + 5, 0x3_0000_0000, 0x1_8000_0001
        echo_npu.memcpy_peer(dst, first, src, second, size)
        for device, start in ((first, dst), (second, src)):
            own = [(address, count) for who, address, count in moved if who == id(device)]
            assert own[0][0] == start
            assert all(a + n == b for (a, n), (b, _) in itertools.pairwise(own))
            assert sum(own[-1]) == start + size
        moved.clear()
        echo_npu.memcpy_peer(dst, first, src, first, size)
        assert moved == [(id(first), dst, size)]


def both_directions_at_once() -> None:
    """Two threads that copy against each other do not wait for each other."""
    pair = [echo_npu.open_device(index).tensor(np.full(4096, index, np.int32)) for index in range(2)]

    def copy(target: int) -> None:
        device = pair[target].device
        assert isinstance(device, Device)
        for _ in range(200):
            device.memcpy(pair[target], pair[1 - target], pair[target].nbytes)

    threads = [threading.Thread(target=copy, args=(index,), daemon=True) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert {int(value) for tensor in pair for value in tensor.to_numpy()} <= {0, 1}


def no_foreign_copy_is_recorded() -> None:
    first, second = echo_npu.open_device(0), echo_npu.open_device(1)
    here, there = first.empty(4), second.empty(4)

    def record() -> None:
        with first.record():
            first.memcpy(here, there, 16)

    refuses(echo_npu.NpuRecordingError, ["another device"], record)

    def record_peer(device: int) -> None:
        with echo_npu.open_device(device).record():
            echo_npu.memcpy_peer(here.ptr, 0, there.ptr, 1, 16)

    for device in (0, 1):
        refuses(echo_npu.NpuRecordingError, ["another device"], record_peer, device)


def forked() -> None:
    held = [echo_npu.open_device(index) for index in range(COUNT)]
    child = os.fork()
    if child == 0:
        try:
            echo_npu.open_device(0)
        except DeviceClosedError:
            os._exit(7)
        os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    child = os.fork()
    if child == 0:
        echo_npu.close_devices()
        os._exit(any(each.closed for each in held))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def closed() -> None:
    before = echo_npu.open_device(1)
    echo_npu.close_devices()
    assert before.closed
    assert echo_npu.open_device(1) is not before
    echo_npu.open_device(1).close()
    assert not echo_npu.open_device(1).closed
    echo_npu.close_devices()
    echo_npu.configure(backend="cmodel", devices=1)
    assert echo_npu.device_count() == 1
    os.environ["ECHO_NPU_CONFIG"] = "small"
    echo_npu.configure(backend="cmodel", trace="x.json")
    refuses(ValueError, ["cmodel has no cycles"], echo_npu.open_device)  # the option arrives
    assert devices.settings().config == "small"


if __name__ == "__main__":
    for check in (
        one_by_default, counted, current_is_per_thread, separate, copies, within_one_device, beyond_four_gib,
        both_directions_at_once,
        no_foreign_copy_is_recorded, forked, closed,
    ):  # fmt: skip
        check()
        print(check.__name__)
