"""Neighbouring nodes of graphs that are emitted together: the bits of single nodes, with fewer commands."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from echo_npu import formats
from echo_npu.server import protocol
from echo_npu.server.fusion import FusedNodes, fused
from echo_npu.server.graphs import NO_FLAGS
from echo_npu.server.operations.elementwise import GATES
from echo_npu.server.protocol import AnswerStatus, GraphFlag, GraphNode, RequestKind, TensorFlag
from tests.runtime.server.server_client import AnswerError, ServerClient, node
from tests.runtime.server.test_operations import close, packed_weights, random

RANDOM = np.random.default_rng()


def commands_of(client: ServerClient, nodes: Sequence[GraphNode], flags: GraphFlag = NO_FLAGS) -> int:
    """Return the commands of a graph, which is run twice: the first time may load vector programs."""

    def count() -> int:
        return int(protocol.COUNTERS.unpack(client.ask(RequestKind.COUNTERS))[1])

    client.graph(*nodes, key=1, flags=flags)
    before = count()
    client.run(1)
    return count() - before


def test_a_norm_and_its_weights_are_one_command(client: ServerClient) -> None:
    x, weight, out = client.put(random(3, 64)), client.put(random(64)), client.room((3, 64))
    middle, copy = client.room((3, 64)), client.room((3, 64))
    nodes = [
        node("RMS_NORM", middle, x, parameters={0: 1e-5}),
        node("MUL", out, middle, weight),
        node("CPY", copy, middle),
    ]
    client.graph(*nodes)
    wanted, normed = client.read(out), client.read(middle)
    assert commands_of(client, nodes[:2], GraphFlag.FUSE) == commands_of(client, nodes[:2]) - 1
    close(client.read(out), wanted, 1e-6)
    # A result that somebody else reads is written.
    client.write(middle, np.zeros_like(normed))
    assert commands_of(client, nodes, GraphFlag.FUSE) == commands_of(client, nodes)
    assert np.array_equal(client.read(copy), normed)
    output = replace(middle, flags=TensorFlag.OUTPUT)
    kept = [replace(nodes[0], destination=output), nodes[1]]
    assert commands_of(client, kept, GraphFlag.FUSE) == commands_of(client, kept)


def test_a_sum_is_the_bias_of_a_product_of_one_row(client: ServerClient) -> None:
    blocks = formats.quantize(random(32, 64), "q4_1")
    weights = packed_weights(client, "q4_1", blocks, (1, 1, 32, 64))
    x, residual, middle, out = (
        client.put(random(1, 64)),
        client.put(random(1, 32)),
        *(client.room((1, 32)),) * 2,
    )
    nodes = [node("MUL_MAT", middle, weights, x), node("ADD", out, middle, residual)]
    client.graph(*nodes)
    wanted = client.read(out)
    assert commands_of(client, nodes, GraphFlag.FUSE) == commands_of(client, nodes) - 1
    assert np.array_equal(client.read(out), wanted)
    client.graph(nodes[0], node("ADD", residual, middle, residual), flags=GraphFlag.FUSE)
    assert np.array_equal(client.read(residual), wanted)  # in place: two commands


# --- gated functions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", GATES)
def test_a_gated_function_is_one_command_with_the_bits_of_two(client: ServerClient, op: str) -> None:
    halves = client.put(4 * random(3, 70))
    x, gate = (
        replace(halves, elements=(35, 3, 1, 1), address=halves.address + start) for start in (0, 35 * 4)
    )
    value, wanted, out = (client.room((3, 35)) for _ in range(3))
    client.graph(node(GATES[op], value, x), node("MUL", wanted, value, gate))
    assert commands_of(client, [node(op, out, halves)]) == 1
    assert np.array_equal(client.read(out), client.read(wanted))
    assert commands_of(client, [node(op, out, x, gate)]) == 1
    assert np.array_equal(client.read(out), client.read(wanted))


def gated_layer(client: ServerClient) -> tuple[GraphNode, GraphNode, GraphNode, GraphNode]:
    """Return the products of a gate and of the function's argument, the gated function, and a sum."""
    x = client.put(random(5, 64))
    up, gate = (client.put(random(48, 64)) for _ in range(2))
    wide, narrow, out, total = (client.room((5, 48)) for _ in range(4))
    return (
        node("MUL_MAT", wide, up, x),
        node("MUL_MAT", narrow, gate, x),
        node("SWIGLU", out, narrow, wide),
        node("ADD", total, out, narrow),
    )


