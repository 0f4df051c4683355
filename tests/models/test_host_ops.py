"""The host's operations stay within the bounds that they state, and a result beyond them is found."""

from __future__ import annotations

import numpy as np
import pytest

from echo_npu.models.commands import Buffer, View
from echo_npu.models.host_ops import causal_softmax, rms_norm, rope, silu_mul
from echo_npu.models.layer_types import F32, Truth


def _random(*shape: int, scale: float = 1.0, seed: int = 0) -> F32:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
@pytest.mark.parametrize("width", [1, 7, 64, 576, 4096])
def test_rms_norm(width: int, scale: float) -> None:
    result, truth = rms_norm(_random(9, width, scale=scale), _random(width, seed=1), 1e-5)
    assert result.dtype == np.float32
    assert truth.error(result) <= truth.bound


@pytest.mark.parametrize("tokens", [1, 16, 500])
def test_rope(tokens: int) -> None:
    result, truth = rope(_random(tokens, 48), 3, 1e5)
    assert result.dtype == np.float32
    assert truth.error(result) <= truth.bound


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 1000.0])
@pytest.mark.parametrize("tokens", [1, 2, 17, 256])
def test_causal_softmax(tokens: int, scale: float) -> None:
    result, truth = causal_softmax(_random(3, tokens, tokens, scale=scale))
    assert result.dtype == np.float32
    assert truth.error(result) <= truth.bound
    assert np.all(np.triu(result, 1) == 0)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 60.0, 1000.0])
def test_silu_mul(scale: float) -> None:
    result, truth = silu_mul(_random(4, 1000, scale=scale), _random(4, 1000, seed=1))
    assert result.dtype == np.float32
    assert truth.error(result) <= truth.bound


def test_an_error_beyond_the_bound_is_seen() -> None:
    result, truth = rms_norm(_random(4, 64), np.ones(64, np.float32), 1e-5)
    result[2, 3] *= np.float32(1 + 1e-5)
    assert truth.error(result) > truth.bound


def test_truth_refuses_another_shape() -> None:
    truth = Truth(np.zeros((2, 3)), np.ones((2, 3)), 0.0)
    with pytest.raises(ValueError, match=r"\(3, 2\)"):
        truth.error(np.zeros((3, 2), np.float32))


def test_a_view_that_leaves_its_buffer_is_refused() -> None:
    buffer = Buffer("b", "activation", 64, 100)
    content = np.arange(100, dtype=np.float32)
    assert View(buffer, 3, 4, 2, 10, (20, 50)).gather(content, (2, 2))[1, 1, 2, 3] == 2 + 50 + 20 + 20 + 3
    with pytest.raises(ValueError, match="a view of b needs 101"):
        View(buffer, 10, 10, 1).gather(content)
