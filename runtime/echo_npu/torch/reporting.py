"""What the device did, operator by operator."""

from collections.abc import Iterator
from contextlib import contextmanager

from echo_npu.device import Device
from echo_npu.devices import device_count
from echo_npu.torch import counting, devices


def device(index: int = 0) -> Device:
    """Return the NPU behind `echo_npu:index`, after everything launched has run.

    Do not allocate all of its memory, and do not submit to it from another thread while tensors are in use.
    """
    opened = devices.opened(index)
    opened.synchronize()
    return opened.npu


@contextmanager
def profile() -> Iterator[None]:
    """Measure each launch inside the `with` block, for `report()`. Launches do not overlap then."""
    found = [devices.opened(index) for index in range(device_count())]
    for each in found:
        each.synchronize()
        each.profile.enabled = True
    try:
        yield
    finally:
        for each in found:
            each.profile.enabled = False


def report() -> str:
    """Return a table of the operators: calls on NPU and CPU and as views, and what `profile` measured.

    Cycles are 0 on a backend without cycles. Bytes are those of the operands. Time is the host's, in ms.
    """
    measured: dict[str, tuple[int, int, int, float]] = {}
    for each in devices.all_open():
        for name, row in each.profile.rows.items():
            before = measured.get(name, (0, 0, 0, 0.0))
            measured[name] = (
                before[0] + row[0],
                before[1] + row[1],
                before[2] + row[2],
                before[3] + row[3],
            )
    head = f"{'operator':<44} {'npu':>8} {'cpu':>8} {'view':>8} {'cycles':>12} {'bytes':>14} {'ms':>10}"
    lines = [head]
    names = sorted({*counting.counts, *measured})
    for name in names:
        npu, cpu, view = counting.counts.get(name, [0, 0, 0])
        _, cycles, nbytes, seconds = measured.get(name, (0, 0, 0, 0.0))
        lines.append(
            f"{name:<44} {npu:>8} {cpu:>8} {view:>8} {cycles:>12} {nbytes:>14} {1e3 * seconds:>10.3f}"
        )
    return "\n".join(lines)
