"""Requests of an open device one by one: memory, blocks, copies, graphs, and the form that each has."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu.device import Device
from echo_npu.formats import pack
from echo_npu.server import graphs, protocol
from echo_npu.server.protocol import AnswerStatus, GraphFlag, ProtocolError, RequestKind
from echo_npu.server.session import DeviceSession, RefusedError
from tests.runtime.server.honest_nodes import dense
from tests.runtime.server.server_client import node

RANDOM = np.random.default_rng()


class OpenSession:
    """A session, and its requests in numbers."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.session = DeviceSession(device)

    def ask(self, kind: int, data: bytes = b"") -> bytes:
        return self.session.answer(kind, memoryview(data))

    def allocate(self, size: int) -> int:
        return int(protocol.NUMBER.unpack(self.ask(RequestKind.ALLOCATE, protocol.NUMBER.pack(size)))[0])

    def free(self, address: int) -> None:
        assert not self.ask(RequestKind.FREE, protocol.NUMBER.pack(address))

    def blocks(self, kind: int, address: int, rows: int, depth: int, count: int, name: str = "q4_1") -> bytes:
        return self.ask(kind, protocol.BLOCKS.pack(name.encode(), address, rows, depth, count))

    def graph(self, *nodes: Any, key: int = 0, flags: int = 0) -> None:
        head = protocol.GRAPH.pack(key, len(nodes), flags)
        assert not self.ask(RequestKind.GRAPH, head + b"".join(each.packed() for each in nodes))

    def run(self, key: int) -> None:
        assert not self.ask(RequestKind.RUN, protocol.NUMBER.pack(key))

    def memory(self) -> tuple[int, ...]:
        """Return the bytes that are free, those in all, and the largest free block."""
        return protocol.MEMORY.unpack(self.ask(RequestKind.MEMORY))

    def write(self, address: int, values: Any) -> None:
        self.device.backend.write_mem(address, np.ascontiguousarray(values).view(np.uint8).reshape(-1))

    def read(self, address: int, size: int) -> bytes:
        return self.device.backend.read_mem(address, size).tobytes()

    def refused(self, status: AnswerStatus, kind: int, data: bytes) -> None:
        with pytest.raises(RefusedError) as caught:
            self.ask(kind, data)
        assert caught.value.status == status


@pytest.fixture
def own() -> Iterator[OpenSession]:
    with echo_npu.open("cmodel") as device:
        made = OpenSession(device)
        yield made
        made.session.close()


def test_the_figures_of_memory_are_those_of_all_regions(own: OpenSession) -> None:
    regions = own.device.capabilities.memory.regions
    free, total, largest = own.memory()
    assert total == own.device.capabilities.memory.size
    assert max(each.size for each in regions.values()) < free <= sum(each.size for each in regions.values())
    assert largest == regions["activation"].size  # the first bytes of the other one are nobody's
    own.allocate(1000)
    assert own.memory() == (free - 1024, total, largest)
    own.allocate(regions["weight"].size - 512)
    assert own.memory()[2] < regions["weight"].size


def test_buffers_lie_in_the_region_for_weights_while_that_has_room(own: OpenSession) -> None:
    regions = own.device.capabilities.memory.regions
    first = own.allocate(regions["weight"].size - (2 << 20))
    second, third = own.allocate(4 << 20), own.allocate(1 << 20)
    for address, region in ((first, "weight"), (second, "activation"), (third, "weight")):
        assert regions[region].base <= address < regions[region].base + regions[region].size
    own.refused(AnswerStatus.OUT_OF_MEMORY, RequestKind.ALLOCATE, protocol.NUMBER.pack(1 << 28))


def test_every_buffer_has_an_address_of_its_own(own: OpenSession) -> None:
    made = [own.allocate(size) for size in (0, 0, 1, 64, 65, 0)]
    assert len(set(made)) == len(made)
    assert all(address % 64 == 0 for address in made)


def test_only_a_buffer_is_freed_and_only_once(own: OpenSession) -> None:
    before = own.memory()
    address = own.allocate(1000)
    for wrong in (address + 64, address + 1, 0, 1 << 63):
        own.refused(AnswerStatus.BAD_ARGUMENT, RequestKind.FREE, protocol.NUMBER.pack(wrong))
    own.free(address)
    own.refused(AnswerStatus.BAD_ARGUMENT, RequestKind.FREE, protocol.NUMBER.pack(address))
    assert own.memory() == before


