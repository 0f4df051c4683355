"""Ranges of memory that the nodes of a graph write."""

from dataclasses import replace

import numpy as np

from echo_npu.server.liveness import WrittenBytes, meet
from tests.runtime.server.server_client import ServerClient


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
