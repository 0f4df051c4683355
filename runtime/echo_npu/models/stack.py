"""Several decoder layers as a model: from token numbers to the logits of the last token."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from echo_npu.models import reference
from echo_npu.models.decoder_layer import OPERATIONS, DecoderLayer
from echo_npu.models.executor import Executor
from echo_npu.models.layer_types import StackCase
from echo_npu.models.model import Model, Outcome
from echo_npu.models.operations import Embedding, Matmul, RmsNorm, Softmax
from echo_npu.models.records import Check
from echo_npu.models.transformer import TINY, random_weights
from echo_npu.models.truth import F32, F64

TOP = 5
"""Number of the likeliest tokens that are shown and compared."""

MOST_LAYERS = 1000
"""Most layers whose random weights are drawn: all of them are in the host's memory."""

LOGITS_BOUND = 2e-5
"""Largest error of the logits against float64, relative to the largest logit."""


def tiny_stack(layers: int = 2, seed: int = 0, tokens: int = 16, vocabulary: int = 131) -> Stack:
    """Return small layers with random weights and input, the same for the same seed.

    Raises:
        ValueError: fewer than one layer or token, or more than MOST_LAYERS layers.
    """
    if layers > MOST_LAYERS:
        raise ValueError(f"layers is {layers}; at most {MOST_LAYERS} random layers are drawn")
    random = np.random.default_rng(seed)
    weights = [random_weights(TINY, random) for _ in range(layers)]
    case = StackCase(
        f"tiny, {layers} layers (seed {seed})",
        f"tiny-stack-{layers}",
        TINY,
        layers,
        weights.__getitem__,
        random.standard_normal((vocabulary, TINY.hidden)).astype(np.float32),
        np.asarray(1.0 + 0.1 * random.standard_normal(TINY.hidden), np.float32),
        random.integers(0, vocabulary, tokens, np.int32),
        lambda token: f"token {token}",
        ("random weights and input",),
    )
    return Stack(case)


class Stack(Model):
    """The first layers of a model, with its embedding and its head, which share one table.

    The layers are loaded one after another to the same place, so weight memory does not bound their number.
    """

    def __init__(self, case: StackCase) -> None:
        self.case = case
        self.name, self.slug, self.notes = case.name, case.slug, case.notes
        self.steps = 1 + case.layers * OPERATIONS + 3

    def load(self, executor: Executor) -> None:
        case = self.case
        self.table = executor.tensor("table", case.table, region="weight")
        self.final_norm = executor.tensor("final norm", case.final_norm, region="weight")
        self.layer = DecoderLayer(case.config, len(case.ids), executor)
        self.ids = executor.tensor("ids", case.ids)
        self.stream = executor.empty("stream", (len(case.ids), case.config.hidden))
        self.last = executor.empty("last token", (1, case.config.hidden))
        self.logits = executor.empty("logits", (1, len(case.table)))
        self.odds = executor.empty("probabilities", (1, len(case.table)))

    def compute(self, executor: Executor) -> Outcome:
        case = self.case
        executor.run("embedding", Embedding(), (self.table, self.ids), self.stream)
        for index in range(case.layers):
            self.layer.load(case.layer(index))
            self.layer.run(self.stream, self.stream, prefix=f"layer {index}: ")
        last = self.stream.view(lambda stream: stream[-1:])
        executor.run("final norm", RmsNorm(case.config.eps), (last, self.final_norm), self.last)
        executor.run("logits", Matmul(trans_b=True), (self.last, self.table), self.logits)
        executor.run("probabilities", Softmax(), (self.logits,), self.odds)
        return self._outcome(self.logits.device.to_numpy()[0], self.odds.device.to_numpy()[0])

    def _outcome(self, logits: F32, odds: F32) -> Outcome:
        truth = reference.stack_logits(self.case)
        best, expected = _best(logits), _best(truth)
        checks = (
            Check(
                "logits_error",
                "logits against an independent float64 reference, of the largest",
                float(np.max(np.abs(logits.astype(np.float64) - truth)) / np.max(np.abs(truth))),
                LOGITS_BOUND,
            ),
            Check(
                "top_differing",
                f"places of the {TOP} likeliest tokens that are not the reference's",
                float(np.count_nonzero(best != expected)),
                0.0,
            ),
        )
        top = [
            {
                "token": int(token),
                "word": self.case.word(int(token)),
                "logit": float(logits[token]),
                "probability": float(odds[token]),
                "reference": float(truth[token]),
            }
            for token in best
        ]
        summary = tuple(
            f"{place}. {row['word']!r} (token {row['token']}): logit {row['logit']:.6f}, "
            f"float64 {row['reference']:.6f}, probability {row['probability']:.4f}"
            for place, row in enumerate(top, 1)
        )
        results = {"model": self.name, "layers": self.case.layers, "tokens": len(self.case.ids), "top": top}
        return Outcome(checks, results, ("likeliest next tokens:", *summary))


def _best(logits: F32 | F64) -> NDArray[np.intp]:
    """Return the indices of the largest logits, largest first."""
    return np.argsort(-logits, kind="stable")[:TOP]