def test_what_a_client_has_is_free_for_the_next_one(own: OpenSession) -> None:
    free = []
    for _ in range(2):  # what the device makes for its first graph it keeps
        x, y = own.allocate(64), own.allocate(64)
        for key in range(3):
            own.graph(node("SQR", dense(y, "f32", 4), dense(x, "f32", 4)), key=key)
        own.session.close()
        own.session = DeviceSession(own.device)
        free.append(own.memory())
    assert free[0] == free[1]
    own.refused(AnswerStatus.BAD_ARGUMENT, RequestKind.FREE, protocol.NUMBER.pack(x))
    own.refused(AnswerStatus.UNKNOWN_GRAPH, RequestKind.RUN, protocol.NUMBER.pack(1))
    _, commands, runs = protocol.COUNTERS.unpack(own.ask(RequestKind.COUNTERS))
    assert (commands, runs) == (0, 0)


def test_ranges_of_a_copy_lie_apart_or_are_refused(own: OpenSession) -> None:
    base = own.allocate(1024)
    values = RANDOM.integers(0, 256, 1024, np.uint8)
    own.write(base, values)
    for target, source, size in ((64, 0, 64), (0, 64, 64), (300, 511, 211), (700, 0, 3), (5, 5, 0)):
        own.ask(RequestKind.COPY, protocol.RANGE.pack(base + target, base + source, size))
        values[target : target + size] = values[source : source + size].copy()
        assert own.read(base, 1024) == values.tobytes()
    for target, source, size in ((63, 0, 64), (0, 63, 64), (9, 9, 1), (300, 510, 211)):
        wrong = protocol.RANGE.pack(base + target, base + source, size)
        own.refused(AnswerStatus.BAD_ARGUMENT, RequestKind.COPY, wrong)
    assert own.read(base, 1024) == values.tobytes()


@pytest.mark.parametrize("name", ["q8_0", "q4_0", "q4_1"])
def test_several_matrices_are_packed_one_by_one_and_nothing_behind_them(own: OpenSession, name: str) -> None:
    rows, depth, count = 21, 96, 3
    row_bytes, tile = {"q8_0": (102, 1088), "q4_0": (54, 576), "q4_1": (60, 640)}[name]
    size = 4 * tile * count  # two tiles down, two along
    base = own.allocate(size + 64)
    raw = RANDOM.integers(0, 256, (count, rows, row_bytes), np.uint8)
    own.write(base, np.full(size + 64, 0xA5, np.uint8))
    own.write(base, raw)
    assert own.blocks(RequestKind.PACK, base, rows, depth, count, name) == b""
    assert own.read(base + size, 64) == 64 * b"\xa5"
    for index in range(count):
        wanted = pack(raw[index], name).data.tobytes()
        assert own.read(base + 4 * tile * index, 4 * tile) == wanted
    assert own.blocks(RequestKind.UNPACK, base, rows, depth, count, name) == raw.tobytes()
    assert own.blocks(RequestKind.UNPACK, base + 4 * tile, 16, depth, 1, name) == raw[1, :16].tobytes()


@pytest.mark.parametrize("kind", [RequestKind.PACK, RequestKind.UNPACK])
def test_blocks_that_cannot_be_are_refused(own: OpenSession, kind: RequestKind) -> None:
    base, region = own.allocate(1 << 16), own.device.capabilities.memory.regions["weight"]
    own.write(base, np.arange(1 << 16, dtype=np.uint32).astype(np.uint8))
    before = own.read(base, 1 << 16)
    tile = 640
    end = region.base + region.size
    large = 1 << 32
    for wrong in (
        (base, 0, 64, 1), (base, 16, 0, 1), (base, 16, 64, 0), (base, 16, 65, 1),
        (base, large, 64, 1), (base, 16, large, 1), (base, 16, 64, large),
        (end - tile + 64, 16, 64, 1), (end - tile, 17, 64, 1), (end - tile, 16, 96, 1),
        (end - tile, 16, 64, 2), (1 << 40, 16, 64, 1), (2**64 - tile, 16, 64, 1),
    ):  # fmt: skip
        own.refused(AnswerStatus.BAD_ARGUMENT, kind, protocol.BLOCKS.pack(b"q4_1", *wrong))
    for name in (b"f32", b"q5_0", b""):
        own.refused(AnswerStatus.BAD_ARGUMENT, kind, protocol.BLOCKS.pack(name, base, 16, 64, 1))
    with pytest.raises(ProtocolError, match="is no text"):
        own.blocks(kind, base, 16, 64, 1, "é")
    assert own.read(base, 1 << 16) == before
    own.blocks(kind, end - tile, 16, 64, 1)


FORMS = {
    RequestKind.MEMORY: 0,
    RequestKind.ALLOCATE: 8,
    RequestKind.FREE: 8,
    RequestKind.PACK: 40,
    RequestKind.UNPACK: 40,
    RequestKind.COPY: 24,
    RequestKind.RUN: 8,
    RequestKind.COUNTERS: 0,
}
"""Bytes of requests that have always as many."""


