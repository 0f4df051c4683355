"""Graphs of single nodes on the functional model, against numpy."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from echo_npu import formats
from echo_npu.server import protocol
from echo_npu.server.operations import attention
from echo_npu.server.protocol import AnswerStatus, GraphFlag, GraphTensor, RequestKind, TensorFlag
from tests.runtime.server.server_client import AnswerError, ServerClient, node

RANDOM = np.random.default_rng(7)


def random(*shape: int) -> NDArray[np.float32]:
    return RANDOM.standard_normal(shape, dtype=np.float32)


def result(client: ServerClient, op: str, shape: tuple[int, ...], *sources: Any, **more: Any) -> NDArray[Any]:
    """Return the result of one node; what is no tensor yet is brought to the device."""
    given = [each if each is None or isinstance(each, GraphTensor) else client.put(each) for each in sources]
    target = client.room(shape, more.pop("dtype", np.float32))
    made = node(op, target, *given, parameters=more.get("parameters"))
    assert client.supports(made)
    client.graph(made)
    return client.read(target).reshape(shape)


def close(got: NDArray[Any], wanted: NDArray[Any], bound: float = 1e-5) -> None:
    assert got.shape == wanted.shape
    assert np.abs(got - wanted).max() <= bound * max(1.0, np.abs(wanted).max())


def test_a_product_with_groups_and_batches(client: ServerClient) -> None:
    weights, rows = random(2, 2, 5, 40), random(4, 6, 3, 40)
    wide = weights.repeat(2, axis=0).repeat(3, axis=1)
    close(result(client, "MUL_MAT", (4, 6, 3, 5), weights, rows), rows @ wide.swapaxes(-1, -2))


def test_a_product_with_float16_takes_the_rows_as_they_are(client: ServerClient) -> None:
    weights, rows = random(5, 40).astype(np.float16), random(3, 40)
    close(result(client, "MUL_MAT", (3, 5), weights, rows), rows @ weights.T.astype(np.float32))
    halves = rows.astype(np.float16)
    wanted = halves.astype(np.float32) @ weights.T.astype(np.float32)
    close(result(client, "MUL_MAT", (3, 5), weights, halves), wanted)


def test_a_product_of_transposed_rows(client: ServerClient) -> None:
    weights, rows = random(5, 8, 40), random(5, 3, 40)
    stored = client.put(np.ascontiguousarray(rows.transpose(1, 0, 2)))
    steps = (stored.steps[0], stored.steps[2], stored.steps[1], stored.steps[3])
    view = GraphTensor("f32", TensorFlag.INPUT, (40, 3, 5, 1), steps, stored.address)
    close(result(client, "MUL_MAT", (5, 3, 8), weights, view), rows @ weights.swapaxes(-1, -2))


@pytest.mark.parametrize("name", sorted(formats.FORMATS))
def test_a_product_with_weights_in_blocks(client: ServerClient, name: str) -> None:
    matrices = [formats.quantize(random(20, 96), name) for _ in range(2)]
    form = formats.named_format(name)
    size = form.packed_bytes(20, 96)
    address = client.number(RequestKind.ALLOCATE, 2 * size)
    raw = np.concatenate([each.reshape(-1) for each in matrices])
    client.memory[address : address + raw.size] = raw
    request = protocol.BLOCKS.pack(name.encode(), address, 20, 96, 2)
    client.ask(RequestKind.PACK, request)
    assert client.ask(RequestKind.UNPACK, request) == raw.tobytes()
    row = form.row_bytes(96)
    steps = (form.block_bytes, row, 20 * row, 40 * row)
    weights = GraphTensor(name, TensorFlag.INPUT, (96, 20, 2, 1), steps, address)
    rows = random(4, 3, 96)
    values = np.stack([formats.dequantize(each, name) for each in matrices])
    wanted = rows @ values.repeat(2, axis=0).swapaxes(-1, -2)
    close(result(client, "MUL_MAT", (4, 3, 20), weights, rows), wanted, 1e-4)


@pytest.mark.parametrize(("op", "function"), [("ADD", np.add), ("SUB", np.subtract), ("MUL", np.multiply)])
def test_a_second_operand_repeats(client: ServerClient, op: str, function: Any) -> None:
    left, right = random(4, 6, 5), random(2, 1, 5)
    close(result(client, op, left.shape, left, right), function(left, np.tile(right, (2, 1, 1))))


def test_a_quotient_in_float16(client: ServerClient) -> None:
    left, right = random(3, 5).astype(np.float16), (1 + random(3, 5) ** 2).astype(np.float16)
    got = result(client, "DIV", left.shape, left, right, dtype=np.float16)
    close(got.astype(np.float32), (left.astype(np.float32) / right), 1e-3)


def sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    return 1 / (1 + np.exp(-x))


FUNCTIONS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "SILU": lambda x: x * sigmoid(x),
    "SGN": np.sign,
    "ELU": lambda x: np.where(x > 0, x, np.expm1(x)),
    "GELU_QUICK": lambda x: x * sigmoid(1.702 * x),
    "HARDSWISH": lambda x: x * np.clip((x + 3) / 6, 0, 1),
    "SOFTPLUS": lambda x: np.log1p(np.exp(x)),
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "TRUNC": np.trunc,
    "ROUND": lambda x: np.trunc(x + np.copysign(0.5, x)),
    "SQR": np.square,
}


@pytest.mark.parametrize("op", FUNCTIONS)
def test_a_function(client: ServerClient, op: str) -> None:
    x = 3 * random(3, 7)
    close(result(client, op, x.shape, x), FUNCTIONS[op](x))


def test_whole_numbers_too_large_for_integers_stay(client: ServerClient) -> None:
    x = np.array([[2.0**35, -(2.0**35), 8388609.0, -2.5, 2.5]], np.float32)
    assert np.array_equal(result(client, "ROUND", x.shape, x), [[2.0**35, -(2.0**35), 8388609.0, -3.0, 3.0]])


def test_scale_and_bias(client: ServerClient) -> None:
    x = random(3, 7)
    close(result(client, "SCALE", x.shape, x, parameters={0: 2.5, 1: 0.5}), 2.5 * x + 0.5)


@pytest.mark.parametrize("swapped", [0, 1])
def test_a_gate_in_the_other_half(client: ServerClient, swapped: int) -> None:
    x = random(4, 10)
    a, b = (x[:, 5:], x[:, :5]) if swapped else (x[:, :5], x[:, 5:])
    close(result(client, "SWIGLU", (4, 5), x, parameters={1: swapped}), a * sigmoid(a) * b)


def test_norms(client: ServerClient) -> None:
    x = random(4, 33)
    rms = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    close(result(client, "RMS_NORM", x.shape, x, parameters={0: 1e-5}), rms)
    centred = x - x.mean(-1, keepdims=True)
    norm = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    close(result(client, "NORM", x.shape, x, parameters={0: 1e-5}), norm)


def softmax(scores: NDArray[Any]) -> NDArray[Any]:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    shares: NDArray[Any] = powers / powers.sum(-1, keepdims=True)
    return shares


@pytest.mark.parametrize("bias", [0.0, 8.0])
def test_a_masked_softmax(client: ServerClient, bias: float) -> None:
    scores, mask = random(2, 4, 3, 9), random(1, 2, 5, 9).astype(np.float16)
    slopes = 2.0 ** (-bias / 4 * np.arange(1, 5)) if bias else np.ones(4)
    added = np.tile(mask[:, :, :3].astype(np.float32), (1, 2, 1, 1)) * slopes[:, None, None]
    got = result(client, "SOFT_MAX", scores.shape, scores, mask, parameters={0: 0.5, 1: bias})
    close(got, softmax(0.5 * scores + added))


@pytest.mark.parametrize("mode", [0, 2])
def test_a_rotation_of_some_dimensions(client: ServerClient, mode: int) -> None:
    x, places = random(5, 3, 12), np.array([7, 0, 3, 99, 2], np.int32)
    factors = np.array([1.0, 2.0, 1.5, 3.0], np.float32)
    words = {1: 8, 2: mode, 4: 128, 5: 10000.0, 6: 0.5, 8: 1.0, 9: 32.0, 10: 1.0}
    got = result(client, "ROPE", x.shape, x, places, factors, parameters=words)
    angles = 0.5 * places[:, None, None] * 10000.0 ** (-np.arange(4) / 4) / factors
    first, second = (x[..., :8:2], x[..., 1:8:2]) if mode == 0 else (x[..., :4], x[..., 4:8])
    turned = (
        first * np.cos(angles) - second * np.sin(angles),
        second * np.cos(angles) + first * np.sin(angles),
    )
    wanted = x.copy()
    if mode == 0:
        wanted[..., :8:2], wanted[..., 1:8:2] = turned
    else:
        wanted[..., :4], wanted[..., 4:8] = turned
    close(got, wanted)


@pytest.mark.parametrize("share", [8, 1 << 20, 200_000], ids=["at once", "each token", "two tokens"])
@pytest.mark.parametrize("name", ["float32", "float16"])
def test_attention_of_grouped_heads(
    client: ServerClient, name: str, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all tokens at once, and with as many as scores have room for."""
    monkeypatch.setattr(attention, "SHARE_OF_MEMORY", share)
    q, k, v = random(2, 4, 3, 16), random(2, 2, 20, 16).astype(name), random(2, 2, 20, 8).astype(name)
    mask = np.where(RANDOM.random((1, 1, 3, 20)) < 0.3, -np.inf, 0).astype(np.float16)
    mask[..., 0] = 0
    got = result(client, "FLASH_ATTN_EXT", (2, 3, 4, 8), q, k, v, mask, parameters={0: 0.25})
    scores = 0.25 * q @ k.astype(np.float32).repeat(2, axis=1).swapaxes(-1, -2) + mask.astype(np.float32)
    wanted = (softmax(scores) @ v.astype(np.float32).repeat(2, axis=1)).swapaxes(1, 2)
    close(got, wanted, 1e-5)