def contents(client: ServerClient, nodes: Sequence[GraphNode]) -> list[NDArray[Any]]:
    return [client.read(each.destination) for each in nodes]


@pytest.mark.parametrize("turned", [False, True])
def test_a_function_is_computed_beside_the_product_that_is_its_gate(
    client: ServerClient, turned: bool
) -> None:
    up, gate, gated, total = gated_layer(client)
    nodes = [gate, up, gated, total] if turned else [up, gate, gated, total]
    assert commands_of(client, nodes) == 4
    wanted = contents(client, nodes)
    for each in nodes:
        client.write(each.destination, np.zeros((1, 1, 5, 48), np.float32))
    assert commands_of(client, nodes, GraphFlag.FUSE) == 5
    for got, expected in zip(contents(client, nodes), wanted, strict=True):
        assert np.array_equal(got, expected)


def test_nodes_that_are_emitted_together_tell_all_that_they_write(client: ServerClient) -> None:
    up, gate, gated, _ = gated_layer(client)
    (made,) = fused([up, gate, gated])
    assert isinstance(made, FusedNodes)
    assert {each.address for each in made.written} == {each.destination.address for each in (up, gate, gated)}


def test_products_that_depend_on_each_other_keep_their_order(client: ServerClient) -> None:
    up, gate, gated, _ = gated_layer(client)
    square = client.put(random(48, 48))
    nodes = [up, replace(gate, sources=(square, up.destination)), gated]
    assert fused(nodes) == nodes
    client.graph(*nodes)
    wanted = client.read(gated.destination)
    client.graph(*nodes, flags=GraphFlag.FUSE)
    assert np.array_equal(client.read(gated.destination), wanted)
    over = replace(up.destination, address=gate.destination.address + 4 * 48)
    nodes = [replace(up, destination=over), gate, replace(gated, sources=(gate.destination, over))]
    assert fused(nodes) == nodes


# --- rotations into a cache ---------------------------------------------------------------------------------

HEADS, WIDTH, PLACES = 3, 16, 40


class Cache:
    """A rotation of some tokens, and SET_ROWS that brings them into a cache."""

    def __init__(
        self,
        client: ServerClient,
        tokens: int,
        kind: type[np.generic] = np.float16,
        mode: int = 0,
        turned: int = WIDTH,
    ) -> None:
        self.client = client
        self.x = client.put(random(tokens, HEADS, WIDTH))
        self.positions = client.put(np.arange(tokens, dtype=np.int32))
        self.numbers = client.put(np.arange(tokens, dtype=np.int64))
        self.empty = random(PLACES, HEADS * WIDTH).astype(kind)
        self.cache = client.put(self.empty)
        self.middle = client.room((tokens, HEADS, WIDTH))
        self.rows = replace(
            self.middle,
            elements=(HEADS * WIDTH, tokens, 1, 1),
            steps=(4, *(4 * HEADS * WIDTH,) * 1, *(4 * HEADS * WIDTH * tokens,) * 2),
        )
        words: dict[int, float | int] = {1: turned, 2: mode, 5: 10000.0, 6: 1.0, 8: 1.0}
        self.nodes = [
            node("ROPE", self.middle, self.x, self.positions, parameters=words),
            node("SET_ROWS", self.cache, self.rows, self.numbers, self.cache),
        ]

    def place(self, numbers: Sequence[int], positions: Sequence[int]) -> None:
        """Say where the tokens go, and at which positions they are; forget the cache."""
        self.client.write(self.numbers, np.array(numbers))
        self.client.write(self.positions, np.array(positions))
        self.client.write(self.cache, self.empty)

    def bits(self) -> bytes:
        return self.client.read(self.cache).tobytes()


@pytest.mark.parametrize("mode", [0, 2])
@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_a_rotation_goes_to_the_rows_of_a_cache(
    client: ServerClient, kind: type[np.generic], mode: int
) -> None:
    single = Cache(client, 1, kind, mode)
    single.place([7], [3])
    apart = commands_of(client, single.nodes)
    wanted = single.bits()
    assert wanted != single.empty.tobytes()
    single.place([7], [3])
    client.write(single.middle, np.zeros((1, 1, HEADS, WIDTH)))
    assert commands_of(client, single.nodes, GraphFlag.FUSE) == apart - 1
    assert single.bits() == wanted
    assert not client.read(single.middle).any()


