"""Ranges of memory that the nodes of a graph write."""

from dataclasses import replace

import numpy as np

from echo_npu.server.liveness import LaterReads, WrittenBytes, meet
from echo_npu.server.protocol import GraphTensor, TensorFlag
from tests.runtime.server.server_client import ServerClient, node


def test_a_range_meets_what_shares_a_byte_with_it(client: ServerClient) -> None:
    middle = client.put(np.zeros((1, 16), np.float32))  # 64 bytes
    for distance in range(-68, 69, 4):
        other = replace(middle, address=middle.address + distance)
        written = WrittenBytes()
        assert not written.meet(other)
        written.add([middle])
        assert written.meet(other) == meet(middle, other) == (abs(distance) < 64)


def test_every_range_counts_however_many_there_are(client: ServerClient) -> None:
    first = client.put(np.zeros((1, 4), np.float32))
    written = WrittenBytes()
    places = [replace(first, address=first.address + 32 * number) for number in range(200)]
    for each in places:
        written.add([each])
    for each in places:
        assert written.meet(each)
        assert not written.meet(replace(each, address=each.address + 16))


def _floats(count: int, address: int) -> GraphTensor:
    whole = (count, 1, 1, 1)
    return GraphTensor("f32", TensorFlag(0), whole, (4, 4 * count, 4 * count, 4 * count), address)


def test_a_value_is_read_later_until_a_node_writes_all_of_it() -> None:
    value, other, target = _floats(8, 0), _floats(8, 1000), _floats(8, 2000)
    reads = node("SQR", target, value)
    for writer, kept in (
        (_floats(8, 0), False),
        (_floats(4, 0), True),
        (_floats(4, 16), True),
        (_floats(8, 4), True),
        (replace(_floats(8, 0), steps=(8, 64, 64, 64)), True),  # with gaps
        (
            replace(_floats(64, 0), type="q8_0", steps=(34, 68, 68, 68)),
            True,
        ),  # blocks
    ):
        graph = LaterReads([node("NEG", value, other), node("SCALE", writer, other), reads])
        assert graph.any(value, after=0) is kept, writer
        assert graph.any(value, after=1)
        assert not graph.any(value, after=2)
