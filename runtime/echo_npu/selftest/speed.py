"""How fast the way to the device is, and the device itself."""

import time
from collections.abc import Callable
from typing import Final

import numpy as np

from echo_npu.commands.builders import memcpy_packets, nop_packet
from echo_npu.device import Device
from echo_npu.register_ops import WriteReg
from echo_npu.selftest.records import Speed
from echo_npu.spec import registers as regs
from echo_npu.spec.status import ALL_IRQS

_BYTES: Final = 4 << 20
_COPIED: Final = 1 << 18
_TIMES: Final = 50
_SIDE: Final = 96


def measure_speed(npu: Device) -> list[Speed]:
    """Measure latency and bandwidth between host and device, and what the device does in a cycle."""
    backend = npu.backend
    memory = npu.malloc(_BYTES, "weight")
    try:
        data = np.random.default_rng(0).integers(0, 256, _BYTES, dtype=np.uint8)
        small = data[:4]
        speeds = [
            Speed("register read", _median_us(lambda: backend.read_reg(regs.STATUS)), "us"),
            Speed("register write", _median_us(lambda: backend.write_reg(regs.CMD_WINDOW, 0)), "us"),
            Speed("memory read of 4 bytes", _median_us(lambda: backend.read_mem(memory, 4)), "us"),
            Speed("memory write of 4 bytes", _median_us(lambda: backend.write_mem(memory, small)), "us"),
            Speed("memory write", _mib_per_s(lambda: backend.write_mem(memory, data)), "MiB/s"),
            Speed("memory read", _mib_per_s(lambda: backend.read_mem(memory, _BYTES)), "MiB/s"),
            Speed("empty command, doorbell to interrupt", _median_us(lambda: _empty(npu)), "us"),
        ]
        return speeds + (_in_cycles(npu, memory) if backend.has_cycles else [])
    finally:
        npu.free(memory)


def _us(call: Callable[[], object]) -> float:
    """Return the microseconds that a call takes."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e6


def _median_us(call: Callable[[], object]) -> float:
    return float(np.median([_us(call) for _ in range(_TIMES)]))


def _mib_per_s(call: Callable[[], object]) -> float:
    return _BYTES / 2**20 / (min(_us(call) for _ in range(3)) / 1e6)


def _empty(npu: Device) -> None:
    npu.backend.run([WriteReg(regs.IRQ_STATUS, ALL_IRQS)])
    npu.submit(nop_packet())
    npu.wait()


def _in_cycles(npu: Device, memory: int) -> list[Speed]:
    """Return what the counters say of a large copy and a product; nothing if the device counts no cycles."""

    def busy(call: Callable[[], object]) -> int:
        before = npu.counters()["busy_cycles"]
        call()
        return npu.counters()["busy_cycles"] - before

    target = npu.malloc(_COPIED, "activation")
    try:
        copied = busy(lambda: npu.execute(memcpy_packets(memory, target, _COPIED)))
    finally:
        npu.free(target)
    square = np.ones((_SIDE, _SIDE), np.float32)
    a, out = npu.tensor(square), npu.empty((_SIDE, _SIDE))
    multiplied = busy(lambda: npu.matmul(a, a, out=out))
    if not copied or not multiplied:
        return []
    units = npu.capabilities.array_rows * npu.capabilities.array_cols
    return [
        Speed("copy within memory", _COPIED / copied, "bytes/cycle"),
        Speed(f"matmul {_SIDE}x{_SIDE}x{_SIDE}", _SIDE**3 / (multiplied * units) * 100, "% of peak"),
    ]
