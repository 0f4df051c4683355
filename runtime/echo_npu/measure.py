"""Measures one matrix product on a device, and checks it twice: to the bit, and against float64."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from echo_npu.device import Device
from echo_npu.packets import matmul_packets
from echo_npu.tensor import DeviceTensor


@dataclass(frozen=True, slots=True)
class MatmulReport:
    """What `echo-npu matmul` prints. Cycles and what follows from them are None on a backend without.

    Attributes:
        cycles: BUSY_CYCLES of this command: from its doorbell until everything is written.
        macs: m * k * n.
        utilisation: macs / (cycles * array rows * array columns).
        roofline: bound / cycles, where bound = max(macs / (array rows * array columns), bytes of the
            operands * 8 / data width, bytes of the result * 8 / data width): the best that they allow.
        bit_exact: every bit equals the product in float32 in the order that the contract states.
        max_rel_error: the largest |c - c64| / (|a| @ |b|), elementwise, against the product in float64.
        wall_s: seconds of wall time of the command.
        cycles_per_s: cycles / wall_s, the speed of the simulation.
    """

    m: int
    k: int
    n: int
    dtype: str
    cycles: int | None
    macs: int
    utilisation: float | None
    roofline: float | None
    bit_exact: bool
    max_rel_error: float
    wall_s: float
    cycles_per_s: float | None


def measure_matmul(
    device: Device,
    m: int,
    k: int,
    n: int,
    *,
    dtype: str = "fp32",
    trans_a: bool = False,
    trans_b: bool = False,
    seed: int = 0,
) -> MatmulReport:
    """Multiply normally distributed random matrices, a[m, k] @ b[k, n], each stored transposed if so asked.

    Raises:
        ValueError: a dimension outside of 1..2**24, or a dtype that the device does not have.
        NpuOutOfMemoryError: an operand that does not fit.
        NpuDeviceError, NpuTimeoutError, SimulatorError: the device refused, hung or died.
    """
    if dtype not in device.capabilities.data_types:
        raise ValueError(f"dtype is {dtype!r}; the device has {', '.join(device.capabilities.data_types)}")
    if dtype != "fp32":
        raise ValueError(f"dtype is {dtype!r}; products of fp32 are measured")
    matmul_packets(0, 0, 0, m, k, n)  # refuses bad dimensions before anything is allocated
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((k, m) if trans_a else (m, k), dtype=np.float32)
    b = rng.standard_normal((n, k) if trans_b else (k, n), dtype=np.float32)
    left, right = device.tensor(a), device.tensor(b, region="weight")
    result = device.empty((m, n))
    cycles, wall = _timed_matmul(device, left, right, result, trans_a=trans_a, trans_b=trans_b)
    c = result.to_numpy()
    for tensor in (left, right, result):
        tensor.free()

    rows, width = (
        device.capabilities.array_rows * device.capabilities.array_cols,
        device.capabilities.data_width,
    )
    macs = m * k * n
    bound = max(macs / rows, 32 * (m * k + k * n) / width, 32 * m * n / width)
    op_a, op_b = a.T if trans_a else a, b.T if trans_b else b
    return MatmulReport(
        m=m,
        k=k,
        n=n,
        dtype=dtype,
        cycles=cycles,
        macs=macs,
        utilisation=macs / (cycles * rows) if cycles else None,
        roofline=bound / cycles if cycles else None,
        bit_exact=bool(np.array_equal(c.view(np.uint32), contract_matmul(op_a, op_b).view(np.uint32))),
        max_rel_error=relative_error(c, op_a, op_b),
        wall_s=wall,
        cycles_per_s=cycles / wall if cycles else None,
    )


def _timed_matmul(
    device: Device, a: DeviceTensor, b: DeviceTensor, out: DeviceTensor, *, trans_a: bool, trans_b: bool
) -> tuple[int | None, float]:
    """Busy cycles (None without cycles) and wall seconds."""
    before = device.counters()["busy_cycles"]
    start = time.perf_counter()
    device.matmul(a, b, trans_a=trans_a, trans_b=trans_b, out=out)
    wall = time.perf_counter() - start
    cycles = device.counters()["busy_cycles"] - before
    return (cycles if device.backend.has_cycles else None), wall


def contract_matmul(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    """The product as the contract defines it, word for word; the functional model is not asked."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        total += a[:, k, None] * b[None, k, :]
    return total


def relative_error(c: NDArray[np.float32], a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """The largest error of an element, relative to the sum of the magnitudes of its products."""
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    error = np.abs(c - a64 @ b64)
    scale = np.abs(a64) @ np.abs(b64)
    return float(np.max(np.divide(error, scale, out=np.zeros_like(error), where=scale > 0)))
