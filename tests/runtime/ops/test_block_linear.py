"""Products with weights in blocks, and BlockLinear: results, number of commands, refusals."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu import BlockLinear, Device, DeviceTensor, Opcode, PackedTensor, formats
from echo_npu.formats import FORMATS
from echo_npu.reference.blocks import block_product
from tests.refusals import Error, Words, refuses
from tests.runtime.ops.test_matmul import commands, normal

N, K = 24, 96
each_format = pytest.mark.parametrize("name", FORMATS)


@pytest.fixture
def npu() -> Iterator[Device]:
    """The configuration whose engine takes weights in blocks."""
    with echo_npu.open("cmodel", config="default") as device:
        yield device


def expected(x: np.ndarray, packed: formats.PackedMatrix) -> np.ndarray:
    parts = packed.parts()
    rows = block_product(x.reshape(-1, x.shape[-1]), parts.q, parts.d, parts.m)
    return rows.reshape(*x.shape[:-1], packed.columns)


@each_format
@pytest.mark.parametrize("leading", [(), (1,), (5,), (2, 3), (2, 1, 3)])
def test_product_is_the_stated_one(npu: Device, name: str, leading: tuple[int, ...]) -> None:
    packed = formats.pack(normal(N, K), name)
    x = normal(*leading, K, seed=1)
    result = npu.matmul(x, packed)
    assert result.shape == (*leading, N)
    assert np.array_equal(result, expected(x, packed))
    bias = normal(N, seed=2)
    assert np.array_equal(
        BlockLinear(npu, packed, bias=bias)(x, activation="relu"), np.maximum(result + bias, 0)
    )
    assert np.array_equal(BlockLinear(npu, packed)(x, activation="silu"), npu.silu(result))


def test_all_steps(npu: Device) -> None:
    packed, x = formats.pack(normal(N, K), "q4_1"), normal(4, K, seed=1)
    rows, columns, bias = normal(4, seed=2), normal(N, seed=3), normal(N, seed=4)
    result = npu.matmul(x, packed, alpha=0.5, row_scale=rows, col_scale=columns, bias=bias)
    by_hand = expected(x, packed) * np.float32(0.5) * rows[:, None] * columns + bias
    assert np.array_equal(result, by_hand)
    batched = npu.matmul(np.stack([x, x]), packed, row_scale=rows)
    assert np.array_equal(batched[1], expected(x, packed) * rows[:, None])


def test_views_of_any_strides(npu: Device) -> None:
    packed, x = formats.pack(normal(N, K), "q8_0"), normal(3, 2 * K, 4, seed=1)
    on_device = npu.tensor(x)
    for view, values in (
        (on_device[:, :K, 1], x[:, :K, 1]),
        (npu.tensor(x[..., 0])[:, K:], x[:, K:, 0]),
        (on_device.transpose(2, 0, 1)[1:3, :, :K], x.transpose(2, 0, 1)[1:3, :, :K]),
    ):
        result = npu.matmul(view, packed)
        assert np.array_equal(result.to_numpy(), expected(np.ascontiguousarray(values), packed))
    out = npu.tensor(np.zeros((3, 40), np.float32))
    npu.matmul(on_device[:, :K, 2], packed, out=out[:, 8 : 8 + N])
    shown = out.to_numpy()
    assert np.array_equal(shown[:, 8 : 8 + N], expected(np.ascontiguousarray(x[:, :K, 2]), packed))
    assert not shown[:, :8].any()
    assert not shown[:, 8 + N :].any()


def test_one_command_and_nothing_is_laid_out_again(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = BlockLinear(npu, normal(N, K), "q4_1", normal(N, seed=1))
    x, out = npu.tensor(normal(2, 4, K)), npu.empty((2, 4, N))
    seen = commands(npu, monkeypatch)
    assert layer(x, out=out) is out
    assert [packet.opcode for packet in seen] == [Opcode.MATMUL]
    assert (seen[0].m, seen[0].blocks.label) == (8, "q4_1")
    assert isinstance(layer(x), DeviceTensor)
    assert isinstance(layer(normal(K)), np.ndarray)


@each_format
def test_weights_come_back(npu: Device, name: str) -> None:
    packed = formats.pack(normal(N, K), name)
    weight = PackedTensor.upload(npu, packed)
    assert weight.shape == (N, K)
    assert np.array_equal(weight.to_host().data, packed.data)
    assert np.array_equal(npu.matmul(normal(3, K), weight), npu.matmul(normal(3, K), packed))


def test_a_recorded_layer_takes_new_inputs(npu: Device) -> None:
    layer = BlockLinear(npu, normal(N, K), "q4_0")
    first, second = normal(4, K), normal(4, K, seed=1)
    with npu.record() as program:
        x = program.input("x", (4, K), np.float32)
        y = layer(x)
    with program:
        for values in (first, second):
            program.run(x=values)
            assert np.array_equal(y.to_numpy(), layer(values))


PACKED = formats.pack(np.ones((N, K), np.float32), "q4_1")


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        ((normal(2, K).astype(np.float64), PACKED), {}, TypeError, ["ndarray of float64"]),
        ((normal(2, K).tolist(), PACKED), {}, TypeError, ["list"]),
        ((normal(2, K - 32), PACKED), {}, ValueError, ["(2, 64)", "(24, 96)"]),
        ((normal(2, K), PACKED), {"trans_b": True}, ValueError, ["trans_b"]),
        ((normal(2, K), PACKED), {"bias": normal(K)}, ValueError, ["bias has shape (96,)"]),
        ((normal(2, K), PACKED), {"out_dtype": "float16"}, TypeError, ["out_dtype is float16"]),
        ((normal(2, K).astype(np.float16), PACKED), {"out_dtype": "float16"}, TypeError, ["float16"]),
    ],
)
def test_what_is_refused(
    npu: Device, arguments: tuple[Any, ...], options: dict[str, Any], error: Error, words: Words
) -> None:
    refuses(error, words, npu.matmul, *arguments, **options)


def test_float16_rows_have_the_products_of_what_they_are_in_float32(npu: Device) -> None:
    x, layer = normal(3, K).astype(np.float16), BlockLinear(npu, PACKED, bias=normal(N))
    assert np.array_equal(layer(x), layer(x.astype(np.float32)))
    turned = npu.tensor(np.ascontiguousarray(x.T)).transpose(1, 0)
    assert np.array_equal(layer(turned).to_numpy(), layer(x))


def test_layers_that_are_refused(npu: Device) -> None:
    refuses(ValueError, ["bias has shape (96,)"], BlockLinear, npu, PACKED, None, normal(K))
    refuses(TypeError, ["list"], BlockLinear, npu, PACKED, None, [1.0])
    refuses(ValueError, ["needs the name"], BlockLinear, npu, normal(N, K))


def test_a_device_without_blocks_says_so() -> None:
    with echo_npu.open("cmodel", config="random-7") as without, echo_npu.open("cmodel") as npu:
        refuses(TypeError, ["q4_1", "none"], without.matmul, normal(2, K), PACKED)
        weight = PackedTensor.upload(npu, PACKED)
        with echo_npu.open("cmodel") as other:
            refuses(ValueError, ["another device"], other.matmul, normal(2, K), weight)
