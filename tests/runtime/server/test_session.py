"""A client's use of a device: whatever it asks for, it is carried out or refused with a reason."""

import dataclasses
import itertools
import resource
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

import echo_npu
from echo_npu.formats import BLOCK, FORMATS
from echo_npu.server import protocol
from echo_npu.server.protocol import ProtocolError, RequestKind
from echo_npu.server.session import DeviceSession, RefusedError
from tests.runtime.server.honest_nodes import dense, honest_nodes
from tests.runtime.server.hostile_clients import HostileClient

REQUESTS = 1500
MOST_BYTES = 8 << 30


@pytest.fixture
def limited_memory() -> Iterator[None]:
    """Refuse what a request has no reason to allocate, before the machine has to."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    # What else this process has mapped by now, libraries above all, does not count.
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MOST_BYTES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.usefixtures("limited_memory")
def test_every_request_is_carried_out_or_refused() -> None:
    seed = secrets.randbelow(1 << 31)
    hostile = HostileClient(seed)
    carried_out = 0
    with echo_npu.open("cmodel") as device:
        session = DeviceSession(device)
        hostile.addresses = [
            *protocol.NUMBER.unpack(
                session.answer(RequestKind.ALLOCATE, memoryview(protocol.NUMBER.pack(1 << 16)))
            )
        ]
        for number in range(REQUESTS):
            kind = hostile.random.choice((RequestKind.GRAPH, RequestKind.SUPPORTS))
            reason = ""
            try:
                session.answer(kind, memoryview(hostile.content(kind)))
            except (RefusedError, ProtocolError) as error:
                reason = str(error) or "none"
            except BaseException as error:
                raise AssertionError(f"request {number} of seed {seed}") from error
            assert reason != "none", f"request {number} of seed {seed}: no reason"
            carried_out += not reason
        session.close()
    assert carried_out > REQUESTS // 10


def test_the_nodes_that_searches_start_from_are_carried_out() -> None:
    with echo_npu.open("cmodel") as device:
        session = DeviceSession(device)
        for made in honest_nodes(64):
            supported = session.answer(RequestKind.SUPPORTS, memoryview(made.packed()))
            assert protocol.NUMBER.unpack(supported) == (1,), made


_OF_SEVERAL_SHAPES = {
    "REPEAT": "any multiple of the source",
    "SET_ROWS": "a table of any number of rows",
    "POOL_2D": "fewer windows than there are",
    "VIEW": "it has no commands",
}
"""Operations whose result may have another shape, and which one."""


def test_a_result_of_another_shape_is_not_supported() -> None:
    made = [each for each in honest_nodes(64) if each.op not in _OF_SEVERAL_SHAPES]
    with echo_npu.open("cmodel") as device:
        session = DeviceSession(device)
        for node, axis, more in itertools.product(made, range(4), (-1, 1)):
            elements = list(node.destination.elements)
            blocks = FORMATS.get(node.destination.type)
            elements[axis] += more * (BLOCK if blocks and axis == 0 else 1)
            if not elements[axis]:
                continue
            other = dataclasses.replace(node, destination=dense(64, node.destination.type, *elements))
            supported = session.answer(RequestKind.SUPPORTS, memoryview(other.packed()))
            assert protocol.NUMBER.unpack(supported) == (0,), (node, elements)
