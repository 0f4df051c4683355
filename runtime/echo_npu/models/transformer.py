"""One decoder layer as a model: a small one with random weights, or any other."""

from __future__ import annotations

import numpy as np

from echo_npu.models import reference
from echo_npu.models.decoder_layer import OPERATIONS, DecoderLayer
from echo_npu.models.executor import Executor
from echo_npu.models.layer_types import LayerCase, LayerConfig, LayerWeights
from echo_npu.models.model import Model, Outcome
from echo_npu.models.records import Check
from echo_npu.models.truth import F32

TINY = LayerConfig(hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=176)
TINY_TOKENS = 16

LAYER_BOUND = 1e-5
"""Largest error of a whole layer against float64, relative to the largest value of the same token."""


def random_weights(config: LayerConfig, random: np.random.Generator) -> LayerWeights:
    """Draw weights of a layer that keep values near 1."""

    def draw(shape: tuple[int, ...]) -> F32:
        if len(shape) == 1:
            return np.asarray(1.0 + 0.1 * random.standard_normal(shape), np.float32)
        return np.asarray(random.standard_normal(shape) / np.sqrt(shape[1]), np.float32)

    return LayerWeights(**{name: draw(shape) for name, shape in config.weight_shapes().items()})


def tiny_layer(seed: int = 0, tokens: int = TINY_TOKENS) -> Transformer:
    """Return a small layer with random weights and input, the same for the same seed.

    Raises:
        ValueError: fewer than one token.
    """
    if tokens < 1:
        raise ValueError(f"tokens is {tokens}; a layer needs at least 1")
    random = np.random.default_rng(seed)
    weights = random_weights(TINY, random)
    hidden_in = random.standard_normal((tokens, TINY.hidden)).astype(np.float32)
    notes = ("random weights and input",)
    return Transformer(LayerCase(f"tiny (seed {seed})", "tiny", TINY, weights, hidden_in, notes))


class Transformer(Model):
    """One layer.

    Attributes:
        case: the layer, its weights, its input.
        layer: its place in device memory, after `load`.
    """

    steps = OPERATIONS

    def __init__(self, case: LayerCase) -> None:
        self.case = case
        self.name, self.slug, self.notes = case.name, case.slug, case.notes

    def load(self, executor: Executor) -> None:
        self.layer = DecoderLayer(self.case.config, len(self.case.hidden_in), executor)
        self.layer.load(self.case.weights)
        self.source = executor.tensor("input", self.case.hidden_in)
        self.target = executor.empty("output", self.case.hidden_in.shape)

    def compute(self, executor: Executor) -> Outcome:
        self.layer.run(self.source, self.target)
        check = Check(
            "layer_error",
            "whole layer against an independent float64 reference, of a token's largest value",
            layer_error(self.case, self.target.device.to_numpy()),
            LAYER_BOUND,
        )
        return Outcome((check,), {"layer": self.name, "tokens": len(self.case.hidden_in)})


def layer_error(case: LayerCase, output: F32) -> float:
    """Return the largest difference from the float64 reference, each token relative to its largest value."""
    truth = reference.layer(case.config, case.weights, case.hidden_in.astype(np.float64))
    scale = np.max(np.abs(truth), axis=1, keepdims=True)
    return float(np.max(np.abs(output.astype(np.float64) - truth) / scale))