def test_copies_convert_and_reshape(client: ServerClient) -> None:
    x = random(4, 6)
    stored = client.put(x)
    turned = GraphTensor("f32", TensorFlag.INPUT, (4, 6, 1, 1), (24, 4, 96, 96), stored.address)
    assert np.array_equal(result(client, "CONT", (6, 4), turned), x.T)
    assert np.array_equal(result(client, "CPY", (24,), turned), x.T.reshape(-1))
    halves = result(client, "CPY", (6, 4), turned, dtype=np.float16)
    assert np.array_equal(halves, x.T.astype(np.float16))


def test_rows_by_their_numbers(client: ServerClient) -> None:
    table, numbers = random(2, 9, 5), np.array([[3, 3, 0], [8, 1, 2]], np.int32)
    wanted = np.stack([table[i][numbers[i]] for i in range(2)])
    assert np.array_equal(result(client, "GET_ROWS", (2, 3, 5), table, numbers), wanted)


@pytest.mark.parametrize("name", sorted(formats.FORMATS))
def test_rows_of_a_table_in_blocks(client: ServerClient, name: str) -> None:
    form, numbers = formats.named_format(name), np.array([[17, 3], [0, 19]], np.int32)
    blocks = [formats.quantize(random(20, 96), name) for _ in range(2)]
    address = client.number(RequestKind.ALLOCATE, 2 * form.packed_bytes(20, 96))
    raw = np.concatenate([each.reshape(-1) for each in blocks])
    client.memory[address : address + raw.size] = raw
    client.ask(RequestKind.PACK, protocol.BLOCKS.pack(name.encode(), address, 20, 96, 2))
    row = form.row_bytes(96)
    steps = (form.block_bytes, row, 20 * row, 40 * row)
    table = GraphTensor(name, TensorFlag.INPUT, (96, 20, 2, 1), steps, address)
    index, out = client.put(numbers), client.room((2, 2, 96))
    values = np.stack([formats.dequantize(each, name) for each in blocks])
    client.graph(node("GET_ROWS", out, table, index), key=3)
    close(client.read(out)[0], np.stack([values[i][numbers[i]] for i in range(2)]), 1e-6)
    client.write(index, numbers[::-1])
    client.run(3)
    close(client.read(out)[0], np.stack([values[i][numbers[1 - i]] for i in range(2)]), 1e-6)


