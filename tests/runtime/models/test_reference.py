"""The float64 reference, compared with properties that hold without it."""

import numpy as np

from echo_npu.models import reference, tiny_layer


def test_one_token_sees_only_itself() -> None:
    case = tiny_layer(tokens=1).case
    config, weights = case.config, case.weights
    x = case.hidden_in.astype(np.float64)
    value = (x @ weights.wv.astype(np.float64).T).reshape(config.kv_heads, config.head_dim)
    expected = np.repeat(value, config.group, axis=0).reshape(1, -1) @ weights.wo.astype(np.float64).T
    assert np.allclose(reference.attention(config, weights, x), expected, rtol=1e-12)


def test_a_token_does_not_see_the_future() -> None:
    case = tiny_layer().case
    original = case.hidden_in.astype(np.float64)
    changed = original.copy()
    changed[9:] += 1
    before = reference.layer(case.config, case.weights, original)
    after = reference.layer(case.config, case.weights, changed)
    assert np.array_equal(before[:9], after[:9])
    assert not np.allclose(before[9:], after[9:])


def test_rotation_depends_on_distance_alone() -> None:
    random = np.random.default_rng(0)
    query, key = random.standard_normal((2, 1, 16))
    turns = np.exp(1j * np.outer(np.arange(12), 1e5 ** (-2.0 * np.arange(8) / 16)))
    at = [
        (reference._rotate(query, turns[i : i + 1]) * reference._rotate(key, turns[i + 3 : i + 4])).sum()
        for i in range(9)
    ]
    assert np.allclose(at, at[0], rtol=1e-12)


def test_swish_of_large_values() -> None:
    case = tiny_layer().case
    result = reference.feed_forward(case.weights, case.hidden_in.astype(np.float64) * 1e4)
    assert np.isfinite(result).all()
