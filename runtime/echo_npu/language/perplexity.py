"""Measure how well a model predicts a text."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echo_npu.language.generator import TextNetwork
from echo_npu.language.network import CHUNK


@dataclass(frozen=True, slots=True)
class Perplexity:
    """How well a text was predicted.

    Attributes:
        tokens: tokens that were predicted.
        nats: mean negative logarithm of their probabilities.
        error: standard error of that mean.
    """

    tokens: int
    nats: float
    error: float

    @property
    def value(self) -> float:
        """The perplexity, e to the power of `nats`."""
        return math.exp(self.nats)


def nats(logits: NDArray[np.floating[Any]], following: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
    """Return the negative logarithm of each token's probability, float64 [tokens].

    Args:
        logits: [tokens, vocabulary], before each token.
        following: [tokens], the tokens.
    """
    rows = logits.astype(np.float64)
    peak = rows.max(axis=1)
    total = peak + np.log(np.exp(rows - peak[:, None]).sum(axis=1))
    found: NDArray[np.float64] = total - rows[np.arange(len(rows)), following]
    return found


def perplexity(
    network: TextNetwork, text: Sequence[int], on_step: Callable[[int], None] = lambda tokens: None
) -> Perplexity:
    """Predict each token of a text from those before it.

    The text is cut into windows as long as the context. The first token of a window is not predicted. The
    logits are the device's, their logarithms of probabilities are computed here, in float64.

    Args:
        network: made with `every_logit`.
        text: token numbers, at least two.
        on_step: called after each step with the number of tokens that it read.

    Raises:
        ValueError: a text of fewer than two tokens, or a network of the wrong kind.
    """
    if len(text) < 2:
        raise ValueError(f"the text has {len(text)} tokens; at least 2 are needed")
    losses: list[float] = []
    for start in range(0, len(text) - 1, network.context):
        window = np.array(text[start : start + network.context], np.int32)
        for position in range(0, len(window), CHUNK):
            part = window[position : position + CHUNK]
            with network.record_prompt(position, len(part)) as program:
                program.run(ids=part)
            logits = network.logits[: len(part)].to_numpy()
            following = window[position + 1 : position + 1 + len(part)]
            losses += list(nats(logits[: len(following)], following))
            on_step(len(part))
    spread = float(np.std(losses)) / math.sqrt(len(losses))
    return Perplexity(len(losses), float(np.mean(losses)), spread)