def test_concat_and_repeat(client: ServerClient) -> None:
    left, right = random(2, 3, 4), random(2, 5, 4)
    got = result(client, "CONCAT", (2, 8, 4), left, right, parameters={0: 1})
    assert np.array_equal(got, np.concatenate([left, right], axis=1))
    assert np.array_equal(result(client, "REPEAT", (4, 3, 8), left), np.tile(left, (2, 1, 2)))


def test_reductions(client: ServerClient) -> None:
    x = random(3, 4, 20)
    close(result(client, "SUM_ROWS", (3, 4, 1), x), x.sum(-1, keepdims=True))
    close(result(client, "MEAN", (3, 4, 1), x), x.mean(-1, keepdims=True))
    close(result(client, "SUM", (1,), x), x.sum().reshape(1), 1e-4)
    assert np.array_equal(result(client, "ARGMAX", (4,), x[0], dtype=np.int32), x[0].argmax(-1))


def test_sinks_take_a_share(client: ServerClient) -> None:
    scores, sinks = random(2, 3, 4, 9), random(3)
    wide = np.concatenate([scores, np.broadcast_to(sinks[:, None, None], (2, 3, 4, 1))], axis=-1)
    got = result(client, "SOFT_MAX", scores.shape, scores, None, sinks, parameters={0: 1.0})
    close(got, softmax(wide)[..., :-1])


