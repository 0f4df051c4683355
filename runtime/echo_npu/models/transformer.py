"""A llama-style layer on the NPU: which command computes what, and where everything lies in device memory.

The NPU does every matrix product, every residual add and every copy. RMSNorm, RoPE, softmax and SiLU are
done by the host for now. Nothing is repacked: heads stay interleaved as the projections write them, [tokens,
heads * head_dim], keys and values lie side by side in the cache, [tokens, 2, kv_heads * head_dim], and the
attention products reach into both with row and batch strides.
"""

from __future__ import annotations

import numpy as np

from echo_npu.models.commands import Add, Buffer, Copy, Matmul, View
from echo_npu.models.executor import Executor
from echo_npu.models.host_ops import causal_softmax, rms_norm, rope, silu_mul
from echo_npu.models.layer_types import F32, LayerCase, LayerConfig, LayerWeights

STEPS = 21
"""Operations of a layer, on the NPU and on the host."""

TINY = LayerConfig(hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=176)
TINY_TOKENS = 16


def tiny_layer(seed: int = 0, tokens: int = TINY_TOKENS) -> LayerCase:
    """The small layer: random weights and input, the same for the same seed.

    Raises:
        ValueError: fewer than one token.
    """
    if tokens < 1:
        raise ValueError(f"tokens is {tokens}; a layer needs at least 1")
    random = np.random.default_rng(seed)

    def draw(shape: tuple[int, ...]) -> F32:
        if len(shape) == 1:
            return np.asarray(1.0 + 0.1 * random.standard_normal(shape), np.float32)
        return np.asarray(random.standard_normal(shape) / np.sqrt(shape[1]), np.float32)

    weights = LayerWeights(**{name: draw(shape) for name, shape in TINY.weight_shapes().items()})
    hidden_in = random.standard_normal((tokens, TINY.hidden)).astype(np.float32)
    return LayerCase(f"tiny (seed {seed})", "tiny", TINY, weights, hidden_in, ("random weights and input",))


