"""ROPE whose result SET_ROWS writes to rows of a cache, in the type of the cache."""

from echo_npu.server.operations.base import TYPES, Emitter, contiguous, first
from echo_npu.server.operations.numbered_rows import check_numbers, numbers_of, part_of, runs
from echo_npu.server.operations.rotary import PAIRS, Rotation, tables_of
from echo_npu.server.protocol import GraphNode, TensorFlag


def rotates_into_rows(rope: GraphNode, rows: GraphNode) -> bool:
    """Return whether a rotation can write what SET_ROWS writes: each row is all heads of a token, and all
    elements of a head turn. Both nodes are supported ones, without regard to who else reads the result."""
    made, listed, target = rope.destination, first(rows), rows.destination
    rotation = Rotation.of(rope)
    width, heads, tokens, batches = made.elements
    return (
        bool(first(rows, 1).flags & TensorFlag.INPUT)
        and listed.type == made.type == "f32"
        and listed.address == made.address
        and contiguous(made)
        and contiguous(listed)
        and listed.elements == (width * heads, tokens, 1, 1)
        and batches == 1
        and (rotation.first, rotation.width) == (0, width)
        and target.type in ("f32", "f16")
        and target.steps[0] == TYPES[target.type].itemsize
    )


def emit_rotated_rows(emitter: Emitter, rope: GraphNode, rows: GraphNode) -> None:
    """Rotate straight to the rows, with one rounding to their type: a command for each run of rows that are
    equally far apart."""
    index = first(rows, 1)
    cosine, sine = tables_of(emitter, rope)
    x = emitter.floats(first(rope))[0]
    _, heads, width = x.shape
    pairs = Rotation.of(rope).mode == PAIRS

    def build(emitter: Emitter) -> None:
        target = emitter.view(rows.destination)[0, 0]
        listed = numbers_of(emitter, index)[0, 0]
        check_numbers(listed, target.shape[0])
        down, item = target.strides
        for start, count, step in runs(listed.tolist()):
            emitter.check_size()
            part = slice(start, start + count)
            strides = step * down, width * item, item
            place = part_of(target, listed[start], (count, heads, width), strides)
            emitter.device.rope(x[part], cosine[part], sine[part], interleaved=pairs, out=place)

    emitter.moving(build, index)
