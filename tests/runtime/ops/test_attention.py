"""Attention as one submission, against float64."""

from typing import Any

import numpy as np
import pytest

from echo_npu import Device, DeviceTensor
from echo_npu.reference.attention import attention
from tests.arrays import normal
from tests.refusals import refuses
from tests.runtime.ops.accuracy import UNIT, assert_within

CASES = [
    ((1, 1, 1), 1, 1),
    ((2, 5, 8), 2, 5),
    ((4, 5, 8), 2, 5),
    ((6, 3, 16), 1, 40),
    ((2, 4, 5, 8), 2, 7),
    ((2, 3, 4, 1, 8), 4, 33),
    ((1, 2, 600), 1, 4),
]


def operands(q_shape: tuple[int, ...], kv_heads: int, keys: int) -> tuple[Any, Any, Any]:
    shape = (*q_shape[:-3], kv_heads, keys, q_shape[-1])
    return normal(*q_shape), normal(*shape, seed=1), normal(*shape, seed=2)


def attention_bound(q: Any, k: Any, v: Any) -> float:
    """Bound the rounding error: a score's error is relative to its terms and shifts the shares; then come
    sums."""
    width, keys = q.shape[-1], k.shape[-2]
    largest = np.abs(q).max() * np.abs(k).max() * np.sqrt(width)
    return float(UNIT * np.abs(v).max() * (2 * (width + 6) * largest + 2 * keys + 30))


@pytest.mark.parametrize(("q_shape", "kv_heads", "keys"), CASES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_attention(npu: Device, q_shape: tuple[int, ...], kv_heads: int, keys: int, causal: bool) -> None:
    q, k, v = operands(q_shape, kv_heads, keys)
    assert_within(npu.attention(q, k, v, causal=causal), attention(q, k, v, causal), attention_bound(q, k, v))


@pytest.mark.parametrize("shape", [(5, 9), (4, 5, 9), (2, 1, 1, 9)], ids=str)
def test_mask_and_scale(npu: Device, shape: tuple[int, ...]) -> None:
    q, k, v = operands((2, 4, 5, 8), 2, 9)
    mask = np.where(normal(*shape, seed=3) > 0.5, np.float32(-np.inf), normal(*shape, seed=4))
    mask[..., 0] = 0
    expected = attention(q, k, v, scale=0.25, mask=mask)
    assert_within(npu.attention(q, k, v, scale=0.25, mask=mask), expected, attention_bound(q, k, v))


def test_values_of_another_width(npu: Device) -> None:
    q, k, _ = operands((4, 5, 8), 2, 9)
    v = normal(2, 9, 20)
    assert_within(npu.attention(q, k, v), attention(q, k, v), attention_bound(q, k, v))


def test_it_is_matmul_softmax_matmul_to_the_bit(npu: Device) -> None:
    q, k, v = operands((4, 5, 8), 4, 9)
    scores = npu.matmul(q, k, trans_b=True)
    expected = npu.matmul(npu.softmax(scores, scale=float(np.float32(1 / np.sqrt(8))), causal=True), v)
    assert np.array_equal(npu.attention(q, k, v, causal=True), expected)


def test_heads_side_by_side_need_no_copies(npu: Device) -> None:
    """[tokens, heads * head_dim], a cache of keys and values, the result as the next product reads it."""
    tokens, heads, kv_heads, width = 6, 4, 2, 8
    q, cache = normal(tokens, heads, width), normal(tokens, 2, kv_heads, width, seed=1)
    query, keys, out = npu.tensor(q), npu.tensor(cache), npu.empty((tokens, heads, width))
    given = [each.swapaxes(0, 1) for each in (query, keys[:, 0], keys[:, 1])]
    npu.attention(*given, causal=True)
    commands = npu.counters()["commands"]
    result = npu.attention(*given, causal=True, out=out.swapaxes(0, 1))
    assert isinstance(result, DeviceTensor)
    assert npu.counters()["commands"] == commands + 3
    dense = [np.ascontiguousarray(each.swapaxes(0, 1)) for each in (q, cache[:, 0], cache[:, 1])]
    assert np.array_equal(out.to_numpy().swapaxes(0, 1), npu.attention(*dense, causal=True))


def test_a_query_without_keys_is_nan(npu: Device) -> None:
    q, k, v = operands((1, 3, 4), 1, 2)
    result = npu.attention(q, k, v, causal=True)
    assert np.isnan(result[0, 0]).all()
    assert np.isfinite(result[0, 1:]).all()


def test_errors(npu: Device) -> None:
    q, k, v = operands((4, 5, 8), 2, 9)
    refuses(ValueError, r"k and v differ.*\(2, 9, 8\).*\(2, 8, 8\)", npu.attention, q, k, v[:, :8])
    with pytest.raises(ValueError, match=r"no multiple of kv_heads.*\(4, 5, 8\).*\(3, 9, 8\)"):
        npu.attention(q, normal(3, 9, 8), normal(3, 9, 8))
    refuses(ValueError, "head_dim differ", npu.attention, q, normal(2, 9, 7), v)
    refuses(ValueError, r"takes \[..., heads, tokens, head_dim\].*\(5, 8\)", npu.attention, q[0], k, v)
    with pytest.raises(ValueError, match=r"mask has shape \(5, 8\), the scores have \(4, 5, 9\)"):
        npu.attention(q, k, v, mask=normal(5, 8))
    refuses(TypeError, "v is ndarray of float64", npu.attention, q, k, v.astype(np.float64))
    refuses(ValueError, r"out has shape \(4, 5, 9\)", npu.attention, q, k, v, out=npu.empty((4, 5, 9)))
