"""The performance counters: what they count, and that they can be cleared."""

from typing import Final

import numpy as np

from echo_npu.commands.builders import memcpy_packets
from echo_npu.device import Device
from echo_npu.selftest.records import SelfTestError

_COPIED: Final = 10_000
_SHAPE: Final = (24, 40, 56)
"""M, K and N of a product."""


def check_counters(npu: Device, twin: Device) -> str:
    """Count a copy and a product: commands and multiply-adds exactly, cycles and beats within bounds."""
    ours, theirs = _counted(npu), _counted(twin)
    for name in ("commands", "macs"):
        if ours[name] != theirs[name]:
            raise SelfTestError(f"{name} counts {ours[name]} in place of {theirs[name]}")
    detail = f"{ours['commands']} commands, {ours['macs']} multiply-adds"
    if ours["cycles"]:
        _check_bounds(npu, ours)
        detail += f", {ours['busy_cycles']} busy cycles"
    npu.clear_counters()
    for name, value in npu.counters().items():
        if value and name not in ("cycles", "host_beats"):  # which go on
            raise SelfTestError(f"{name} is {value} after the counters were cleared")
    return detail


def _counted(device: Device) -> dict[str, int]:
    m, k, n = _SHAPE
    a, b = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
    source, target = device.malloc(_COPIED, "weight"), device.malloc(_COPIED, "activation")
    try:
        device.clear_counters()
        device.matmul(a, b)
        device.execute(memcpy_packets(source, target, _COPIED))
        return device.counters()
    finally:
        device.free(source)
        device.free(target)


def _check_bounds(npu: Device, counters: dict[str, int]) -> None:
    """Raise SelfTestError unless cycles and beats of the device are possible."""
    least = _COPIED * 8 // npu.capabilities.data_width
    for name in ("read_beats", "write_beats"):
        if counters[name] < least:
            raise SelfTestError(f"{name} counts {counters[name]}, although a copy alone takes {least}")
    if not 0 < counters["matrix_busy"] <= counters["busy_cycles"] <= counters["cycles"]:
        busy = ", ".join(f"{name} {counters[name]}" for name in ("matrix_busy", "busy_cycles", "cycles"))
        raise SelfTestError(f"each of these must be at most the next one, and none 0: {busy}")
