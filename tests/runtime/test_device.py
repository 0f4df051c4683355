"""The shared Device, on the functional model: memory, copies, submission, waiting, errors, life."""

import gc
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu import (
    Device,
    DeviceClosedError,
    ErrorCode,
    MemcpyKind,
    NpuCommandPacket,
    NpuDeviceError,
    NpuOutOfMemoryError,
    NpuPointerError,
    NpuTimeoutError,
    Opcode,
    State,
    matmul_packets,
    memcpy_packets,
    nop_packet,
)
from echo_npu.commands.packets import Packet
from echo_npu.spec import registers as regs
from tests.refusals import refuses
from tests.runtime.driver.test_recording import register_writes


def test_malloc_gives_aligned_pointers_in_the_region_asked_for(npu: Device) -> None:
    for region, base in (("weight", 0), ("activation", 0x1000_0000)):
        pointer = npu.malloc(100, region=region)
        assert pointer
        assert pointer in range(base, base + 0x1000_0000, 64)
        npu.free(pointer)


@pytest.mark.parametrize("bad", [1.5, "4", None, np.float32(2), [4]], ids=repr)
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("nbytes", lambda npu, bad: npu.malloc(bad)),
        ("ptr", lambda npu, bad: npu.free(bad)),
        ("nbytes", lambda npu, bad: npu.memcpy(0x1000, 0x2000, bad)),
        ("ptr", lambda npu, bad: npu.memset(bad, 0, 4)),
        ("value", lambda npu, bad: npu.memset(0x1000, bad, 4)),
        ("nbytes", lambda npu, bad: npu.memset(0x1000, 0, bad)),
        ("shape", lambda npu, bad: npu.empty((bad, 2))),
        ("watchdog_cycles", lambda npu, bad: npu.limit(watchdog_cycles=bad)),
        ("program", lambda npu, bad: npu.load_program(bad)),
        ("config", lambda _, bad: echo_npu.open("cmodel", config=[bad])),
    ],
)
def test_wrong_types_are_named(npu: Device, name: str, call: Callable[[Device, Any], Any], bad: Any) -> None:
    refuses(TypeError, name, call, npu, bad)


def test_malloc_refuses_what_makes_no_sense(npu: Device) -> None:
    with pytest.raises(ValueError, match="region is 'scratch'; the memory regions are weight, activation"):
        npu.malloc(4, region="scratch")
    refuses(ValueError, "nbytes is 0", npu.malloc, 0)
    refuses(TypeError, "nbytes", npu.malloc, True)


def test_out_of_memory_and_what_works_after_it(npu: Device) -> None:
    with pytest.raises(NpuOutOfMemoryError) as caught:
        npu.malloc(300 << 20)
    error = caught.value
    assert (error.region, error.asked, error.largest_free_block) == ("activation", 300 << 20, 256 << 20)
    assert npu.malloc(256 << 20)


def test_free_refuses_foreign_pointers(npu: Device) -> None:
    pointer = npu.malloc(4)
    npu.free(pointer)
    for bad in (pointer, 0, 0x2000_0000, 1 << 40):
        refuses(NpuPointerError, None, npu.free, bad)


@pytest.mark.parametrize("kind", [None, MemcpyKind.DEFAULT])
def test_memcpy_of_all_kinds(npu: Device, kind: MemcpyKind | None) -> None:
    """Copies of all kinds, named or inferred."""
    data = np.arange(256, dtype=np.uint8)
    out = np.zeros_like(data)
    first, second = npu.malloc(256), npu.malloc(256, region="weight")
    npu.memcpy(first, data, 256, MemcpyKind.HOST_TO_DEVICE if kind is None else kind)
    npu.memcpy(second, first, 256, MemcpyKind.DEVICE_TO_DEVICE if kind is None else kind)
    npu.memcpy(out, second, 256, MemcpyKind.DEVICE_TO_HOST if kind is None else kind)
    assert np.array_equal(out, data)
    other = np.zeros_like(data)
    npu.memcpy(other, out, 100, MemcpyKind.HOST_TO_HOST if kind is None else kind)
    assert other[:100].tolist() == list(range(100))
    assert not other[100:].any()