def test_a_capped_attention(client: ServerClient) -> None:
    q, k, v = random(2, 3, 16), random(2, 20, 16), random(2, 20, 8)
    got = result(client, "FLASH_ATTN_EXT", (1, 3, 2, 8), q, k, v, parameters={0: 0.25, 2: 5.0})
    shares = softmax(5 * np.tanh(0.25 * q @ k.swapaxes(-1, -2) / 5))
    close(got[0], (shares @ v).swapaxes(0, 1))


def test_a_rotation_by_sections(client: ServerClient) -> None:
    x, places = random(3, 2, 8), RANDOM.integers(0, 50, (4, 3)).astype(np.int32)
    words = {1: 8, 2: 8, 5: 10000.0, 6: 1.0, 8: 1.0, 11: 1, 12: 2, 13: 1}
    got = result(client, "ROPE", x.shape, x, places.reshape(-1), parameters=words)
    angles = places[[0, 1, 1, 2]].T * 10000.0 ** (-np.arange(4) / 4)
    cosine, sine = np.cos(angles)[:, None], np.sin(angles)[:, None]
    a, b = x[..., :4], x[..., 4:]
    close(got, np.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=-1))


@pytest.mark.parametrize("name", ["f32", *sorted(formats.FORMATS)])
def test_weights_of_the_experts_that_a_list_picks(client: ServerClient, name: str) -> None:
    weights, rows = random(4, 20, 64), random(3, 2, 64)
    numbers = np.array([[0, 3], [2, 2], [1, 0]], np.int32)
    if name == "f32":
        held, values = client.put(weights), weights
    else:
        form = formats.named_format(name)
        blocks = [formats.quantize(each, name) for each in weights]
        values = np.stack([formats.dequantize(each, name) for each in blocks])
        address = client.number(RequestKind.ALLOCATE, 4 * form.packed_bytes(20, 64))
        raw = np.concatenate([each.reshape(-1) for each in blocks])
        client.memory[address : address + raw.size] = raw
        client.ask(RequestKind.PACK, protocol.BLOCKS.pack(name.encode(), address, 20, 64, 4))
        row = form.row_bytes(64)
        steps = (form.block_bytes, row, 20 * row, 80 * row)
        held = GraphTensor(name, TensorFlag.INPUT, (64, 20, 4, 1), steps, address)
    wanted = np.einsum("tunk,tuk->tun", values[numbers], rows)
    close(result(client, "MUL_MAT_ID", (3, 2, 20), held, rows, numbers), wanted, 1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_experts_that_are_a_part_of_larger_ones(client: ServerClient, dtype: type[np.generic]) -> None:
    weights, rows = random(4, 64, 64).astype(dtype), random(16, 2, 64)
    numbers = RANDOM.integers(0, 4, (16, 2)).astype(np.int32)
    held = replace(client.put(weights), elements=(64, 8, 4, 1))
    wanted = np.einsum("tunk,tuk->tun", weights[:, :8].astype(np.float32)[numbers], rows)
    close(result(client, "MUL_MAT_ID", (16, 2, 8), held, rows, numbers), wanted, 3e-3)


def test_windows(client: ServerClient) -> None:
    x = random(2, 3, 6, 7)
    padded = np.zeros((2, 3, 6 + 3, 7 + 3), np.float32)
    padded[:, :, 1:7, 0:7] = x
    got = result(client, "PAD", (2, 3, 9, 10), x, parameters={1: 3, 2: 1, 3: 2})
    assert np.array_equal(got, padded)
    views = np.lib.stride_tricks.sliding_window_view(x, (2, 3), axis=(2, 3))[:, :, ::2, ::2]
    rows = views.transpose(0, 2, 3, 1, 4, 5).reshape(2, 3, 3, 18)
    kernel = np.zeros((4, 3, 2, 3), np.float32)
    words = {0: 2, 1: 2, 4: 1, 5: 1, 6: 1}
    assert np.array_equal(result(client, "IM2COL", rows.shape, kernel, x, parameters=words), rows)
    for kind, function in ((0, np.max), (1, np.mean)):
        pooled = function(views, axis=(-1, -2))
        words = {0: kind, 1: 3, 2: 2, 3: 2, 4: 2}
        close(result(client, "POOL_2D", pooled.shape, x, parameters=words), pooled)


def test_a_loss_and_its_gradient(client: ServerClient) -> None:
    logits, shares, gradient = random(5, 9), softmax(random(5, 9)), random(1)
    wanted = -(shares * np.log(softmax(logits))).sum() / 5
    close(result(client, "CROSS_ENTROPY_LOSS", (1,), logits, shares), np.reshape(wanted, 1))
    got = result(client, "CROSS_ENTROPY_LOSS_BACK", (5, 9), gradient, logits, shares)
    close(got, (softmax(logits) - shares) * gradient / 5)


def test_a_step_of_adamw_moves_its_averages(client: ServerClient) -> None:
    weights, gradient, mean, square = random(3, 8), random(3, 8), random(3, 8), random(3, 8) ** 2
    rate, beta1, beta2, eps, decay, scale1, scale2 = numbers = (0.01, 0.9, 0.99, 1e-6, 0.1, 1.5, 2.5)
    held = [client.put(each) for each in (weights, gradient, mean, square, np.array(numbers, np.float32))]
    client.graph(node("OPT_STEP_ADAMW", held[0], *held))
    mean, square = mean * beta1 + gradient * (1 - beta1), square * beta2 + gradient**2 * (1 - beta2)
    moved = weights * (1 - rate * decay) - rate * mean * scale1 / (np.sqrt(square * scale2) + eps)
    for tensor, exact in ((held[0], moved), (held[2], mean), (held[3], square)):
        close(client.read(tensor).reshape(3, 8), exact)


def test_an_empty_result_needs_no_command(client: ServerClient) -> None:
    x = client.put(random(3, 4))
    nothing = GraphTensor("f32", TensorFlag(0), (4, 0, 1, 1), (4, 16, 16, 16), x.address)
    client.graph(node("SILU", nothing, nothing))


@pytest.mark.parametrize(
    ("op", "kinds"),
    [("MUL_MAT", ("f32", "i32")), ("SILU", ("i32",)), ("FFT", ("f32",)), ("ROPE", ("f32", "i64"))],
)
def test_what_is_not_supported_is_refused(client: ServerClient, op: str, kinds: tuple[str, ...]) -> None:
    x = client.put(random(3, 4))
    sources = [GraphTensor(kind, x.flags, x.elements, x.steps, x.address) for kind in kinds]
    made = node(op, x, *sources)
    assert not client.supports(made)
    with pytest.raises(AnswerError) as caught:
        client.graph(made)
    assert caught.value.status == protocol.AnswerStatus.NOT_SUPPORTED


@pytest.mark.parametrize(("keys", "taken"), [(1000, True), (1 << 25, False)])
def test_attention_to_more_than_memory_has_room_for_is_refused(
    client: ServerClient, keys: int, taken: bool
) -> None:
    q = client.put(random(1, 1, 3, 8))
    same = replace(q, elements=(8, keys, 1, 1), steps=(4, 0, 0, 0))  # a key as often as it takes
    made = node("FLASH_ATTN_EXT", client.room((1, 3, 1, 8)), q, same, same, parameters={0: 1.0})
    assert client.supports(made) == taken


def test_a_sum_of_rows_with_gaps_is_refused(client: ServerClient) -> None:
    x = client.put(random(6, 5))
    turned = replace(x, elements=(*x.elements[1::-1], 1, 1), steps=(*x.steps[1::-1], *x.steps[2:]))
    assert client.supports(node("SUM_ROWS", client.room((5, 1)), turned))
    assert not client.supports(node("SUM", client.room((1,)), turned))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint16])
