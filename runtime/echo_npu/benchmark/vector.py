"""Measure operations of the vector engine, and copies, against the bandwidth of memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from echo_npu.benchmark.roofline import bus_bytes
from echo_npu.device import Device
from echo_npu.tensor import DeviceTensor

Tensors = Sequence[DeviceTensor]


@dataclass(frozen=True, slots=True)
class MeasuredOperation:
    """An operation on matrices of one shape.

    Attributes:
        name: its name in reports.
        inputs: the dtype of each input matrix.
        run: the call, of device, inputs, weights (a float32 vector as long as a row) and output.
        output: dtype of the result.
        weighted: whether the weights are read.
    """

    name: str
    inputs: tuple[DTypeLike, ...]
    run: Callable[[Device, Tensors, DeviceTensor, DeviceTensor], Any]
    output: DTypeLike = np.float32
    weighted: bool = False


_ONE: Final = (np.float32,)
_TWO: Final = (np.float32, np.float32)

OPERATIONS: Final = (
    MeasuredOperation("copy", _ONE, lambda npu, x, w, out: npu.copy(x[0], out=out)),
    MeasuredOperation("add", _TWO, lambda npu, x, w, out: npu.add(x[0], x[1], out=out)),
    MeasuredOperation("mul", _TWO, lambda npu, x, w, out: npu.mul(x[0], x[1], out=out)),
    MeasuredOperation("mul by a number", _ONE, lambda npu, x, w, out: npu.mul(x[0], 0.5, out=out)),
    MeasuredOperation(
        "int8 to float32", (np.int8,), lambda npu, x, w, out: npu.cast(x[0], np.float32, out=out)
    ),
    MeasuredOperation(
        "float32 to float16", _ONE, lambda npu, x, w, out: npu.cast(x[0], np.float16, out=out), np.float16
    ),
    MeasuredOperation("relu", _ONE, lambda npu, x, w, out: npu.relu(x[0], out=out)),
    MeasuredOperation("exp", _ONE, lambda npu, x, w, out: npu.exp(x[0], out=out)),
    MeasuredOperation("silu", _ONE, lambda npu, x, w, out: npu.silu(x[0], out=out)),
    MeasuredOperation("gelu", _ONE, lambda npu, x, w, out: npu.gelu(x[0], out=out)),
    MeasuredOperation("softmax", _ONE, lambda npu, x, w, out: npu.softmax(x[0], out=out)),
    MeasuredOperation("rms_norm", _ONE, lambda npu, x, w, out: npu.rms_norm(x[0], w, out=out), weighted=True),
    MeasuredOperation(
        "layer_norm", _ONE, lambda npu, x, w, out: npu.layer_norm(x[0], w, w, out=out), weighted=True
    ),
)


@dataclass(frozen=True, slots=True)
class VectorMeasured:
    """An operation that has run.

    Attributes:
        name: of the operation.
        rows, cols: shape of its operands.
        cycles: BUSY_CYCLES.
        bandwidth: bytes of the busier direction, each operand and the result once, / (cycles * bytes that
            the bus moves in a cycle).
        cycles_per_chunk: cycles for each chunk of as many elements as there are lanes.
    """

    name: str
    rows: int
    cols: int
    cycles: int
    bandwidth: float
    cycles_per_chunk: float

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as data for JSON."""
        return asdict(self)


def measure_vector(device: Device, rows: int, cols: int) -> Iterator[VectorMeasured]:
    """Run each operation on matrices [rows, cols] of normally distributed numbers, each alone.

    Raises:
        ValueError: the backend has no cycles.
    """
    if not device.backend.has_cycles:
        raise ValueError(f"the backend {device.backend.name} has no cycles to measure")
    for operation in OPERATIONS:
        yield _measure(device, operation, rows, cols)


def _measure(device: Device, operation: MeasuredOperation, rows: int, cols: int) -> VectorMeasured:
    rng = np.random.default_rng(0)
    inputs = [
        device.tensor((8 * rng.standard_normal((rows, cols))).astype(dtype)) for dtype in operation.inputs
    ]
    weights = device.tensor(rng.standard_normal(cols, dtype=np.float32), region="weight")
    output = device.empty((rows, cols), operation.output)
    operation.run(device, inputs, weights, output)  # loads the program into program memory
    before = device.counters()["busy_cycles"]
    operation.run(device, inputs, weights, output)
    cycles = device.counters()["busy_cycles"] - before
    read = sum(each.nbytes for each in inputs) + (weights.nbytes if operation.weighted else 0)
    written = output.nbytes
    for tensor in (*inputs, weights, output):
        tensor.free()
    return VectorMeasured(
        name=operation.name,
        rows=rows,
        cols=cols,
        cycles=cycles,
        bandwidth=max(read, written) / (cycles * bus_bytes(device.capabilities)),
        cycles_per_chunk=cycles * device.capabilities.vector_lanes / (rows * cols),
    )