@pytest.mark.parametrize("kind", FORMS)
def test_a_request_has_its_form(own: OpenSession, kind: RequestKind) -> None:
    for size in {FORMS[kind] - 1, FORMS[kind] + 1, FORMS[kind] + 8, 0} - {FORMS[kind], -1}:
        with pytest.raises(ProtocolError, match=f"^{size} bytes"):
            own.ask(kind, bytes(size))


def test_a_kind_that_there_is_not_breaks_the_protocol(own: OpenSession) -> None:
    for kind in (0, RequestKind.HELLO, RequestKind.OPEN, max(RequestKind) + 1, 2**32 - 1):
        with pytest.raises(ProtocolError, match=f"the kind {kind}$"):
            own.ask(kind)


def test_a_graph_has_its_form(own: OpenSession) -> None:
    x = dense(own.allocate(64), "f32", 4)
    made = node("SQR", x, x).packed()
    own.ask(RequestKind.GRAPH, protocol.GRAPH.pack(0, 0, 0))
    own.ask(RequestKind.GRAPH, protocol.GRAPH.pack(0, 1, 3) + made)
    with_text = b"\xe9" + made[1:]
    without_target = made[: protocol.NODE.size] + bytes(8) + made[protocol.NODE.size + 8 :]
    head = protocol.GRAPH.pack(0, 1, 0)
    for data, words in (
        (b"", "a graph of 0 bytes"),
        (head[:-1], "a graph of 15 bytes"),
        (protocol.GRAPH.pack(0, 1, 4) + made, "with the flags 4"),
        (protocol.GRAPH.pack(0, 1, 1 << 31) + made, "with the flags 2147483648"),
        (head + made + b"\0", "1 bytes behind the last node"),
        (protocol.GRAPH.pack(0, 0, 0) + made, "bytes behind the last node"),
        (head + made[:-1], "in a message that ends"),
        (head + made[: protocol.NODE.size], "ends inside a node"),
        (protocol.GRAPH.pack(0, 2, 0) + made, "ends inside a node"),
        (head + with_text, "is no text"),
        (head + without_target, "without destination"),
    ):
        with pytest.raises(ProtocolError, match=words):
            own.ask(RequestKind.GRAPH, data)


def test_a_node_that_is_asked_for_has_its_form(own: OpenSession) -> None:
    x = dense(own.allocate(64), "f32", 4)
    for count, words in ((10, ""), (11, "a node of 11 sources, at most 10")):
        data = node("VIEW", x, *[x] * count).packed()
        if not words:
            assert own.ask(RequestKind.SUPPORTS, data) == protocol.NUMBER.pack(1)
            data, words = data + bytes(3), "3 bytes behind the node"
        with pytest.raises(ProtocolError, match=words):
            own.ask(RequestKind.SUPPORTS, data)


def test_the_answer_to_open(own: OpenSession) -> None:
    facts, descriptor = own.session.opened()
    size, words = protocol.OPENED.unpack(facts)
    assert (size, words.rstrip(b"\0")) == (512 << 20, b"cmodel, configuration default")
    assert descriptor == own.device.backend.memory.fd  # type: ignore[attr-defined]


def test_a_long_description_is_cut_and_ends_with_a_zero(
    own: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(own.device.backend), "name", "x" * 100)
    _, words = protocol.OPENED.unpack(own.session.opened()[0])
    assert words == 63 * b"x" + b"\0"


# --- graphs that are kept -----------------------------------------------------------------------------------


def scaled(own: OpenSession, factor: float) -> Any:
    """Return a node that scales four ones, which it brings to the device with room for the result."""
    x, y = own.allocate(64), own.allocate(64)
    own.write(x, np.ones(4, np.float32))
    return node("SCALE", dense(y, "f32", 4), dense(x, "f32", 4), parameters={0: factor})


def result(own: OpenSession, made: Any) -> float:
    """Return the first element of a node's result, and clear it."""
    address = made.destination.address
    value = np.frombuffer(own.read(address, 16), np.float32)[0]
    own.write(address, np.zeros(4, np.float32))
    return float(value)


def test_a_key_has_the_graph_that_came_last(own: OpenSession) -> None:
    first, second = scaled(own, 2.0), scaled(own, 3.0)
    own.graph(first, key=7)
    own.graph(second, key=7)
    result(own, first)
    result(own, second)
    own.run(7)
    assert (result(own, first), result(own, second)) == (0, 3)


def test_the_key_0_keeps_nothing(own: OpenSession) -> None:
    own.graph(scaled(own, 2.0), key=0)
    own.refused(AnswerStatus.UNKNOWN_GRAPH, RequestKind.RUN, protocol.NUMBER.pack(0))


