"""Norms, softmax and reductions of rows."""

from typing import Any

import numpy as np

from echo_npu.device import Device
from echo_npu.server.operations.base import (
    FLOATS,
    Emitter,
    contiguous,
    dense_rows,
    first,
    require,
    same_shape,
)
from echo_npu.server.operations.elementwise import repeated
from echo_npu.server.operations.table import GraphOperation
from echo_npu.server.protocol import GraphNode, GraphTensor
from echo_npu.tensor import DeviceTensor


def check_norm(device: Device, node: GraphNode) -> None:
    """Take float32 of any strides."""
    source = first(node)
    require(source.type == node.destination.type == "f32", "a norm of other types than float32")
    require(same_shape(source, node.destination), "a result of another shape")


def emit_rms_norm(emitter: Emitter, node: GraphNode) -> None:
    """Divide by the root of the mean square."""
    emitter.device.rms_norm(emitter.view(first(node)), eps=node.number(0), out=emitter.view(node.destination))


def emit_norm(emitter: Emitter, node: GraphNode) -> None:
    """Subtract the mean and divide by the standard deviation."""
    emitter.device.layer_norm(
        emitter.view(first(node)), eps=node.number(0), out=emitter.view(node.destination)
    )


def emit_l2_norm(emitter: Emitter, node: GraphNode) -> None:
    """Divide by the root of the sum of squares, at least eps."""
    device, x = emitter.device, emitter.view(first(node))
    root = device.sqrt(device.sum(device.mul(x, x), -1, True))
    device.div(x, device.maximum(root, node.number(0)), out=emitter.view(node.destination))


def check_group_norm(device: Device, node: GraphNode) -> None:
    """Take dense float32 images whose channels are a multiple of the groups."""
    check_norm(device, node)
    source, groups = first(node), node.integer(0)
    require(contiguous(source) and contiguous(node.destination), "images with gaps")
    require(groups > 0 and not source.elements[2] % groups, "groups of different sizes")


def emit_group_norm(emitter: Emitter, node: GraphNode) -> None:
    """Norm the channels of each group together."""
    source = first(node)
    shape = source.elements[3] * node.integer(0), -1
    x, out = (emitter.view(each).reshape(*shape) for each in (source, node.destination))
    emitter.device.layer_norm(x, eps=node.number(1), out=out)


# --- softmax ------------------------------------------------------------------------------------------------


def check_mask(mask: GraphTensor | None, rows: int, heads: int, batches: int, keys: int) -> None:
    """Take a mask [keys, rows or more, heads or a divisor, batches or a divisor]."""
    if mask is None:
        return
    require(mask.type in FLOATS and all(mask.elements), f"an empty mask, or one in {mask.type}")
    require(mask.elements[0] == keys and mask.elements[1] >= rows, "a mask of another shape")
    fits = not heads % mask.elements[2] and not batches % mask.elements[3]
    require(fits, "a mask that does not repeat")


def masked_softmax(
    emitter: Emitter,
    scores: DeviceTensor,
    mask: GraphTensor | None,
    sinks: GraphTensor | None,
    *,
    scale: float,
    most_bias: float,
    out: DeviceTensor,
) -> None:
    """Compute the softmax of `scale * scores + slope * mask` over the last axis.

    Args:
        scores: [batches, heads, rows, keys].
        mask: [keys, rows or more, heads or a divisor, batches or a divisor].
        sinks: [heads], a score of each head that takes a share and gives none.
        most_bias: of ALiBi; 0: every slope is 1.
        out: of the scores' shape; it may be them.
    """
    device = emitter.device
    added = None if mask is None else _added(emitter, mask, scores.shape[1:3], most_bias)
    if sinks is not None:
        wide = device.empty((*scores.shape[:3], scores.shape[3] + 1))
        inner, last = wide[..., :-1], wide[..., -1:]
        device.mul(scores, scale, out=inner)
        if added is not None:
            target, few = repeated(inner, added)
            device.add(target, few, out=target)
        listed = emitter.strided(sinks, (scores.shape[1], 1, 1), (sinks.steps[0], 0, 0))
        device.copy(listed.broadcast_to(*last.shape), out=last)
        device.softmax(wide, out=wide)
        device.copy(inner, out=out)
    elif added is None:
        device.softmax(scores, scale=scale, out=out)
    else:
        target, split, few = repeated(out, scores, added)
        device.softmax(split, scale=scale, mask=few, out=target)


