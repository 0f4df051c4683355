"""MUL_MAT: products with weights in floats or in blocks; OUT_PROD: sums of outer products."""

from echo_npu.device import Device
from echo_npu.formats import FORMATS
from echo_npu.server.operations.base import FLOATS, NAMES, Emitter, dense_rows, first, require
from echo_npu.server.operations.block_rows import block_rows, packed_rows
from echo_npu.server.operations.table import GraphOperation
from echo_npu.server.protocol import GraphNode, GraphTensor
from echo_npu.tensor import DeviceTensor


def check_mul_mat(device: Device, node: GraphNode) -> None:
    """Take weights [K, N, ...] and rows [K, M, ...] whose outer dimensions are multiples of the weights'."""
    weights, rows = first(node), first(node, 1)
    require(node.destination.type == "f32", "a product that is not float32")
    require(rows.type in FLOATS, f"rows in {rows.type}")
    require(weights.type in FLOATS or weights.type in FORMATS, f"weights in {weights.type}")
    require(all((*weights.elements, *rows.elements)), "an empty operand")
    require(weights.elements[0] == rows.elements[0], "inner dimensions that differ")
    result = (weights.elements[1], *rows.elements[1:])
    require(node.destination.elements == result, "a result of another shape")
    fits = all(not many % few for few, many in zip(weights.elements[2:], rows.elements[2:], strict=True))
    require(fits, "outer dimensions that do not repeat")


def emit_mul_mat(emitter: Emitter, node: GraphNode) -> None:
    """Multiply; rows are converted to the type of the weights, but float32 rows of float16 weights."""
    weights, rows = first(node), first(node, 1)
    if weights.type in FORMATS:
        _in_blocks(emitter, weights, rows, node.destination)
        return
    left = _converted(emitter, rows, left_type(rows.type, weights.type))
    right = _with_rows(emitter.view(weights))
    outer = list(zip(weights.elements[2:], rows.elements[2:], strict=True))[::-1]
    device = emitter.device
    device.matmul(
        _grouped(left, outer),
        _shared(right),
        trans_b=True,
        out=_grouped(emitter.view(node.destination), outer),
    )


def check_out_prod(device: Device, node: GraphNode) -> None:
    """Take float32 [M, K, ...] and [N, K, ...]; outer dimensions as for MUL_MAT."""
    left, right, target = first(node), first(node, 1), node.destination
    require(left.type == right.type == target.type == "f32", "a type that is not float32")
    require(all((*left.elements, *right.elements)), "an empty operand")
    require(left.elements[1] == right.elements[1], "inner dimensions that differ")
    require(target.elements == (left.elements[0], right.elements[0], *right.elements[2:]), "another shape")
    fits = all(not many % few for few, many in zip(left.elements[2:], right.elements[2:], strict=True))
    require(fits, "outer dimensions that do not repeat")
    require(dense_rows(target), "a result with gaps")


def emit_out_prod(emitter: Emitter, node: GraphNode) -> None:
    """Multiply the columns of both and add up over K."""
    left, right = (_with_rows(emitter.view(first(node, index))) for index in range(2))
    outer = list(zip(first(node).elements[2:], first(node, 1).elements[2:], strict=True))[::-1]
    target = _grouped(emitter.view(node.destination), outer)
    emitter.device.matmul(_grouped(right, outer), _shared(left), trans_a=True, out=target)


def _in_blocks(emitter: Emitter, weights: GraphTensor, rows: GraphTensor, target: GraphTensor) -> None:
    matrices = block_rows(weights)
    few2, few3 = weights.elements[2:]
    left, out = _converted(emitter, rows, "f32"), emitter.view(target)
    repeat3, repeat2 = rows.elements[3] // few3, rows.elements[2] // few2
    for outer in range(few3):
        for inner in range(few2):
            emitter.check_size()
            packed = packed_rows(emitter, matrices[outer, inner])
            part = (
                slice(outer * repeat3, (outer + 1) * repeat3),
                slice(inner * repeat2, (inner + 1) * repeat2),
            )
            emitter.device.matmul(left[part], packed, out=out[part])


def left_type(rows: str, weights: str) -> str:
    """Return the float type in which a product takes rows beside weights in floats."""
    return "f32" if (rows, weights) == ("f32", "f16") else weights


def _converted(emitter: Emitter, tensor: GraphTensor, name: str) -> DeviceTensor:
    """Return the tensor in another float type, with rows that a product takes."""
    value = emitter.view(tensor)
    if tensor.type != name:
        converted: DeviceTensor = emitter.device.cast(value, NAMES[name])
        return converted
    return _with_rows(value)


def _with_rows(value: DeviceTensor) -> DeviceTensor:
    """Return the tensor, or a copy of it where neither of its last two axes is dense."""
    (rows, columns), (down, right), size = value.shape[-2:], value.strides[-2:], value.dtype.itemsize
    if (columns == 1 or right == size) and (rows == 1 or down >= size * columns):
        return value
    if (rows == 1 or down == size) and (columns == 1 or right >= size * rows):
        return value
    return value.contiguous()


def _grouped(value: DeviceTensor, outer: list[tuple[int, int]]) -> DeviceTensor:
    """Split each of the two outer axes into the weights' count and its repetitions."""
    shape: list[int] = []
    strides: list[int] = []
    for (few, many), stride in zip(outer, value.strides[:2], strict=True):
        shape += [few, many // few]
        strides += [stride * (many // few), stride]
    return DeviceTensor.borrow(
        value.device,
        value.ptr,
        (*shape, *value.shape[2:]),
        (*strides, *value.strides[2:]),
        value.dtype,
    )


def _shared(value: DeviceTensor) -> DeviceTensor:
    return value[:, None, :, None]


OPERATIONS = {
    "MUL_MAT": GraphOperation(check_mul_mat, emit_mul_mat),
    "OUT_PROD": GraphOperation(check_out_prod, emit_out_prod),
}
