"""A llama-style decoder layer on the NPU: its operations and the layout of its tensors.

Nothing is repacked: heads stay side by side as the projections write them, [tokens, heads, head_dim]. Keys
and values are written to their place in the cache, [tokens, 2, kv_heads, head_dim]. The attention products
read both with row and batch strides.
"""

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from echo_npu.models.executor import Executor, Mirrored
from echo_npu.models.layer_types import LayerConfig, LayerWeights
from echo_npu.models.operations import Add, Matmul, Mul, Operation, RmsNorm, Rope, Silu, Softmax
from echo_npu.ops.rope import rope_tables

OPERATIONS = 18
"""Operations of one layer."""


class DecoderLayer:
    """One layer in device memory: its weights and intermediate tensors.

    Args:
        config: the layer's shape.
        tokens: rows of its input; row i is at position i.
        executor: makes the tensors, runs and checks the operations.

    Raises:
        NpuOutOfMemoryError: weights or activations do not fit.
    """

    def __init__(self, config: LayerConfig, tokens: int, executor: Executor) -> None:
        self.config = config
        self.executor = executor
        self.weights = {
            name: executor.empty(name, shape, region="weight")
            for name, shape in config.weight_shapes().items()
        }
        tables = rope_tables(tokens, config.head_dim, config.rope_base, interleaved=True)
        self._tables = [
            executor.tensor(name, table, region="weight")
            for name, table in zip(("cosines", "sines"), tables, strict=True)
        ]
        self._stream = executor.empty("stream", (tokens, config.hidden))
        self._normed = executor.empty("normed", (tokens, config.hidden))
        self._q = executor.empty("q", (tokens, config.heads, config.head_dim))
        self._k = executor.empty("k", (tokens, config.kv_heads, config.head_dim))
        self._turned = executor.empty("turned q", (tokens, config.heads, config.head_dim))
        self._cache = executor.empty("cache", (tokens, 2, config.kv_heads, config.head_dim))
        self._scores = executor.empty("scores", (config.kv_heads, config.group, tokens, tokens))
        self._probs = executor.empty("probs", (config.kv_heads, config.group, tokens, tokens))
        self._mixed = executor.empty("mixed", (tokens, config.heads, config.head_dim))
        self._delta = executor.empty("delta", (tokens, config.hidden))
        self._gate = executor.empty("gate", (tokens, config.ffn))
        self._up = executor.empty("up", (tokens, config.ffn))
        self._swish = executor.empty("swish", (tokens, config.ffn))

    def load(self, weights: LayerWeights) -> None:
        """Write the weights to device memory, over the previous ones."""
        for item in fields(weights):
            self.executor.upload(self.weights[item.name], getattr(weights, item.name))

    def run(self, source: Mirrored, target: Mirrored, prefix: str = "") -> None:
        """Compute the layer, [tokens, hidden] to [tokens, hidden]; `target` may be `source`.

        Args:
            prefix: first part of the operations' names.
        """
        self._prefix = prefix
        norm = RmsNorm(self.config.eps)
        self._do("attention norm", norm, (source, self.weights["attn_norm"]), self._normed)
        self._attention()
        self._do("attention residual", Add(), (source, self._delta), self._stream)
        self._do("ffn norm", norm, (self._stream, self.weights["ffn_norm"]), self._normed)
        self._feed_forward()
        self._do("ffn residual", Add(), (self._stream, self._delta), target)

    def _attention(self) -> None:
        config = self.config
        keys = self._cache.view(lambda cache: cache[:, 0])
        values = self._cache.view(lambda cache: cache[:, 1])
        self._project("q projection", self._normed, "wq", self._q)
        self._project("k projection", self._normed, "wk", self._k)
        self._project("v projection", self._normed, "wv", values)
        rope = Rope(config.rope_base)
        self._do("q rope", rope, (self._q, *self._tables), self._turned)
        self._do("k rope to cache", rope, (self._k, *self._tables), keys)

        # [kv_heads, heads of a group, tokens, head_dim]: the heads of a group share a key and a value head.
        def grouped(heads: Mirrored) -> Mirrored:
            shape = (heads.shape[0], config.kv_heads, -1, config.head_dim)
            return heads.view(lambda tensor: tensor.reshape(*shape).transpose(1, 2, 0, 3))

        self._do("scores q*kT", Matmul(trans_b=True), (grouped(self._turned), grouped(keys)), self._scores)
        softmax = Softmax(scale=float(1 / np.sqrt(config.head_dim)), causal=True)
        self._do("softmax", softmax, (self._scores,), self._probs)
        self._do("probs*v", Matmul(), (self._probs, grouped(values)), grouped(self._mixed))
        self._project("output projection", self._mixed, "wo", self._delta)

    def _feed_forward(self) -> None:
        self._project("gate projection", self._normed, "w_gate", self._gate)
        self._project("up projection", self._normed, "w_up", self._up)
        self._do("silu", Silu(), (self._gate,), self._swish)
        self._do("silu * up", Mul(), (self._swish, self._up), self._swish)
        self._project("down projection", self._swish, "w_down", self._delta)

    def _project(self, name: str, source: Mirrored, weight: str, target: Mirrored) -> None:
        def flat(tensor: Mirrored) -> Mirrored:
            return tensor.view(lambda each: each.reshape(each.shape[0], -1))

        self._do(name, Matmul(trans_b=True), (flat(source), self.weights[weight]), flat(target))

    def _do(self, name: str, operation: Operation, inputs: Sequence[Mirrored], out: Mirrored) -> None:
        self.executor.run(self._prefix + name, operation, inputs, out)