def _added(emitter: Emitter, mask: GraphTensor, shape: tuple[int, ...], most_bias: float) -> DeviceTensor:
    """Return what a mask adds to scores of so many heads and rows."""
    heads, rows = shape
    added = emitter.floats(mask)[:, :, :rows]
    if most_bias <= 0:
        return added
    device = emitter.device
    slopes = device.tensor(_slopes(heads, most_bias)[:, None, None])
    wide = device.empty((added.shape[0], heads, *added.shape[2:]))
    target, few = repeated(wide, added)
    device.copy(few.broadcast_to(*target.shape), out=target)
    scaled: DeviceTensor = device.mul(wide, slopes)
    return scaled


def check_sinks(sinks: GraphTensor | None, heads: int) -> None:
    """Take a float32 for each head."""
    if sinks is not None:
        require(sinks.type == "f32" and sinks.elements == (heads, 1, 1, 1), "sinks of another form")


def _slopes(heads: int, most_bias: float) -> Any:
    """Return the slope of each head (Press et al. 2022)."""
    power = 1 << int(np.floor(np.log2(heads)))
    low, high = 2.0 ** (-most_bias / power), 2.0 ** (-most_bias / 2 / power)
    values = [low ** (h + 1) if h < power else high ** (2 * (h - power) + 1) for h in range(heads)]
    return np.array(values, np.float32)


def check_soft_max(device: Device, node: GraphNode) -> None:
    """Take float32 scores."""
    source, mask = first(node), node.source(1)
    require(source.type == node.destination.type == "f32", "a softmax of other types than float32")
    require(same_shape(source, node.destination), "a result of another shape")
    keys, rows, heads, batches = source.elements
    check_sinks(node.source(2), heads)
    check_mask(mask, rows, heads, batches, keys)


def emit_soft_max(emitter: Emitter, node: GraphNode) -> None:
    """Compute it along the innermost dimension."""
    masked_softmax(
        emitter,
        emitter.view(first(node)),
        node.source(1),
        node.source(2),
        scale=node.number(0),
        most_bias=node.number(1),
        out=emitter.view(node.destination),
    )


# --- reductions ---------------------------------------------------------------------------------------------


def check_row_sum(device: Device, node: GraphNode) -> None:
    """Take float32 and leave a number for each row."""
    source = first(node)
    require(source.type == node.destination.type == "f32", "a sum of other types than float32")
    require(all(source.elements), "a sum of nothing")
    require(node.destination.elements == (1, *source.elements[1:]), "a result of another shape")


def emit_row_sum(emitter: Emitter, node: GraphNode) -> None:
    """Add up or average the innermost dimension."""
    function = {"SUM_ROWS": emitter.device.sum, "MEAN": emitter.device.mean}[node.op]
    function(emitter.view(first(node)), -1, True, out=emitter.view(node.destination))


def check_sum(device: Device, node: GraphNode) -> None:
    """Take float32 and leave one number."""
    source = first(node)
    require(source.type == node.destination.type == "f32", "a sum of other types than float32")
    require(all(source.elements), "a sum of nothing")
    # ggml's CPU aborts at a sum of them, and test-backend-ops with it.
    require(dense_rows(source), "rows with gaps")
    require(node.destination.elements == (1, 1, 1, 1), "a result of another shape")


def emit_sum(emitter: Emitter, node: GraphNode) -> None:
    """Add up everything."""
    emitter.device.sum(emitter.view(first(node)), None, True, out=emitter.view(node.destination))


def check_argmax(device: Device, node: GraphNode) -> None:
    """Take float32 rows and leave the place of the greatest number of each."""
    source = first(node)
    require(source.type == "f32" and node.destination.type == "i32", "an argmax of other types")
    require(all(source.elements) and dense_rows(source), "rows with gaps")
    require(source.elements[2:] == (1, 1) and contiguous(node.destination), "more than a matrix")
    require(node.destination.elements == (source.elements[1], 1, 1, 1), "a result of another shape")


def emit_argmax(emitter: Emitter, node: GraphNode) -> None:
    """Find the first greatest number of each row."""
    found = emitter.view(node.destination)
    emitter.device.argmax(emitter.view(first(node))[0, 0], -1, out=found[0, 0, 0])


OPERATIONS = {
    "RMS_NORM": GraphOperation(check_norm, emit_rms_norm),
    "NORM": GraphOperation(check_norm, emit_norm),
    "L2_NORM": GraphOperation(check_norm, emit_l2_norm),
    "GROUP_NORM": GraphOperation(check_group_norm, emit_group_norm),
    "SOFT_MAX": GraphOperation(check_soft_max, emit_soft_max),
    "SUM_ROWS": GraphOperation(check_row_sum, emit_row_sum),
    "MEAN": GraphOperation(check_row_sum, emit_row_sum),
    "SUM": GraphOperation(check_sum, emit_sum),
    "ARGMAX": GraphOperation(check_argmax, emit_argmax),
}
