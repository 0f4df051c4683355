"""Matrix products."""

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypedDict, Unpack

import numpy as np
from numpy.typing import DTypeLike

from echo_npu.commands.command import Command
from echo_npu.commands.matmul_command import matmul_command
from echo_npu.commands.packets import BLOCK_ROWS
from echo_npu.commands.strided import chunks, collapse
from echo_npu.driver.command_device import CommandDevice
from echo_npu.formats import PackedMatrix
from echo_npu.ops.broadcast import elementwise_commands
from echo_npu.ops.copy import copy_commands
from echo_npu.ops.operands import FLOAT32, check_out, kind, upload
from echo_npu.ops.packed import PackedTensor
from echo_npu.ops.rows import run
from echo_npu.ops.types import named_type, operand_type, type_name
from echo_npu.spec.data_types import DataType, OutType
from echo_npu.tensor import DeviceTensor
from echo_npu.vector.kernels import cast as casts
from echo_npu.vector.kernels.elementwise import elementwise

Activation: TypeAlias = Literal["relu", "silu", "gelu", "gelu_tanh"]

ACTIVATIONS: Final = ("relu", "silu", "gelu", "gelu_tanh")


class Steps(TypedDict, total=False):
    """The steps between a product's sums and memory, as arguments of `matmul_command`."""

    alpha: float | None
    row_scales: int | None
    column_vectors: int | None
    column_scale: bool
    bias: bool
    relu: bool


@dataclass(frozen=True, slots=True)
class _Shapes:
    """Shapes of a product: batch, M and N (empty for vectors), and the operands' shapes and flags as text."""

    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    given: str
    flags: str

    @property
    def result(self) -> tuple[int, ...]:
        return (*self.batch, *self.rows, *self.columns)


def matmul(
    device: CommandDevice,
    a: Any,
    b: Any,
    *,
    trans_a: bool = False,
    trans_b: bool = False,
    alpha: float | None = None,
    out_dtype: DTypeLike | str | None = None,
    bias: Any = None,
    activation: Activation | None = None,
    row_scale: Any = None,
    col_scale: Any = None,
    out: DeviceTensor | None = None,
) -> Any:
    """Compute `op(a) @ op(b)` with the shapes of `numpy.matmul`, batches and vectors included.

    Each sum is multiplied by `alpha`, by its row's scale and by its column's scale, its column's bias is
    added, then the activation is applied. Only the steps that are given are done, in this order, each rounded
    to float32 (docs/numerics.md). All this is one command, except for silu and gelu, which are a program on
    its result.

    Args:
        a: [..., M, K], or [..., K, M] with `trans_a`, or [K].
        b: [..., K, N], or [..., N, K] with `trans_b`, or [K]. Both float32, float16, bfloat16 (or its bits in
            uint16) or int8; or a float32 `a` and a float16 `b`. Or weights [N, K] in blocks,
            `formats.PackedMatrix` or `PackedTensor`, with a float32 or float16 `a`; then the result is
            float32, and `trans_a` and `trans_b` are not given.
        alpha: rounded to float32 (None: no such step).
        out_dtype: float32; the operands' type; or int32 for int8 operands without any step. None: that of
            `out`, or float32.
        bias, col_scale: float32 [N] ([1] if b is a vector). If both are given, the device copies them to
            adjacent places, unless they are the rows of one tensor [2, N], scales first.
        row_scale: float32 [M] ([1] if a is a vector), the same for every batch.
        activation: "relu", "silu", "gelu" or "gelu_tanh".
        out: a DeviceTensor of the result's shape to write to; it may be a view whose last axis is contiguous.

    Returns: [..., M, N]; a DeviceTensor if one of the arrays is one.

    Raises:
        TypeError: no arrays, dtypes that the device does not multiply with each other, an `out_dtype` that is
            not possible for these operands.
        ValueError: shapes that do not fit one another, strides that a command cannot express, or an unknown
            activation.
    """
    in_blocks = isinstance(b, (PackedMatrix, PackedTensor))
    dtype = _check_blocks(device, a, b, trans_a or trans_b) if in_blocks else _operands_type(device, a, b)
    shapes = _shapes(a, b, trans_a=trans_a, trans_b=trans_b or in_blocks)
    if activation is not None and activation not in ACTIVATIONS:
        raise ValueError(f"matmul: activation is {activation!r}; it must be one of {', '.join(ACTIVATIONS)}")
    _check_vector("bias", bias, shapes.columns, shapes)
    _check_vector("col_scale", col_scale, shapes.columns, shapes)
    _check_vector("row_scale", row_scale, shapes.rows, shapes)
    plain = all(each is None for each in (alpha, bias, activation, row_scale, col_scale))
    made = _result_type(dtype, a, b, out_dtype, out, plain=plain)
    check_out(device, "matmul", out, shapes.result, made)

    left = upload(device, a, "activation")
    target = device.empty(shapes.result, made) if out is None else out
    function = None if activation == "relu" else activation
    # silu and gelu work in float32, in place if the result is contiguous float32.
    direct = function is None or (made == FLOAT32 and target.is_contiguous)
    product = target if direct else device.empty(shapes.result)
    scales = None if row_scale is None else upload(device, row_scale, "activation").contiguous()
    columns, commands = _column_vectors(device, col_scale, bias)
    steps = Steps(
        alpha=alpha,
        row_scales=None if scales is None else scales.ptr,
        column_vectors=None if columns is None else columns.ptr,
        column_scale=col_scale is not None,
        bias=bias is not None,
        relu=activation == "relu",
    )
    if in_blocks:
        right = b if isinstance(b, PackedTensor) else PackedTensor.upload(device, b)
        commands += packed_commands(left, right, product, **steps)
    else:
        matrices = _as_matrices(left, upload(device, b, "weight"), product, trans_a=trans_a, trans_b=trans_b)
        commands += matmul_commands(*matrices, shapes.batch, **steps)
    if function is not None:
        commands += _function_commands(device, function, product, target)
    what = f"MATMUL {a.shape} x {b.shape}{shapes.flags} -> {shapes.result} {made}"
    return run(device, what, commands, target, out, [a, b, bias, row_scale, col_scale])


