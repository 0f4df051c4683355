"""The choice of the next token."""

import numpy as np
import pytest

from echo_npu.language.sampling import Sampling
from tests.refusals import refuses

LOGITS = np.log(np.array([0.1, 0.4, 0.2, 0.3], np.float32))


def drawn(sampling: Sampling, count: int = 2000, seed: int = 0) -> list[float]:
    random = np.random.default_rng(seed)
    tokens = [sampling.draw(LOGITS, random) for _ in range(count)]
    return list(np.bincount(tokens, minlength=4) / count)


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.0, 3, 0.5), Sampling(2.0, top_k=1)])
def test_greedy(sampling: Sampling) -> None:
    assert sampling.greedy
    assert drawn(sampling, 20) == [0, 1, 0, 0]


def test_the_first_of_equal_logits_is_taken() -> None:
    assert Sampling().draw(np.array([1, 5, 5], np.float32), np.random.default_rng(0)) == 1


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(1.0), [0.1, 0.4, 0.2, 0.3]),
        (Sampling(1.0, top_k=2), [0, 4 / 7, 0, 3 / 7]),
        (Sampling(1.0, top_p=0.65), [0, 4 / 7, 0, 3 / 7]),
        (Sampling(1.0, top_p=0.75), [0, 4 / 9, 2 / 9, 3 / 9]),
        (Sampling(1.0, top_k=3, top_p=0.3), [0, 1, 0, 0]),
        # The sum is of the probabilities among the top_k.
        (Sampling(1.0, top_k=2, top_p=0.5), [0, 1, 0, 0]),
        (Sampling(0.5), [1 / 30, 16 / 30, 4 / 30, 9 / 30]),
    ],
)
def test_draws_have_the_probabilities(sampling: Sampling, expected: list[float]) -> None:
    assert not sampling.greedy
    shares = drawn(sampling)
    # Five standard deviations of 2,000 draws.
    assert all(
        abs(share - odds) <= 5 * (odds * (1 - odds) / 2000) ** 0.5
        for share, odds in zip(shares, expected, strict=True)
    )


def test_a_seed_repeats_the_draws() -> None:
    assert drawn(Sampling(1.0), 50, seed=4) == drawn(Sampling(1.0), 50, seed=4)
    assert drawn(Sampling(1.0), 50, seed=4) != drawn(Sampling(1.0), 50, seed=5)


def test_nan_is_never_drawn() -> None:
    logits = np.array([np.nan, 0.0, np.nan, -np.inf], np.float32)
    random = np.random.default_rng(0)
    assert {Sampling(1.0).draw(logits, random) for _ in range(50)} == {1}
    for bad in (np.nan, -np.inf):
        refuses(ValueError, "no token can be drawn", Sampling(1.0).draw, np.full(4, bad, np.float32), random)
    refuses(ValueError, "no token can be drawn", Sampling().draw, np.array([0, np.inf], np.float32), random)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"temperature": -0.1}, "temperature is -0.1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": float("inf")}, "temperature is inf"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"top_p": 1.01}, "top_p is 1.01"),
        ({"top_p": float("nan")}, "top_p is nan"),
    ],
)
def test_what_is_refused(fields: dict[str, float], words: str) -> None:
    refuses(ValueError, words, Sampling, **fields)
