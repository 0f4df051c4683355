"""Perplexity: against logits of single steps, and windows."""

import math

import numpy as np
import pytest

from echo_npu.language import perplexity as perplexity_module
from echo_npu.language.perplexity import perplexity
from tests.refusals import refuses
from tests.runtime.language.conftest import MakeNetwork

TEXT = [int(token) for token in np.random.default_rng(8).integers(0, 259, 11)]


def losses_one_by_one(make_network: MakeNetwork, text: list[int]) -> list[float]:
    network = make_network()
    found: list[float] = []
    for position, token in enumerate(text[:-1]):
        with network.record_prompt(position, 1) as program:
            program.run(ids=np.array([token], np.int32))
        logits = network.logits.to_numpy()[0].astype(np.float64)
        odds = np.exp(logits - logits.max())
        found.append(-math.log(odds[text[position + 1]] / odds.sum()))
    return found


@pytest.mark.parametrize("chunk", [128, 4])
def test_of_one_window(make_network: MakeNetwork, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(perplexity_module, "CHUNK", chunk)
    counts: list[int] = []
    found = perplexity(make_network(every_logit=True), TEXT, counts.append)
    losses = losses_one_by_one(make_network, TEXT)
    assert found.tokens == len(TEXT) - 1
    assert found.nats == pytest.approx(np.mean(losses), rel=1e-6)
    assert found.value == pytest.approx(math.exp(np.mean(losses)), rel=1e-6)
    assert found.error == pytest.approx(np.std(losses) / math.sqrt(len(losses)), rel=1e-5)
    assert sum(counts) == len(TEXT)


def test_windows_are_independent(make_network: MakeNetwork) -> None:
    found = perplexity(make_network(every_logit=True, context=6), TEXT)
    losses = losses_one_by_one(make_network, TEXT[:6]) + losses_one_by_one(make_network, TEXT[6:])
    assert found.tokens == len(losses) == 9
    assert found.nats == pytest.approx(np.mean(losses), rel=1e-6)


def test_a_text_of_one_token_is_refused(make_network: MakeNetwork) -> None:
    refuses(ValueError, "1 tokens", perplexity, make_network(every_logit=True), [3])