@pytest.mark.parametrize("mode", [0, 2])
def test_a_rotation_into_a_cache_is_run_again_at_other_places(client: ServerClient, mode: int) -> None:
    cache = Cache(client, 5, mode=mode)
    lists = [sorted(RANDOM.choice(PLACES, 5, replace=False).tolist()) for _ in range(2)]
    lists += [[1, 2, 3, 4, 5], [30, 31, 32, 33, 34], [9, 7, 5, 3, 1], [4, 4, 4, 8, 8], [0, 2, 4, 6, 39]]
    for index, numbers in enumerate(lists):
        values = random(1, 5, HEADS, WIDTH)
        positions = RANDOM.integers(0, 60 << index, 5).tolist()
        client.write(cache.x, values)
        cache.place(numbers, positions)
        client.graph(*cache.nodes)
        wanted = cache.bits()
        cache.place(numbers, positions)
        if index:
            client.run(9)
        else:
            client.graph(*cache.nodes, key=9, flags=GraphFlag.FUSE)
        assert cache.bits() == wanted, numbers


def test_a_rotation_that_others_read_is_written(client: ServerClient) -> None:
    cache = Cache(client, 2)
    copy = client.room((2, HEADS, WIDTH))
    rope, rows = cache.nodes
    second = [rope, rows, node("CPY", copy, cache.middle)]
    output = [replace(rope, destination=replace(cache.middle, flags=TensorFlag.OUTPUT)), rows]
    for nodes in (second, output):
        assert fused(nodes) == nodes
        client.write(cache.middle, np.zeros((1, 2, HEADS, WIDTH)))
        client.graph(*nodes, flags=GraphFlag.FUSE)
        assert client.read(cache.middle).any()
    assert np.array_equal(client.read(copy), client.read(cache.middle))
    # What is written over before it is read is no longer the rotation.
    over = [rope, rows, node("SQR", cache.rows, cache.rows), node("CPY", copy, cache.middle)]
    assert fused(over) == over
    new = [rope, rows, node("SQR", cache.middle, cache.x), node("CPY", copy, cache.middle)]
    assert len(fused(new)) == 3


@pytest.mark.parametrize(
    "what", ["part", "half a row", "other rows", "in its own argument", "in its result", "index", "type"]
)
def test_other_rotations_are_not_fused(client: ServerClient, what: str) -> None:
    cache = Cache(client, 2, turned=WIDTH // 2 if what == "part" else WIDTH)
    rope, rows = cache.nodes
    if what == "half a row":
        few = replace(cache.rows, elements=(WIDTH, 2 * HEADS, 1, 1), steps=(4, 4 * WIDTH, 0, 0))
        rows = replace(rows, sources=(few, *rows.sources[1:]))
    if what == "other rows":
        rows = replace(rows, sources=(replace(cache.rows, address=cache.rows.address + 4), *rows.sources[1:]))
    if what == "in its own argument":
        over = replace(rows.destination, address=cache.x.address)
        rows = replace(rows, destination=over)
    if what == "in its result":
        rows = replace(rows, destination=replace(rows.destination, address=cache.middle.address))
    if what == "index":
        over = replace(cache.numbers, address=cache.middle.address)
        rows = replace(rows, sources=(rows.sources[0], over, rows.sources[2]))
    if what == "type":
        rows = replace(rows, destination=replace(rows.destination, type="bf16"))
    assert len(fused(cache.nodes)) == (2 if what == "part" else 1)
    assert fused([rope, rows]) == [rope, rows]


def test_a_row_that_there_is_not_is_an_error(client: ServerClient) -> None:
    cache = Cache(client, 1)
    for number in (-1, PLACES):
        cache.place([number], [0])
        with pytest.raises(AnswerError, match=f"SET_ROWS: {number}") as caught:
            client.graph(*cache.nodes, flags=GraphFlag.FUSE)
        assert caught.value.status == AnswerStatus.BAD_ARGUMENT
    assert cache.bits() == cache.empty.tobytes()