def test_device_to_device_is_done_by_the_npu(npu: Device) -> None:
    before = npu.counters()["commands"]
    npu.memcpy(npu.malloc(64), npu.malloc(64), 64)
    assert npu.counters()["commands"] == before + 1


def test_memcpy_takes_bytes_like_host_memory_of_any_type(npu: Device) -> None:
    pointer = npu.malloc(64)
    for source in (b"abcd", bytearray(b"abcd"), memoryview(b"abcd"), np.frombuffer(b"abcd", np.int32)):
        npu.memset(pointer, 0, 64)
        npu.memcpy(pointer, source, 4)
        target = bytearray(4)
        npu.memcpy(target, pointer, 4)
        assert target == b"abcd"
    npu.memcpy(np.zeros((2, 2), np.float32), pointer, 16)
    npu.memcpy(np.int64(pointer), b"xy", 2)  # numpy integers are pointers


def test_memcpy_names_what_is_wrong(npu: Device) -> None:
    pointer = npu.malloc(64)
    array = np.zeros(64, np.uint8)
    cases: list[tuple[type[Exception], str, tuple[Any, ...]]] = [
        (
            TypeError,
            "HOST_TO_DEVICE.*dst is host memory.*DEVICE_TO_HOST",
            (array, pointer, 4, MemcpyKind.HOST_TO_DEVICE),
        ),
        (TypeError, "HOST_TO_HOST.*that is HOST_TO_DEVICE", (pointer, array, 4, MemcpyKind.HOST_TO_HOST)),
        (ValueError, "src has 64 bytes; memcpy of 65", (pointer, array, 65)),
        (ValueError, "dst has 64 bytes; memcpy of 65", (array, pointer, 65)),
        (ValueError, "nbytes is -1", (pointer, array, -1)),
        (TypeError, "dst is read-only", (b"abcd", pointer, 4)),
        (TypeError, "C-contiguous", (pointer, np.zeros((8, 8))[:, ::2], 4)),
        (TypeError, "src is float", (pointer, 1.5, 4)),
        (TypeError, "objects", (pointer, np.array([None]), 4)),
        (NpuPointerError, "0x0ffffff0", (0x0FFF_FFF0, array, 32)),
        (NpuPointerError, "dst", (0x2000_0000, array, 4)),
        (NpuPointerError, "src", (array, 0x3000_0000, 4)),
        (NpuPointerError, "dst", (-64, array, 4)),
    ]
    for error, words, arguments in cases:
        refuses(error, words, npu.memcpy, *arguments)
    refuses(ValueError, "9 is not a valid MemcpyKind", npu.memcpy, pointer, array, 4, 9)


def test_overlapping_device_copy_is_the_devices_error(npu: Device) -> None:
    pointer = npu.malloc(128)
    with pytest.raises(NpuDeviceError) as caught:
        npu.memcpy(pointer + 32, pointer, 64)
    assert (caught.value.code, caught.value.address) == (ErrorCode.OVERLAP, pointer + 32)
    npu.clear_error()
    npu.memcpy(pointer + 64, pointer, 64)


def test_copies_of_no_bytes_do_nothing(npu: Device) -> None:
    npu.memcpy(npu.malloc(4), b"", 0)
    npu.memcpy(0x1000_0000, 0x1000_0000, 0)


def test_memset(npu: Device) -> None:
    pointer = npu.malloc(64)
    npu.memset(pointer, 0xAB, 64)
    npu.memset(pointer + 3, 0, 5)
    out = np.zeros(64, np.uint8)
    npu.memcpy(out, pointer, 64)
    assert out.tolist() == [0xAB] * 3 + [0] * 5 + [0xAB] * 56
    refuses(ValueError, "value is 256", npu.memset, pointer, 256, 1)
    refuses(NpuPointerError, None, npu.memset, 0x1FFF_FFFF, 0, 2)