def matmul_commands(
    a: DeviceTensor,
    b: DeviceTensor,
    c: DeviceTensor,
    batch: tuple[int, ...],
    **steps: Unpack[Steps],
) -> list[Command]:
    """Make the MATMULs of `c = a @ b`: a [..., M, K], b [..., K, N], c [*batch, M, N], as views."""
    m, k = a.shape[-2:]
    n = b.shape[-1]
    dtype, right = operand_type(a.dtype), operand_type(b.dtype)
    assert dtype is not None
    half_b = right == DataType.FP16 and dtype == DataType.FP32
    assert half_b or right == dtype
    out = OutType.OWN
    if c.dtype == FLOAT32:
        out = OutType.FLOAT32
    elif c.dtype == np.int32:
        out = OutType.INT32
    row_a, trans_a = _matrix_layout("a", a)
    row_b, trans_b = _matrix_layout("b", b)
    row_c, trans_c = _matrix_layout("out", c)
    if trans_c:
        raise ValueError(f"out has shape {c.shape} and strides {c.strides}: its last axis must be contiguous")
    loops = collapse(batch, *(_batch_strides(tensor, batch) for tensor in (a, b, c)))
    return [
        matmul_command(
            a.ptr + chunk.offsets[0],
            b.ptr + chunk.offsets[1],
            c.ptr + chunk.offsets[2],
            m,
            k,
            n,
            dtype=dtype,
            half_b=half_b,
            out=out,
            trans_a=trans_a,
            trans_b=trans_b,
            row_strides=(row_a, row_b, row_c),
            batch=chunk.batch,
            src1_batch_strides=chunk.strides[0],
            src2_batch_strides=chunk.strides[1],
            dst_batch_strides=chunk.strides[2],
            **steps,
        )
        for chunk in chunks(loops, 3)
    ]


def packed_commands(
    a: DeviceTensor, b: PackedTensor, c: DeviceTensor, **steps: Unpack[Steps]
) -> list[Command]:
    """Make the MATMULs of `c = a @ b.T`: a [..., M, K] or [K], b weights [N, K] in blocks, c [..., M, N] or
    [N]."""
    if a.ndim == 1:
        a, c = a[None, :], c[None, :]
    if not _has_rows(a):
        a = a.contiguous()
    if not _has_rows(c):
        raise ValueError(
            f"out has shape {c.shape} and strides {c.strides}: its last axis must be contiguous, and no two "
            "rows may overlap"
        )
    if a.is_contiguous and c.is_contiguous and steps.get("row_scales") is None:
        a, c = a.reshape(-1, a.shape[-1]), c.reshape(-1, c.shape[-1])
    (row_a, _), (row_c, _) = _matrix_layout("a", a), _matrix_layout("out", c)
    batch = a.shape[:-2]
    loops = collapse(batch, *(_batch_strides(tensor, batch) for tensor in (a, c)))
    return [
        matmul_command(
            a.ptr + chunk.offsets[0],
            b.tiles.ptr,
            c.ptr + chunk.offsets[1],
            a.shape[-2],
            b.shape[1],
            b.shape[0],
            dtype=operand_type(a.dtype) or DataType.FP32,
            blocks=b.format.name,
            row_strides=(row_a, 0 if b.tiles.is_contiguous else b.tiles.strides[0], row_c),
            batch=chunk.batch,
            src1_batch_strides=chunk.strides[0],
            dst_batch_strides=chunk.strides[1],
            **steps,
        )
        for chunk in chunks(loops, 2)
    ]


