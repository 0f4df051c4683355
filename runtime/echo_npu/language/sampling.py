"""Choose the next token from logits."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn.

    Args:
        temperature: what the logits are divided by; 0 takes the likeliest token.
        top_k: draw among so many likeliest tokens; 0: all.
        top_p: draw among the likeliest tokens whose probabilities reach this sum (Holtzman et al. 2020).

    Raises:
        ValueError: a field that is out of range, with its value.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature < np.inf:
            raise ValueError(f"temperature is {self.temperature}; it must be 0 or more, and finite")
        if self.top_k < 0:
            raise ValueError(f"top_k is {self.top_k}; it must be 0 or more")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p is {self.top_p}; it must be above 0, and at most 1")

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is taken."""
        return self.temperature == 0.0 or self.top_k == 1

    def candidates(self, vocabulary: int) -> int:
        """Return how many of the likeliest tokens a draw needs to know; 0: all, or the likeliest alone."""
        return 0 if self.greedy else min(self.top_k, vocabulary)

    def draw(self, logits: NDArray[np.float32], random: np.random.Generator) -> int:
        """Return a token number drawn from logits, float32 [vocabulary]; NaN is never drawn.

        Raises:
            ValueError: no logit is a number.
        """
        values = np.where(np.isnan(logits), -np.inf, logits)
        order = np.argsort(-values, kind="stable")
        return self.draw_among(order, values[order], random)

    def draw_among(
        self, tokens: NDArray[np.integer], logits: NDArray[np.float32], random: np.random.Generator
    ) -> int:
        """Return a token number drawn from the likeliest tokens, as `draw` does from all.

        Args:
            tokens: integers [count], the likeliest first; at least `top_k` of them, unless that is 0.
            logits: float32 [count], of these tokens.

        Raises:
            ValueError: no logit is a number.
        """
        numbers = ~np.isnan(logits)
        tokens, values = tokens[numbers], logits[numbers].astype(np.float64)
        if not len(values) or not np.isfinite(values[0]):
            raise ValueError("no token can be drawn: the greatest logit is no finite number")
        if self.greedy:
            return int(tokens[0])
        if self.top_k:
            tokens, values = tokens[: self.top_k], values[: self.top_k]
        odds = np.exp((values - values[0]) / self.temperature)
        odds /= odds.sum()
        # The token that reaches the sum is the last one.
        kept = int(np.searchsorted(np.cumsum(odds), self.top_p)) + 1
        return int(random.choice(tokens[:kept], p=odds[:kept] / odds[:kept].sum()))