def test_submit_is_asynchronous_and_copies_wait_for_it(npu: Device) -> None:
    first, second = npu.malloc(64), npu.malloc(64)
    npu.memset(first, 5, 64)
    npu.submit(memcpy_packets(first, second, 64))
    assert npu.status().state == State.BUSY
    out = np.zeros(64, np.uint8)
    npu.memcpy(out, second, 64)
    assert (out == 5).all()
    assert npu.status().state == State.DONE


def test_wait_with_nothing_submitted_returns_at_once(npu: Device) -> None:
    npu.wait()
    npu.wait(timeout_cycles=0)
    assert npu.status().state == State.IDLE


def chain(block: int, size: int, steps: range, plain: int) -> list[Packet]:
    """Return copies of `size` bytes, each to the next place; every `plain`-th one has no extension."""
    rows = [1 if step % plain == 0 else 2 for step in steps]
    places = [block + size * step for step in steps]
    copies = [memcpy_packets(at, at + size, size // n, rows=n) for at, n in zip(places, rows, strict=True)]
    return [packet for copy in copies for packet in copy]


def test_a_chain_longer_than_the_queue_goes_through_the_window(npu: Device) -> None:
    block = npu.malloc(64 * 101)
    npu.memset(block, 0, 64 * 101)
    npu.memset(block, 9, 64)
    npu.submit(chain(block, 64, range(100), plain=2))
    npu.wait()
    out = np.zeros(64 * 101, np.uint8)
    npu.memcpy(out, block, out.size)
    assert (out == 9).all()


@pytest.mark.parametrize("slots", [4, 7, 64, 1024])
def test_batches_longer_than_the_ring_wrap_and_wait(slots: int) -> None:
    with echo_npu.open("cmodel", ring_slots=slots) as npu:
        block = npu.malloc(8 * 400)
        npu.memset(block, 0, 8 * 400)
        npu.memset(block, 3, 8)
        done = 0
        for count in (1, 2, 200, 3, 190):
            npu.submit_batch(chain(block, 8, range(done, done + count), plain=3))
            done += count
        npu.wait()
        out = np.zeros(8 * (done + 1), np.uint8)
        npu.memcpy(out, block, out.size)
        assert (out == 3).all()
        assert npu.counters()["commands"] == done


def test_hundreds_of_packets_take_one_doorbell(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    tails = register_writes(npu, monkeypatch, regs.RING_TAIL)
    npu.submit_batch([nop_packet()] * 700)
    npu.wait()
    assert len(tails) == 1
    assert npu.counters()["commands"] == 700


@pytest.mark.parametrize("way", ["submit", "submit_batch"])
def test_commands_that_fill_a_queue_exactly_do_not_wait(way: str) -> None:
    """A ring holds one slot less than it has."""
    with echo_npu.open("cmodel", ring_slots=8) as npu:
        room = npu.capabilities.queue_depth if way == "submit" else 7
        getattr(npu, way)([nop_packet()] * (room - 2) + memcpy_packets(0, 0x1000, 4, rows=2))
        # The model executes a command with each read, so there is now room for two slots.
        assert npu.backend.read_reg(regs.RETIRED) == 0
        getattr(npu, way)(memcpy_packets(0, 0x1000, 4, rows=2))
        assert npu.backend.read_reg(regs.RETIRED) < room - 1
        assert npu.counters()["commands"] == room


def test_the_ring_is_out_of_the_way_of_data_placed_by_hand(npu: Device) -> None:
    npu.submit_batch(memcpy_packets(0x1000_0000, 0x1000_0000 + 4096, 4096))
    npu.wait()
    assert npu.malloc(64) == 0x1000_0000


def test_window_and_ring_keep_the_order(npu: Device) -> None:
    cells = [npu.malloc(4) for _ in range(4)]
    npu.memset(cells[0], 1, 4)
    npu.submit(memcpy_packets(cells[0], cells[1], 4))
    # More than the model executes while its state is read.
    npu.submit_batch([*[nop_packet()] * 9, *memcpy_packets(cells[1], cells[2], 4)])
    npu.submit(memcpy_packets(cells[2], cells[3], 4))
    out = bytearray(4)
    npu.memcpy(out, cells[3], 4)
    assert out == b"\1\1\1\1"


def test_execute_takes_any_length(npu: Device) -> None:
    npu.execute([nop_packet()] * 3)
    npu.execute([nop_packet()] * 3000)
    npu.execute([])
    assert npu.counters()["commands"] == 3003


def test_execute_takes_the_ring_for_what_the_queue_cannot_hold(
    npu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    tails = register_writes(npu, monkeypatch, regs.RING_TAIL)
    npu.execute([nop_packet()] * npu.capabilities.queue_depth)
    assert tails == []
    npu.execute([nop_packet()] * (npu.capabilities.queue_depth + 1))
    assert len(tails) == 1


def test_the_longest_ring() -> None:
    with echo_npu.open("cmodel", ring_slots=65535) as npu:
        npu.submit_batch([nop_packet()] * 3)
        npu.wait()
        assert npu.counters()["commands"] == 3
    refuses(ValueError, "ring_slots is 65536", echo_npu.open, "cmodel", ring_slots=65536)


def test_submit_refuses_what_is_no_packet(npu: Device) -> None:
    refuses(TypeError, "int", npu.submit, [1])
    refuses(ValueError, "63", npu.submit, bytes(63))
    refuses(ValueError, "ring_slots is 3", echo_npu.open, "cmodel", ring_slots=3)


def test_a_device_error_names_code_packet_and_address(npu: Device) -> None:
    npu.execute([nop_packet(), nop_packet()])
    npu.submit(NpuCommandPacket(Opcode.MEMCPY, 0, 0x1000_0000, 0, 0x2000_0100, m=4))
    said = r"REGISTER_WINDOW \(code 6\) at packet 2, address 0x20000100"
    with pytest.raises(NpuDeviceError, match=said) as caught:
        npu.wait()
    assert (caught.value.code, caught.value.packet, caught.value.address) == (6, 2, 0x2000_0100)
    status = npu.status()
    assert (status.state, status.error_code) == (State.ERROR, ErrorCode.REGISTER_WINDOW)


@pytest.mark.parametrize("way", ["submit", "submit_batch"])
def test_after_an_error_nothing_runs_until_it_is_cleared(npu: Device, way: str) -> None:
    submit = getattr(npu, way)
    block = npu.malloc(128)
    npu.memset(block, 1, 64)
    npu.memset(block + 64, 0, 64)
    submit([nop_packet(), NpuCommandPacket(0x77), *memcpy_packets(block, block + 64, 64)])
    refuses(NpuDeviceError, None, npu.wait)
    refuses(NpuDeviceError, None, submit, [nop_packet()])
    refuses(NpuDeviceError, None, npu.matmul, np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))
    out = np.zeros(64, np.uint8)
    npu.memcpy(out, block + 64, 64)  # memory can be looked at
    assert not out.any()
    npu.clear_error()
    assert npu.status().state == State.IDLE
    submit(memcpy_packets(block, block + 64, 64))
    npu.memcpy(out, block + 64, 64)
    assert (out == 1).all()


def test_clear_error_and_reset_are_harmless_at_any_time(npu: Device) -> None:
    npu.clear_error()
    npu.submit_batch([nop_packet()] * 5)
    npu.clear_error()
    npu.wait()
    npu.reset()
    assert npu.status().state == State.IDLE
    assert npu.counters()["commands"] == 0
    npu.submit_batch([nop_packet()] * 5)
    npu.wait()
    assert npu.counters()["commands"] == 5


def test_reset_drops_what_waits_and_keeps_memory(npu: Device) -> None:
    block = npu.malloc(128)
    npu.memset(block, 1, 64)
    npu.memset(block + 64, 0, 64)
    npu.submit(memcpy_packets(block, block + 64, 64))
    npu.reset()
    out = np.ones(128, np.uint8)
    npu.memcpy(out, block, 128)
    assert out[:64].all()
    assert not out[64:].any()
    npu.free(block)


def test_a_time_out_says_what_the_device_is_doing(npu: Device) -> None:
    npu.submit(memcpy_packets(0x1000_0000, 0x1000_1000, 4, rows=2)[0])  # its extension never comes
    said = r"within 100 cycles; state BUSY.*counters: .*macs=0.*waves=True"
    with pytest.raises(NpuTimeoutError, match=said) as caught:
        npu.wait(timeout_cycles=100)
    late = caught.value
    assert (late.cycles, late.status.state, late.counters["commands"]) == (100, State.BUSY, 0)
    assert "waves" in late.waves_hint
    assert isinstance(late, TimeoutError)
    with pytest.raises(NpuDeviceError) as error:  # without a limit, the device's own limit is first
        npu.wait()
    assert error.value.code == ErrorCode.BAD_EXTENSION
    npu.clear_error()
    npu.execute(nop_packet())
    refuses(ValueError, "timeout_cycles is -1", npu.wait, timeout_cycles=-1)


class Stuck(echo_npu.backends.get_backend_class("cmodel")):  # type: ignore[misc]
    """A device that makes no progress once `stuck` is set."""

    stuck = False

    def wait_irq(self, timeout_cycles: int) -> bool:
        return not self.stuck and super().wait_irq(timeout_cycles)

    def read_reg(self, offset: int) -> int:
        return State.BUSY if self.stuck and offset == regs.STATUS else super().read_reg(offset)


def test_without_a_limit_a_device_that_stands_still_is_given_up() -> None:
    backend = Stuck.open("default", {})
    with Device(backend) as npu:
        backend.stuck = True
        refuses(NpuTimeoutError, "2000000 cycles", npu.wait)
        refuses(NpuTimeoutError, "within 1000000 cycles", npu.reset)


def test_counters_have_the_documented_names(npu: Device) -> None:
    assert set(npu.counters()) == {
        "cycles", "busy_cycles", "matrix_busy", "vector_busy", "macs", "read_beats", "write_beats",
        "stall_read", "stall_write", "stall_bus", "host_beats", "commands",
    }  # fmt: skip
    npu.execute(matmul_packets(0x1000, 0x2000, 0x1000_0000, 3, 4, 5))
    assert npu.counters()["macs"] == 60
    npu.clear_counters()
    assert npu.counters()["macs"] == 0


def test_clearing_counters_leaves_the_ring_alone(npu: Device) -> None:
    npu.submit_batch([nop_packet()])
    npu.wait()
    npu.clear_counters()
    npu.submit_batch([nop_packet()])
    npu.wait()
    assert npu.counters()["commands"] == 1


def test_the_watchdog_ends_what_takes_too_long(npu: Device) -> None:
    long, short = memcpy_packets(0x1000, 0x1000_0000, 1 << 20), memcpy_packets(0x1000, 0x1000_0000, 64)
    npu.limit(watchdog_cycles=10_000)
    npu.execute(short)
    npu.reset()  # which keeps it
    npu.submit(long)
    with pytest.raises(NpuDeviceError, match="TIMEOUT") as caught:
        npu.wait()
    assert caught.value.code == ErrorCode.TIMEOUT
    npu.clear_error()
    npu.limit()
    npu.execute(long)


@pytest.mark.parametrize("slot", [0, 64, -1])
def test_a_protected_ring_is_not_written(npu: Device, slot: int) -> None:
    npu.submit_batch([nop_packet()])
    npu.wait()
    ring = npu.backend.read_reg(regs.RING_BASE)
    place = ring + 64 * (slot % npu.backend.read_reg(regs.RING_SIZE))
    stray = memcpy_packets(0x1000, place, 64)
    npu.execute(stray)
    npu.limit(protect_ring=True)
    npu.submit_batch([nop_packet()])
    npu.wait()
    npu.submit(stray)
    with pytest.raises(NpuDeviceError, match="PROTECTED") as caught:
        npu.wait()
    assert (caught.value.code, caught.value.address) == (ErrorCode.PROTECTED, place)
    npu.clear_error()
    npu.limit()
    npu.execute(stray)


def test_bad_limits(npu: Device) -> None:
    refuses(ValueError, r"watchdog_cycles is -1", npu.limit, watchdog_cycles=-1)
    refuses(ValueError, r"watchdog_cycles is 4294967296", npu.limit, watchdog_cycles=1 << 32)
    with npu.record(), pytest.raises(echo_npu.NpuRecordingError, match="inside a recording"):
        npu.limit()


def test_info_is_plain_data_read_from_the_hardware() -> None:
    with echo_npu.open("cmodel", config="small") as npu:
        facts = npu.info()
        assert (facts["backend"], facts["config"], facts["has_cycles"]) == ("cmodel", "small", False)
        assert (facts["capabilities"]["array_rows"], facts["capabilities"]["data_width"]) == (4, 64)
        assert facts["memory"]["activation"]["base"] == 0x1000_0000
        assert npu.memory_statistics()["weight"].used == 0


def test_another_device_is_not_taken_for_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for offset, value, words in ((regs.ID, 0x1234, "0x00001234"), (regs.VERSION, 2 << 16, "version 2.0")):
        backend = echo_npu.backends.get_backend_class("cmodel").open("default", {})
        backend.model._constants[offset] = value  # type: ignore[attr-defined]
        refuses(echo_npu.NpuError, words, Device, backend)


def test_close_is_idempotent_and_final() -> None:
    npu = echo_npu.open("cmodel")
    tensor = npu.tensor(np.ones(4, np.float32))
    npu.close()
    npu.close()
    assert npu.closed
    for call in (npu.wait, npu.status, tensor.to_numpy):
        refuses(DeviceClosedError, None, call)
    refuses(DeviceClosedError, None, npu.malloc, 4)
    refuses(DeviceClosedError, None, npu.submit, nop_packet())
    del tensor
    gc.collect()


def test_two_devices_do_not_see_each_other() -> None:
    with echo_npu.open("cmodel") as first, echo_npu.open("cmodel", config="small") as second:
        pointer = first.malloc(64)
        assert second.malloc(64) == pointer
        first.memset(pointer, 1, 64)
        out = np.ones(64, np.uint8)
        second.memcpy(out, pointer, 64)
        assert not out.any()


def test_a_forked_child_is_told_to_open_its_own(npu: Device) -> None:
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            npu.status()
        except DeviceClosedError as error:
            os.write(write_end, str(error).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    os.waitpid(child, 0)
    with os.fdopen(read_end) as told:
        assert f"process {os.getpid()}" in told.read()
    npu.execute(nop_packet())


def test_threads_share_a_device(npu: Device) -> None:
    rng = np.random.default_rng(1)
    failures: list[str] = []

    def work(seed: int) -> None:
        a = np.random.default_rng(seed).standard_normal((9, 8), dtype=np.float32)
        for _ in range(20):
            if not np.array_equal(npu.matmul(a, b), expected(a)):
                failures.append(f"thread {seed}")

    b = rng.standard_normal((8, 7), dtype=np.float32)

    def expected(a: np.ndarray) -> np.ndarray:
        total = np.zeros((9, 7), np.float32)
        for k in range(8):
            total += a[:, k, None] * b[None, k, :]
        return total

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert all(figures.used == 0 for figures in npu.memory_statistics().values())


def test_what_does_not_fit_is_refused_before_it_is_copied(npu: Device) -> None:
    """The array has a terabyte but takes four bytes of the host."""
    huge = np.broadcast_to(np.float32(1), (2**19, 2**19))
    refuses(NpuOutOfMemoryError, f"asked for {2**40} bytes", npu.tensor, huge)
    refuses(NpuOutOfMemoryError, f"asked for {2**40} bytes", npu.matmul, huge, huge)
