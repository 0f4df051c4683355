"""Measure one matrix product on a device, and check it twice: to the bit, and against float64."""

import math
import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.benchmark.roofline import peak_macs, product_bound
from echo_npu.commands.matmul_command import matmul_command
from echo_npu.device import Device
from echo_npu.errors import NpuOutOfMemoryError
from echo_npu.spec.data_types import DataType, OutType
from echo_npu.spec.memory_map import DEFAULT_MAP, MemoryMap

INT32: Final = "int32"


@dataclass(frozen=True, slots=True)
class MatmulReport:
    """The report of `echo-npu matmul`. Cycles, and figures that need them, are None on a backend without
    cycles.

    Attributes:
        cycles: BUSY_CYCLES of this command: from its doorbell until everything is written.
        macs: m * k * n.
        utilisation: macs / (cycles * peak), where peak = array rows * array columns, four times that for
            int8.
        roofline: bound / cycles, where bound = max(macs / peak, bytes of the operands * 8 / data width,
            bytes of the result * 8 / data width): the least cycles possible.
        bit_exact: every bit equals the product as docs/numerics.md states it.
        max_rel_error: the largest element of |c - c64| / (|a| @ |b|), c64 being the product in float64.
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
    out_dtype: str = "fp32",
    trans_a: bool = False,
    trans_b: bool = False,
    seed: int = 0,
) -> MatmulReport:
    """Multiply random matrices, a[m, k] @ b[k, n], stored transposed with `trans_a` and `trans_b`.

    Their elements are normally distributed, or any int8.

    Args:
        dtype: of the operands, a label of the device's `data_types`.
        out_dtype: fp32, `dtype`, or for int8 int32. A result in int8 is scaled so that few elements saturate.

    Raises:
        ValueError: a dimension outside of 1..2**24, a dtype that the device does not have, or an out_dtype
            that does not go with it.
        NpuOutOfMemoryError: matrices that do not fit device memory.
        NpuDeviceError, NpuTimeoutError, SimulatorError: the device refused, hung or died.
    """
    if dtype not in device.capabilities.data_types:
        raise ValueError(f"dtype is {dtype!r}; the device has {', '.join(device.capabilities.data_types)}")
    kind, out = DataType.of(dtype), _out_type(dtype, out_dtype)
    check_size(m, k, n, dtype=kind, out_bytes=out.itemsize(kind), memory=device.capabilities.memory)
    rng = np.random.default_rng(seed)
    a = random_elements(rng, kind, (k, m) if trans_a else (m, k))
    b = random_elements(rng, kind, (n, k) if trans_b else (k, n))
    alpha = None
    if (kind, out) == (DataType.INT8, OutType.OWN):
        alpha = 2.0 ** -round(math.log2(127 * math.sqrt(k)))
    left, right = device.tensor(a), device.tensor(b, region="weight")
    result = device.empty((m, n), out.storage(kind))
    before = device.counters()["busy_cycles"]
    start = time.perf_counter()
    device.matmul(left, right, trans_a=trans_a, trans_b=trans_b, alpha=alpha, out=result)
    wall = time.perf_counter() - start
    cycles = device.counters()["busy_cycles"] - before if device.backend.has_cycles else None
    c = result.to_numpy()
    for tensor in (left, right, result):
        tensor.free()

    peak = peak_macs(device.capabilities, kind)
    op_a, op_b = numbers(a.T if trans_a else a, kind), numbers(b.T if trans_b else b, kind)
    bound = product_bound(device.capabilities, kind, m, k, n, out=out).cycles
    expected = contract_matmul(op_a, op_b, kind, out, alpha)
    return MatmulReport(
        m=m,
        k=k,
        n=n,
        dtype=dtype,
        cycles=cycles,
        macs=m * k * n,
        utilisation=m * k * n / (cycles * peak) if cycles else None,
        roofline=bound / cycles if cycles else None,
        bit_exact=c.tobytes() == expected.tobytes(),
        max_rel_error=relative_error(numbers(c, kind) if out == OutType.OWN else c, op_a, op_b, alpha),
        wall_s=wall,
        cycles_per_s=cycles / wall if cycles else None,
    )


def check_size(
    m: int,
    k: int,
    n: int,
    *,
    dtype: DataType,
    out_bytes: int = 4,
    batch: int = 1,
    memory: MemoryMap = DEFAULT_MAP,
) -> None:
    """Refuse `batch` products [m, k] @ [k, n] that a device cannot hold: a and c in one region, b in another.

    Args:
        out_bytes: bytes of an element of the result.
        memory: where the device's memory lies.

    Raises:
        ValueError: a dimension outside of 1..2**24.
        NpuOutOfMemoryError: the matrices are larger than their memory region.
    """
    matmul_command(0, 0, 0, m, k, n)
    needed = {
        memory.activation: batch * m * (k * dtype.itemsize + n * out_bytes),
        memory.weight: batch * k * n * dtype.itemsize,
    }
    for region, nbytes in needed.items():
        if nbytes > region.size:
            raise NpuOutOfMemoryError(region.name, nbytes, region.size)


def _out_type(dtype: str, out_dtype: str) -> OutType:
    possible = {"fp32": OutType.FLOAT32}
    possible.setdefault(dtype, OutType.OWN)
    if dtype == DataType.INT8.label:
        possible[INT32] = OutType.INT32
    if out_dtype not in possible:
        raise ValueError(f"out_dtype is {out_dtype!r}; of {dtype} operands it can be {', '.join(possible)}")
    return possible[out_dtype]


def random_elements(rng: np.random.Generator, dtype: DataType, shape: tuple[int, ...]) -> NDArray[Any]:
    """Draw elements, as they are stored: normally distributed, or any int8."""
    if dtype == DataType.INT8:
        return rng.integers(-128, 128, shape, dtype=np.int8)
    values = rng.standard_normal(shape, dtype=np.float32)
    if dtype == DataType.BF16:
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(dtype.storage)


def numbers(stored: NDArray[Any], dtype: DataType) -> NDArray[Any]:
    """Convert stored elements to float32; int8 stays int8."""
    if dtype == DataType.INT8:
        return stored
    if dtype == DataType.BF16:
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32)


def contract_matmul(
    a: NDArray[Any], b: NDArray[Any], dtype: DataType, out: OutType, alpha: float | None = None
) -> NDArray[Any]:
    """Compute the product as docs/numerics.md defines it, without the functional model.

    Args:
        a, b: float32, or int8, without infinities and NaN.

    Returns: the elements as they are stored.
    """
    if dtype == DataType.INT8:
        sums = a.astype(np.int32) @ b.astype(np.int32)
        if out == OutType.INT32:
            return sums
        total = sums.astype(np.float32)
    else:
        total = np.zeros((a.shape[0], b.shape[1]), np.float32)
        for k in range(a.shape[1]):
            total += a[:, k, None] * b[None, k, :]
    if alpha is not None:
        total *= np.float32(alpha)
    if out == OutType.FLOAT32 or dtype == DataType.FP32:
        return total
    if dtype == DataType.INT8:
        return np.clip(np.rint(total), -128, 127).astype(np.int8)
    if dtype == DataType.FP16:
        return total.astype(np.float16)
    # bf16: round the bits to a multiple of 2**16, ties to an even multiple.
    upper, lower = np.divmod(total.view(np.uint32), np.uint32(1 << 16))
    up = (lower > 1 << 15) | ((lower == 1 << 15) & (upper % 2 == 1))
    nearest: NDArray[np.uint16] = (upper + up).astype(np.uint16)
    return nearest


def relative_error(c: NDArray[Any], a: NDArray[Any], b: NDArray[Any], alpha: float | None = None) -> float:
    """Return the largest error of an element, relative to the sum of the magnitudes of its products."""
    factor = 1.0 if alpha is None else alpha
    a64, b64 = a.astype(np.float64), factor * b.astype(np.float64)
    error = np.abs(c - a64 @ b64)
    scale = np.abs(a64) @ np.abs(b64)
    return float(np.max(np.divide(error, scale, out=np.zeros_like(error), where=scale > 0)))
