"""FLASH_ATTN_EXT: attention with grouped heads, as products and a softmax."""

from dataclasses import replace
from typing import Final

import numpy as np

from echo_npu.device import Device
from echo_npu.server.operations.base import FLOATS, NAMES, Emitter, dense_rows, first, require
from echo_npu.server.operations.matrix import left_type
from echo_npu.server.operations.rows import check_mask, check_sinks, masked_softmax
from echo_npu.server.operations.table import GraphOperation
from echo_npu.server.protocol import GraphNode, GraphTensor
from echo_npu.tensor import DeviceTensor

SHARE_OF_MEMORY: Final = 8
"""The scores of the tokens that are computed at a time take at most one part in so many of a region."""


def check_attention(device: Device, node: GraphNode) -> None:
    """Take float32 queries, keys and values in one float type."""
    query, key, value, target = first(node), first(node, 1), first(node, 2), node.destination
    require(query.type == target.type == "f32", "queries or a result that are not float32")
    require(key.type == value.type and key.type in FLOATS, "keys and values of other types")
    require(all(dense_rows(each) for each in (query, key, value, target)), "rows with gaps")
    width, tokens, heads, batches = query.elements
    keys, groups = key.elements[1:3]
    require(key.elements == (width, keys, groups, batches), "keys of another shape")
    require(value.elements[1:] == key.elements[1:] and value.elements[0] > 0, "values of another shape")
    room = device.capabilities.memory.activation.size // 4
    require(_token_bytes(node) < room, "scores of one token that memory has no room for")
    require(keys > 0 and groups > 0 and not heads % groups, "heads that do not share")
    require(target.elements == (value.elements[0], heads, tokens, batches), "a result of another shape")
    check_sinks(node.source(4), heads)
    check_mask(node.source(3), tokens, heads, batches, keys)


def emit_attention(emitter: Emitter, node: GraphNode) -> None:
    """Attend with all tokens, or with some after the others if memory has no room for the scores of all."""
    query = first(node)
    tokens = query.elements[1]
    room = emitter.device.capabilities.memory.activation.size // SHARE_OF_MEMORY
    part = max(room // max(_token_bytes(node), 1), 1)
    if part >= tokens:
        _attend(emitter, node)
        return
    for start in range(0, tokens, part):
        emitter.check_size()
        chosen = range(start, min(start + part, tokens))
        mask = node.source(3)
        sources = list(node.sources)
        sources[0] = _slice(query, 1, chosen)
        if mask is not None:
            sources[3] = _slice(mask, 1, chosen)
        _attend(
            emitter,
            replace(node, sources=tuple(sources), destination=_slice(node.destination, 2, chosen)),
        )


def _token_bytes(node: GraphNode) -> int:
    """Return the bytes of the scores of a token's heads, in all batches."""
    _, _, heads, batches = first(node).elements
    return batches * heads * first(node, 1).elements[1] * np.dtype(np.float32).itemsize


def _slice(tensor: GraphTensor, axis: int, chosen: range) -> GraphTensor:
    elements = list(tensor.elements)
    elements[axis] = len(chosen)
    address = tensor.address + chosen.start * tensor.steps[axis]
    return replace(tensor, elements=tuple(elements), address=address)


def _attend(emitter: Emitter, node: GraphNode) -> None:
    """Multiply queries by keys, take the softmax, multiply by values."""
    device = emitter.device
    query, key, value = first(node), first(node, 1), first(node, 2)
    _, tokens, heads, batches = query.elements
    groups = key.elements[2]

    def fitting(tensor: DeviceTensor) -> DeviceTensor:
        """Return float32 rows in a type that a product takes beside keys and values."""
        name = left_type("f32", key.type)
        return tensor if name == "f32" else device.cast(tensor, NAMES[name])

    def multiply(left: DeviceTensor, right: GraphTensor, out: DeviceTensor, *, trans_b: bool = False) -> None:
        """Multiply the heads of a group by what they share: as the rows of one product, if they lie so."""
        views = [_rows_of_groups(each, groups) for each in (left, out)]
        if None not in views:
            device.matmul(views[0], emitter.view(right), trans_b=trans_b, out=views[1])
            return
        device.matmul(
            _heads_of_groups(left, groups),
            _shared(emitter, right),
            trans_b=trans_b,
            out=_heads_of_groups(out, groups),
        )

    rows = fitting(emitter.view(query))
    scores = device.empty((batches, heads, tokens, key.elements[1]))
    multiply(rows, key, scores, trans_b=True)
    scale, cap = node.number(0), node.number(2)
    if cap:
        device.mul(device.tanh(device.mul(scores, scale / cap)), cap, out=scores)
        scale = 1.0
    masked_softmax(
        emitter,
        scores,
        node.source(3),
        node.source(4),
        scale=scale,
        most_bias=node.number(1),
        out=scores,
    )
    # The result is [value, heads, tokens]: its tokens and heads change places.
    target = emitter.view(node.destination).swapaxes(1, 2)
    multiply(fitting(scores), value, target)


def _rows_of_groups(tensor: DeviceTensor, groups: int) -> DeviceTensor | None:
    """Return [batches, heads, tokens, width] as [batches, groups, heads of one * tokens, width], if it is."""
    (batches, heads, tokens, width), (batch, head, token, item) = tensor.shape, tensor.strides
    many = heads // groups
    if tokens > 1 and many > 1 and head != tokens * token:
        return None
    shape, strides = (
        (batches, groups, many * tokens, width),
        (batch, head * many, head if tokens == 1 else token, item),
    )
    return DeviceTensor.borrow(tensor.device, tensor.ptr, shape, strides, tensor.dtype)


def _heads_of_groups(tensor: DeviceTensor, groups: int) -> DeviceTensor:
    """Return [batches, heads, tokens, width] as [batches, groups, heads of one, tokens, width]."""
    batch, head, *rest = tensor.strides
    many = tensor.shape[1] // groups
    shape = (tensor.shape[0], groups, many, *tensor.shape[2:])
    return DeviceTensor.borrow(
        tensor.device, tensor.ptr, shape, (batch, head * many, head, *rest), tensor.dtype
    )


def _shared(emitter: Emitter, tensor: GraphTensor) -> DeviceTensor:
    return emitter.view(tensor)[:, :, None]


OPERATIONS = {"FLASH_ATTN_EXT": GraphOperation(check_attention, emit_attention)}