@pytest.mark.parametrize("keys", [[0] * 4, [5] * 4, [*range(1, 2 * graphs.MOST_GRAPHS + 1)]])
def test_what_a_graph_took_is_free_when_it_is_forgotten(own: OpenSession, keys: list[int]) -> None:
    made = scaled(own, 2.0)
    own.graph(made)  # the first one has the device make what it needs once
    before = own.memory()
    for key in keys:
        own.graph(made, key=key)
    own.free(own.allocate(64))  # which forgets all of them
    assert own.memory() == before


def test_a_graph_that_cannot_be_recorded_takes_nothing(own: OpenSession) -> None:
    """The node before the one that fails has constants by then."""
    x, y = own.allocate(64), own.allocate(64)
    numbers, others = dense(x, "i32", 2), dense(y, "i32", 2)
    cache, rows = dense(own.allocate(4 * 64), "f32", 16, 4), dense(own.allocate(2 * 64), "f32", 16, 2)
    good = [scaled(own, 2.0), node("CPY", numbers, others, numbers)]
    bad = node("SET_ROWS", cache, rows, numbers, cache)
    own.graph(*good)
    before = own.memory()
    for key in (0, 1, 1, 2):
        with pytest.raises(RefusedError, match="an input that the graph itself writes before"):
            own.graph(*good, bad, key=key)
    assert own.memory() == before
    own.refused(AnswerStatus.UNKNOWN_GRAPH, RequestKind.RUN, protocol.NUMBER.pack(1))


def test_rows_go_to_their_numbers_of_each_run(own: OpenSession) -> None:
    """Also if these are those of the recording again, with other ones between."""
    before = own.memory()
    places = ([0, 1, 2], [5, 3, 1], [0, 1, 2], [4, 5, 6], [5, 3, 1])
    rows, numbers, cache = own.allocate(64), own.allocate(64), own.allocate(8 * 16)
    table = dense(cache, "f32", 4, 8)
    made = node("SET_ROWS", table, dense(rows, "f32", 4, 3), dense(numbers, "i32", 3), table)
    for turn, listed in enumerate(places):
        values = RANDOM.standard_normal((3, 4), dtype=np.float32)
        wanted = np.zeros((8, 4), np.float32)
        wanted[listed] = values
        own.write(cache, np.zeros((8, 4), np.float32))
        own.write(rows, values)
        own.write(numbers, np.array(listed, np.int32))
        if turn:
            own.run(3)
        else:
            own.graph(made, key=3)
        assert own.read(cache, 128) == wanted.tobytes(), listed
        assert turn < 2 or own.memory() == before, "a program that is changed takes no more memory"
        before = own.memory()


def test_a_graph_that_is_recorded_again_refuses_a_nan_as_before(own: OpenSession) -> None:
    x, positions, y = own.allocate(64), own.allocate(64), own.allocate(64)
    rope = {1: 4, 2: 2, 5: 10000.0, 6: 1.0, 8: 1.0}
    made = node("ROPE", dense(y, "f32", 4), dense(x, "f32", 4), dense(positions, "i32", 1), parameters=rope)
    own.write(x, np.ones(4, np.float32))
    own.write(positions, np.zeros(1, np.int32))
    own.graph(made, key=1, flags=GraphFlag.REFUSE_NAN)
    own.write(positions, np.full(1, 50_000, np.int32))  # beyond the table that the recording has made
    own.run(1)
    own.write(x, np.array([1, np.nan, 1, 1], np.float32))
    for _ in range(2):
        own.refused(AnswerStatus.NOT_A_NUMBER, RequestKind.RUN, protocol.NUMBER.pack(1))


NAN_BITS = {
    "f32": (np.uint32, 0x7F800000, 31),
    "f16": (np.uint16, 0x7C00, 15),
    "bf16": (np.uint16, 0x7F80, 15),
}
"""Of each type the bits, those of infinity, and the place of the sign."""


@pytest.mark.parametrize("name", NAN_BITS)
def test_a_nan_is_what_is_beyond_infinity_whatever_its_sign(own: OpenSession, name: str) -> None:
    kind, infinity, sign = NAN_BITS[name]
    x, y = own.allocate(64), own.allocate(64)
    made = node("CPY", dense(y, name, 5), dense(x, name, 5), dense(y, name, 5))
    finite = [0, 1, infinity - 1, infinity, 1 << sign | infinity]
    for extra, negative in itertools.product((0, 1, infinity >> 12 or 1), (0, 1 << sign)):
        own.write(x, np.array([*finite[:4], negative | infinity + extra], kind))
        if not extra:
            own.graph(made, flags=GraphFlag.REFUSE_NAN)
            continue
        with pytest.raises(RefusedError, match="CPY made a NaN") as caught:
            own.graph(made, flags=GraphFlag.REFUSE_NAN)
        assert caught.value.status == AnswerStatus.NOT_A_NUMBER