class TransformerLayer:
    """One layer placed in device memory.

    `load` allocates and uploads, `run` computes; between the two the memory can be inspected.

    Args:
        case: the layer, its weights, its input.
        executor: runs and checks each operation.

    Raises:
        NpuOutOfMemoryError: weights or activations do not fit.
    """

    def __init__(self, case: LayerCase, executor: Executor) -> None:
        self.case = case
        self.executor = executor
        config, tokens = case.config, len(case.hidden_in)

        def weight(name: str) -> Buffer:
            return executor.buffer(name, "weight", getattr(case.weights, name).size)

        def activation(name: str, width: int) -> Buffer:
            return executor.buffer(name, "activation", tokens * width)

        self.weights = {name: weight(name) for name in ("wq", "wk", "wv", "wo", "w_gate", "w_up", "w_down")}
        self.input = activation("input", config.hidden)
        self.stream = activation("stream", config.hidden)
        self.normed = activation("normed", config.hidden)
        self.q = activation("q", config.q_width)
        self.k = activation("k", config.kv_width)
        self.v = activation("v", config.kv_width)
        self.cache = activation("cache", 2 * config.kv_width)
        self.scores = activation("scores", config.heads * tokens)
        self.probs = activation("probs", config.heads * tokens)
        self.mixed = activation("mixed", config.q_width)
        self.delta = activation("delta", config.hidden)
        self.gate = activation("gate", config.ffn)
        self.up = activation("up", config.ffn)
        self.swish = activation("swish", config.ffn)
        self.output = activation("output", config.hidden)

    def load(self) -> None:
        """Put weights and input into device memory."""
        for name, buffer in self.weights.items():
            self.executor.upload(buffer, getattr(self.case.weights, name))
        self.executor.upload(self.input, self.case.hidden_in)

    def run(self) -> F32:
        """Compute the layer; the output, float32 [tokens, hidden]."""
        hidden = self.case.config.hidden
        self._copy("input to stream", self.input, self.stream, hidden)
        self._norm("attention norm", self.case.weights.attn_norm)
        self._attention()
        self._norm("ffn norm", self.case.weights.ffn_norm)
        self._feed_forward()
        self._copy("stream to output", self.stream, self.output, hidden)
        return self.executor.download(self.output).reshape(-1, hidden)

    def _attention(self) -> None:
        config, tokens, run = self.case.config, len(self.case.hidden_in), self.executor
        head, group, both = config.head_dim, config.group, 2 * config.kv_width
        self._project("q projection", self.normed, "wq", self.q)
        self._project("k projection", self.normed, "wk", self.k)
        self._project("v projection", self.normed, "wv", self.v)
        for name, buffer, heads in (("q rope", self.q, config.heads), ("k rope", self.k, config.kv_heads)):
            rows = run.download(buffer).reshape(tokens, -1)
            result, truth = rope(rows, heads, config.rope_base)
            run.host(name, "rope", f"{tokens}x{heads}x{head}", buffer, result, truth)
        for name, buffer, offset in (("k to cache", self.k, 0), ("v to cache", self.v, config.kv_width)):
            source = View(buffer, tokens, config.kv_width, row_stride=config.kv_width)
            run.command(name, Copy(source, View(self.cache, tokens, config.kv_width, offset, both)))

        # The inner batch walks the query heads of one group, which share a key/value head (stride 0); the
        # outer batch walks the groups.
        batch = (group, config.kv_heads)
        per_head = (head, group * head)
        square = (tokens * tokens, group * tokens * tokens)
        keys = View(self.cache, tokens, head, 0, both, (0, head))
        values = View(self.cache, tokens, head, config.kv_width, both, (0, head))
        queries = View(self.q, tokens, head, 0, config.q_width, per_head)
        scores = View(self.scores, tokens, tokens, batch_strides=square)
        alpha = 1.0 / float(np.sqrt(head))
        run.command("scores q*kT", Matmul(queries, keys, scores, trans_b=True, alpha=alpha, batch=batch))
        logits = run.download(self.scores).reshape(config.heads, tokens, tokens)
        result, truth = causal_softmax(logits)
        run.host("softmax", "softmax", f"{config.heads}x{tokens}x{tokens}", self.probs, result, truth)
        probs = View(self.probs, tokens, tokens, batch_strides=square)
        mixed = View(self.mixed, tokens, head, 0, config.q_width, per_head)
        run.command("probs*v", Matmul(probs, values, mixed, batch=batch))
        self._project("output projection", self.mixed, "wo", self.delta)
        run.command("attention residual", Add(self.stream, self.delta, self.stream))

    def _feed_forward(self) -> None:
        config, tokens, run = self.case.config, len(self.case.hidden_in), self.executor
        self._project("gate projection", self.normed, "w_gate", self.gate)
        self._project("up projection", self.normed, "w_up", self.up)
        result, truth = silu_mul(run.download(self.gate), run.download(self.up))
        run.host("silu * up", "silu_mul", f"{tokens}x{config.ffn}", self.swish, result, truth)
        self._project("down projection", self.swish, "w_down", self.delta)
        run.command("ffn residual", Add(self.stream, self.delta, self.stream))

    def _norm(self, name: str, weight: F32) -> None:
        config, tokens = self.case.config, len(self.case.hidden_in)
        rows = self.executor.download(self.stream).reshape(tokens, config.hidden)
        result, truth = rms_norm(rows, weight, config.eps)
        self.executor.host(name, "rms_norm", f"{tokens}x{config.hidden}", self.normed, result, truth)

    def _project(self, name: str, source: Buffer, weight: str, target: Buffer) -> None:
        out_width, in_width = getattr(self.case.weights, weight).shape
        tokens = len(self.case.hidden_in)
        command = Matmul(
            View(source, tokens, in_width),
            View(self.weights[weight], out_width, in_width),
            View(target, tokens, out_width),
            trans_b=True,
        )
        self.executor.command(name, command)

    def _copy(self, name: str, source: Buffer, target: Buffer, width: int) -> None:
        tokens = len(self.case.hidden_in)
        self.executor.command(name, Copy(View(source, tokens, width), View(target, tokens, width)))