# --- what was given -----------------------------------------------------------------------------------------


def _operands_type(device: CommandDevice, a: Any, b: Any) -> DataType:
    """Refuse operands that no command multiplies; return the type of `a`."""
    named = f"a is {kind(a)}, b is {kind(b)}"
    types = [
        operand_type(each.dtype) if isinstance(each, (np.ndarray, DeviceTensor)) else None for each in (a, b)
    ]
    half_b = types == [DataType.FP32, DataType.FP16]
    if types[0] is None or (types[0] != types[1] and not half_b):
        raise TypeError(
            "matmul takes numpy arrays or DeviceTensors, both float32, float16, bfloat16 (or its bits in "
            f"uint16) or int8, or a float32 a and a float16 b: {named}"
        )
    if half_b and not device.capabilities.half_b:
        raise TypeError(f"matmul: {named}; the device multiplies operands of one type only")
    if types[0].label not in device.capabilities.data_types:
        raise TypeError(f"matmul: {named}; the device multiplies {', '.join(device.capabilities.data_types)}")
    return types[0]


def _check_blocks(
    device: CommandDevice, a: Any, b: PackedMatrix | PackedTensor, transposed: bool
) -> DataType:
    """Refuse a product with weights in blocks that no command computes; return the type that the result's is
    derived from."""
    if not isinstance(a, (np.ndarray, DeviceTensor)) or operand_type(a.dtype) not in BLOCK_ROWS:
        raise TypeError(f"matmul with weights in blocks takes a float32 or float16 a, it is {kind(a)}")
    if b.format.name not in device.capabilities.block_formats:
        raise TypeError(
            f"matmul: b is in {b.format.name}; the block formats of the device: "
            f"{', '.join(device.capabilities.block_formats) or 'none'}"
        )
    if transposed:
        raise ValueError("matmul with weights in blocks [N, K] has no trans_a and trans_b")
    if isinstance(b, PackedTensor) and b.device is not device:
        raise ValueError(f"weights of shape {b.shape} belong to another device")
    return DataType.FP32


def _shapes(a: Any, b: Any, *, trans_a: bool, trans_b: bool) -> _Shapes:
    flags = "".join(f", {name}=True" for name, flag in (("trans_a", trans_a), ("trans_b", trans_b)) if flag)
    shapes = f"a has shape {a.shape}, b has shape {b.shape}{flags}"
    if 0 in (a.ndim, b.ndim) or (trans_a and a.ndim < 2) or (trans_b and b.ndim < 2):
        raise ValueError(f"matmul takes matrices, or vectors without a transpose flag: {shapes}")
    if 0 in (*a.shape, *b.shape):
        raise ValueError(f"matmul of an empty array: {shapes}")
    inner_a = a.shape[-2 if trans_a else -1]
    inner_b = b.shape[-1 if trans_b or b.ndim == 1 else -2]
    if inner_a != inner_b:
        raise ValueError(f"matmul: the inner dimensions {inner_a} and {inner_b} differ: {shapes}")
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ValueError(f"matmul: the batch dimensions do not broadcast: {shapes}") from None
    rows = () if a.ndim == 1 else (a.shape[-1 if trans_a else -2],)
    columns = () if b.ndim == 1 else (b.shape[-2 if trans_b else -1],)
    return _Shapes(batch, rows, columns, shapes, flags)


def _check_vector(name: str, value: Any, length: tuple[int, ...], shapes: _Shapes) -> None:
    """Refuse a scale or bias that is no float32 vector as long as the result's axis."""
    if value is None:
        return
    if not isinstance(value, (np.ndarray, DeviceTensor)) or value.dtype != FLOAT32:
        raise TypeError(f"matmul: {name} must be a float32 numpy array or DeviceTensor, it is {kind(value)}")
    if value.shape != (length or (1,)):
        raise ValueError(
            f"matmul: {name} has shape {value.shape}, it must have {length or (1,)}: {shapes.given}"
        )


