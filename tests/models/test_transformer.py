"""The tiny layer on the functional model: it passes, and it fails whenever anything is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

import echo_npu
from echo_npu.models import LayerConfig, run_layer, tiny_layer, transformer
from echo_npu.models.layer_types import F32, Truth
from echo_npu.models.runner import LAYER_BOUND
from echo_npu.models.transformer import STEPS, TransformerLayer


@pytest.mark.parametrize("seed", [0, 1, 2026])
def test_tiny_layer_passes(device: echo_npu.Device, twin: echo_npu.Device, seed: int) -> None:
    run = run_layer(tiny_layer(seed), device, twin)
    assert run.failures == []
    assert run.passed
    assert len(run.records) == STEPS
    ops = Counter(record.op for record in run.records if record.where == "NPU")
    assert ops == {"MATMUL": 9, "ADD_TENSOR": 2, "MEMCPY": 4}
    assert all(record.exact is True for record in run.records if record.where == "NPU")
    assert all(record.exact is None for record in run.records if record.where == "CPU")
    assert run.macs == 16 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 176) + 2 * 4 * 16 * 16 * 16
    assert 0 < run.layer_error < LAYER_BOUND


@pytest.mark.parametrize("tokens", [1, 2, 5, 17])
def test_any_number_of_tokens(device: echo_npu.Device, twin: echo_npu.Device, tokens: int) -> None:
    assert run_layer(tiny_layer(3, tokens), device, twin).failures == []


def test_memory_is_given_back(device: echo_npu.Device, twin: echo_npu.Device) -> None:
    run_layer(tiny_layer(), device, twin)
    assert all(figures.used == 0 for figures in device.memory_statistics().values())


def test_out_of_memory_is_named(device: echo_npu.Device, twin: echo_npu.Device) -> None:
    device.malloc(255 << 20, region="activation")
    device.malloc(1 << 20, region="activation")
    with pytest.raises(echo_npu.NpuOutOfMemoryError):
        run_layer(tiny_layer(), device, twin)


def _flip(device: echo_npu.Device, address: int, bit: int) -> None:
    byte = device.backend.read_mem(address + bit // 8, 1)
    device.backend.write_mem(address + bit // 8, byte ^ np.uint8(1 << bit % 8))


@pytest.mark.parametrize("weight", ["wq", "wk", "wv", "wo", "w_gate", "w_up", "w_down"])
@pytest.mark.parametrize("bit", [0, 16, 30])
def test_one_wrong_weight_bit_fails(
    device: echo_npu.Device, twin: echo_npu.Device, weight: str, bit: int
) -> None:
    def corrupt(layer: TransformerLayer) -> None:
        _flip(device, layer.weights[weight].address, bit)

    run = run_layer(tiny_layer(), device, twin, on_loaded=corrupt)
    assert not run.passed
    assert not run.weights_exact
    wrong = [record for record in run.records if record.exact is False]
    if bit:  # the last bit of a weight can vanish in the rounding of its products
        assert [record.op for record in wrong] == ["MATMUL"]
    if bit == 30:
        assert not all(record.accurate for record in run.records)


@pytest.mark.parametrize("bit", [0, 31])
def test_a_stray_write_to_an_unused_place_fails(
    device: echo_npu.Device, twin: echo_npu.Device, bit: int
) -> None:
    run = run_layer(
        tiny_layer(), device, twin, on_loaded=lambda layer: _flip(device, layer.swish.address, bit)
    )
    assert [record.name for record in run.records if record.exact is False] == ["input to stream"]
    assert not run.passed


def test_not_a_number_fails(device: echo_npu.Device, twin: echo_npu.Device) -> None:
    def poison(layer: TransformerLayer) -> None:
        for end in (device, twin):
            end.memset(layer.weights["wv"].address, 0xFF, 4)

    run = run_layer(tiny_layer(), device, twin, on_loaded=poison)
    assert not run.passed
    assert not next(record for record in run.records if record.name == "v projection").accurate


def _unmasked(scores: F32) -> tuple[F32, Truth]:
    odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result = odds / odds.sum(axis=-1, keepdims=True)
    return result, Truth(result.astype(np.float64), np.ones(result.shape), 1.0)


def _unrotated(x: F32, heads: int, base: float) -> tuple[F32, Truth]:
    return x, Truth(x.astype(np.float64), np.ones(x.shape), 1.0)


def _halves(x: F32, heads: int, base: float) -> tuple[F32, Truth]:
    """RoPE of the other form: the pairs are (i, i + head_dim / 2)."""
    pairs = x.reshape(len(x), heads, -1, 2)
    result, truth = rope(np.ascontiguousarray(pairs.swapaxes(-1, -2)).reshape(x.shape), heads, base)
    return result, truth


rope = transformer.rope


@pytest.mark.parametrize(
    ("name", "mistake"), [("causal_softmax", _unmasked), ("rope", _unrotated), ("rope", _halves)]
)
def test_a_wrong_layer_of_right_operations_fails(
    device: echo_npu.Device,
    twin: echo_npu.Device,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    mistake: Callable[..., tuple[F32, Truth]],
) -> None:
    monkeypatch.setattr(transformer, name, mistake)
    run = run_layer(tiny_layer(), device, twin)
    assert all(record.passed for record in run.records)
    assert run.layer_error > run.layer_bound
    assert not run.passed


def test_the_same_seed_is_the_same_layer() -> None:
    first, again, other = tiny_layer(5), tiny_layer(5), tiny_layer(6)
    assert np.array_equal(first.hidden_in, again.hidden_in)
    assert np.array_equal(first.weights.w_down, again.weights.w_down)
    assert not np.array_equal(first.weights.w_down, other.weights.w_down)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kv_heads": 3}, "no multiple of kv_heads"),
        ({"head_dim": 15}, "even"),
        ({"ffn": 0}, "ffn is 0"),
        ({"eps": 0.0}, "positive"),
    ],
)
def test_impossible_layers_are_refused(change: dict[str, int], says: str) -> None:
    fields = {"hidden": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 176} | change
    with pytest.raises(ValueError, match=says):
        LayerConfig(**fields)  # type: ignore[arg-type]


def test_a_layer_without_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        tiny_layer(tokens=0)