def test_a_nan_that_a_graph_leaves_is_refused_if_the_client_wishes(
    client: ServerClient, dtype: type[np.generic]
) -> None:
    x, y, z = client.put(np.array([4, 1], np.float32)), client.room((2,), dtype), client.room((2,))
    nodes = node("SQRT", z, x), node("CPY", y, z)
    client.graph(*nodes, key=1, flags=GraphFlag.REFUSE_NAN)
    client.write(x, np.array([4, -1], np.float32))
    with pytest.raises(AnswerError, match="CPY made a NaN") as refused:
        client.run(1)
    assert refused.value.status == AnswerStatus.NOT_A_NUMBER
    client.graph(*nodes)
    # A result that is read or written over is none of what the graph leaves.
    client.graph(*nodes, node("SQR", y, client.put(np.zeros(2, np.float32))), flags=GraphFlag.REFUSE_NAN)


def packed_weights(
    client: ServerClient, name: str, blocks: NDArray[np.uint8], shape: tuple[int, int, int, int]
) -> GraphTensor:
    """Bring blocks [..., row bytes] of a tensor of numpy's shape to the device, in tiles."""
    form, (outer, inner, rows, depth) = formats.named_format(name), shape
    address = client.number(RequestKind.ALLOCATE, outer * inner * form.packed_bytes(rows, depth))
    client.memory[address : address + blocks.size] = blocks.reshape(-1)
    client.ask(RequestKind.PACK, protocol.BLOCKS.pack(name.encode(), address, rows, depth, outer * inner))
    row = form.row_bytes(depth)
    steps = (form.block_bytes, row, rows * row, inner * rows * row)
    return GraphTensor(name, TensorFlag.INPUT, shape[::-1], steps, address)