def _result_type(
    dtype: DataType,
    a: Any,
    b: Any,
    out_dtype: DTypeLike | str | None,
    out: DeviceTensor | None,
    *,
    plain: bool,
) -> np.dtype[Any]:
    asked = "out_dtype"
    if out_dtype is None:
        if not isinstance(out, DeviceTensor):
            return FLOAT32
        asked, out_dtype = "out", out.dtype
    in_blocks = isinstance(b, (PackedMatrix, PackedTensor))
    name, own = type_name(out_dtype), "float32" if in_blocks else type_name(a.dtype)
    possible = ["float32", *([own] if own != "float32" else [])]
    if dtype == DataType.INT8 and plain:
        possible.append("int32")
    if name not in possible:
        without = " (int32 without alpha, scales, bias and activation)" if dtype == DataType.INT8 else ""
        raise TypeError(
            f"matmul: {asked} is {name}; a is {kind(a)}, b is {kind(b)}: the result can be "
            f"{' or '.join(possible)}{without}"
        )
    return named_type(name, out.dtype if isinstance(out, DeviceTensor) else a.dtype)


# --- commands -----------------------------------------------------------------------------------------------


def _as_matrices(
    a: DeviceTensor, b: DeviceTensor, c: DeviceTensor, *, trans_a: bool, trans_b: bool
) -> tuple[DeviceTensor, DeviceTensor, DeviceTensor]:
    """Return views [..., M, K], [..., K, N] and [..., M, N]; vectors become matrices of one row or column."""
    if a.ndim == 1:
        a, c = a[None, :], c[..., None, :] if b.ndim > 1 else c[..., None]
    if b.ndim == 1:
        b, c = b[:, None], c[..., None]
    return a.swapaxes(-1, -2) if trans_a else a, b.swapaxes(-1, -2) if trans_b else b, c


def _column_vectors(
    device: CommandDevice, scale: Any, bias: Any
) -> tuple[DeviceTensor | None, list[Command]]:
    """Return a tensor in which scales and biases are adjacent, and the copies that it needs."""
    given = [vector for vector in (scale, bias) if vector is not None]
    if not given:
        return None, []
    if not any(isinstance(vector, DeviceTensor) for vector in given):
        return upload(device, np.concatenate(given), "weight"), []
    vectors = [upload(device, vector, "weight") for vector in given]
    if len(vectors) == 1:
        return vectors[0].contiguous(), []
    first, second = vectors
    if first.is_contiguous and second.is_contiguous and second.ptr == first.ptr + first.nbytes:
        return first, []
    both = device.empty((2, *first.shape), region="weight")
    return both, [*copy_commands(first, both[0]), *copy_commands(second, both[1])]


def _function_commands(
    device: CommandDevice, function: str, product: DeviceTensor, target: DeviceTensor
) -> list[Command]:
    """Make the commands of silu or gelu of a float32 product, and of its conversion to the target's type."""
    program = elementwise(function, "s")
    if target.dtype == FLOAT32:
        device.load_programs([program])
        return elementwise_commands(device, program, [product], target)
    name = type_name(target.dtype)
    narrow = casts.saturate() if name == "int8" else casts.cast("float32", name)
    device.load_programs([program, narrow])
    return [
        *elementwise_commands(device, program, [product], product),
        *elementwise_commands(device, narrow, [product], target),
    ]


def _has_rows(tensor: DeviceTensor) -> bool:
    """Return whether the last axis is dense and the rows of the last two axes lie one after the other."""
    (rows, columns), (down, right), size = tensor.shape[-2:], tensor.strides[-2:], tensor.dtype.itemsize
    return (columns == 1 or right == size) and (rows == 1 or down >= size * columns)


def _matrix_layout(name: str, tensor: DeviceTensor) -> tuple[int, bool]:
    """Return how the last two axes are stored: bytes between rows (0: dense), and whether transposed."""
    (rows, columns), (down, right) = tensor.shape[-2:], tensor.strides[-2:]
    size = tensor.dtype.itemsize
    if _has_rows(tensor):
        return (down if rows > 1 and down != size * columns else 0), False
    if (rows == 1 or down == size) and (columns == 1 or right >= size * rows):
        return (right if columns > 1 and right != size * rows else 0), True
    raise ValueError(
        f"{name} has shape {tensor.shape} and strides {tensor.strides}: one of the last two axes must be "
        "contiguous (use contiguous())"
    )


def _batch_strides(tensor: DeviceTensor, batch: tuple[int, ...]) -> list[int]:
    """Return the tensor's stride for each batch axis, 0 where it is broadcast."""
    own_shape, own_strides = tensor.shape[:-2], tensor.strides[:-2]
    missing = len(batch) - len(own_shape)
    strides = [stride if size > 1 else 0 for size, stride in zip(own_shape, own_strides, strict=True)]
    return [0] * missing + strides
