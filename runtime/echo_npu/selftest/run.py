"""Run all checks of a device, in the order in which a fault is best understood."""

import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from echo_npu.device import Device
from echo_npu.errors import NpuError
from echo_npu.selftest.counters import check_counters
from echo_npu.selftest.engines import (
    check_copies,
    check_error,
    check_products,
    check_ring,
    check_vector,
)
from echo_npu.selftest.interrupts import check_interrupts
from echo_npu.selftest.memory import check_address_lines, check_march
from echo_npu.selftest.records import SelfCheck, SelfTest, SelfTestError, Speed
from echo_npu.selftest.registers import check_constants, check_registers
from echo_npu.selftest.speed import measure_speed

MARCH_BYTES: Final = 1 << 20


def run_selftest(
    npu: Device,
    twin: Device,
    *,
    march_bytes: int = MARCH_BYTES,
    on_start: Callable[[str], None] = lambda name: None,
) -> SelfTest:
    """Try registers, memory, interrupts and engines of a device, and measure its speed.

    A check that fails does not stop the others; the device is reset after it. Content of memory that
    allocations hold stays; the counters begin again.

    Args:
        npu: an open device that nothing else uses.
        twin: a functional model of the same configuration, which gives the expected bits.
        march_bytes: bytes of each memory region to march over.
        on_start: called with the name of each check before it begins, and with "speed" before that is
            measured, for a progress display.
    """
    checks: list[tuple[str, Callable[[], str]]] = [
        ("constants", partial(check_constants, npu)),
        ("registers", partial(check_registers, npu)),
        ("address lines", partial(check_address_lines, npu)),
        ("memory march", partial(check_march, npu, march_bytes)),
        ("interrupts", partial(check_interrupts, npu)),
        ("copies", partial(check_copies, npu, twin)),
        ("matrix engine", partial(check_products, npu, twin)),
        ("vector engine", partial(check_vector, npu, twin)),
        ("ring", partial(check_ring, npu, twin)),
        ("counters", partial(check_counters, npu, twin)),
        ("error report", partial(check_error, npu, twin)),
    ]
    found = []
    for name, check in checks:
        on_start(name)
        found.append(_made(npu, name, check))
    speeds: list[Speed] = []
    if all(check.passed for check in found):
        on_start("speed")
        speeds = measure_speed(npu)
    facts = {key: value for key, value in npu.info().items() if key in ("card", "simulator", "capabilities")}
    return SelfTest(npu.backend.name, npu.config, facts, tuple(found), tuple(speeds))


def _made(npu: Device, name: str, check: Callable[[], str]) -> SelfCheck:
    start = time.monotonic()
    try:
        detail, passed = check(), True
    except (SelfTestError, NpuError) as error:
        detail, passed = str(error), False
        with contextlib.suppress(NpuError):  # a card that is lost stays so, which the next check says
            npu.reset()
    return SelfCheck(name, passed, detail, time.monotonic() - start)