def unpacked(client: ServerClient, tensor: GraphTensor) -> NDArray[np.uint8]:
    depth, rows, inner, outer = tensor.elements
    request = protocol.BLOCKS.pack(tensor.type.encode(), tensor.address, rows, depth, inner * outer)
    return np.frombuffer(client.ask(RequestKind.UNPACK, request), np.uint8)


def part(
    tensor: GraphTensor, elements: tuple[int, ...], steps: tuple[int, ...], first: int = 0
) -> GraphTensor:
    """Return a part of a tensor in blocks whose elements and steps begin with the rows, from one of them."""
    offset = first * tensor.steps[1]
    return GraphTensor(
        tensor.type, tensor.flags, (tensor.elements[0], *elements), (tensor.steps[0], *steps),
        tensor.address + offset, tensor.elements, offset,
    )  # fmt: skip


def awkward(rows: int, depth: int) -> NDArray[np.float32]:
    """Values with blocks of zeros, of both zeros, of equal extremes, of halves, tiny and large ones."""
    values = random(rows, depth // 32, 32)
    values[0, 0] = 0
    values[0, 1] = np.copysign(0.0, random(32))
    values[1, 0] = np.resize([-1, 1, 0.5], 32)
    values[1, 1] = np.resize([127, 0.5, -0.5, 1.5, 63.5, -2.5], 32)
    values[2, 0] *= 1e-36
    values[2, 1] *= 1e4
    return values.reshape(rows, depth)


def quantised(values: NDArray[np.float32], name: str) -> NDArray[np.uint8]:
    """Return the blocks that ggml's code for AVX makes of rows; in four bits it has the reference alone."""
    if name != "q8_0":
        return formats.quantize(values, name)
    blocks = values.reshape(-1, 32)
    most = np.abs(blocks).max(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        inverse = np.where(most == 0, np.float32(0), np.float32(127) / most)
    scales = (most / np.float32(127)).astype(np.float16)
    quants = np.rint(blocks * inverse).astype(np.int8)
    return np.concatenate([scales.view(np.uint8), quants.view(np.uint8)], axis=1).reshape(len(values), -1)


@pytest.mark.parametrize("name", sorted(formats.FORMATS))
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rows_are_quantised_to_the_bit(client: ServerClient, name: str, dtype: type[np.generic]) -> None:
    values = awkward(40, 96).astype(dtype)
    if name == "q4_1":
        # Of zeros of both signs the device takes the negative one as the minimum.
        values[values == 0] = 0
        values[0] = np.copysign(values[0], -1)
    exact = quantised(values.astype(np.float32), name)
    target = packed_weights(client, name, np.zeros_like(exact), (1, 1, 40, 96))
    client.graph(node("CPY", target, client.put(values)))
    assert np.array_equal(unpacked(client, target).reshape(exact.shape), exact)
    numbers = np.array([33, 2, 17, 16, 15, 2], np.int64)
    index, rows = client.put(numbers), client.put(values[:6])
    client.graph(node("SET_ROWS", target, rows, index), key=1)
    for each in (numbers, numbers[::-1]):
        client.write(index, each)
        client.run(1)
        for place, number in enumerate(each):
            exact[number] = quantised(values[place : place + 1].astype(np.float32), name)[0]
        assert np.array_equal(unpacked(client, target).reshape(exact.shape), exact)


@pytest.mark.parametrize("name", sorted(formats.FORMATS))
def test_parts_of_tensors_in_blocks(client: ServerClient, name: str) -> None:
    values = random(3, 20, 96)
    blocks = formats.quantize(values.reshape(60, 96), name).reshape(3, 20, -1)
    exact = formats.dequantize(blocks.reshape(60, -1), name).reshape(3, 20, 96)
    whole = packed_weights(client, name, blocks, (1, 3, 20, 96))
    row, matrix = whole.steps[1:3]
    turned = part(whole, (3, 20, 1), (matrix, row, 3 * matrix))
    rows = random(20, 2, 96)
    close(result(client, "MUL_MAT", (20, 2, 3), turned, rows), rows @ exact.transpose(1, 2, 0), 1e-4)
    below = part(whole, (14, 3, 1), (row, matrix, 3 * matrix), 3)
    numbers = np.array([[0, 13], [5, 1], [2, 2]], np.int32)
    got = result(client, "GET_ROWS", (3, 2, 96), below, numbers)
    assert np.array_equal(got, np.stack([exact[i, 3 + numbers[i]] for i in range(3)]))
    assert np.array_equal(result(client, "CPY", (1, 20, 3, 96), turned)[0], exact.swapaxes(0, 1))
    target = packed_weights(client, name, np.zeros_like(blocks), (3, 5, 4, 96))
    client.graph(node("CPY", target, turned))
    assert np.array_equal(unpacked(client, target), blocks.swapaxes(0, 1).reshape(-1))


def test_a_part_of_rows_in_blocks_is_not_supported(client: ServerClient) -> None:
    whole = packed_weights(client, "q8_0", np.zeros((4, 68), np.uint8), (1, 1, 4, 64))
    half = GraphTensor(
        "q8_0", whole.flags, (32, 4, 1, 1), whole.steps, whole.address + 34, whole.elements, 34
    )
    target = client.room((4, 32))
    assert not client.supports(node("CPY", target, half))
    assert not client.supports(node("CONCAT", whole, whole, whole))
