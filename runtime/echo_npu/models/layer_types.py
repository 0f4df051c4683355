"""The shape of a llama-style layer, its weights, and the model around it."""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from echo_npu.models.truth import F32


@dataclass(frozen=True, slots=True)
class LayerConfig:
    """A decoder layer: RMSNorm, RoPE, causal grouped-query attention, SwiGLU.

    Args:
        hidden: width of the residual stream.
        heads: query heads.
        kv_heads: key/value heads; each serves `heads / kv_heads` query heads, which must be a whole number.
        head_dim: width of one head, even (RoPE rotates pairs).
        ffn: width of the feed-forward part.
        rope_base: base of the rotation frequencies.
        eps: what RMSNorm adds to the mean square.

    Raises:
        ValueError: a field that no layer can have, with its value.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    rope_base: float = 1e5
    eps: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("hidden", "heads", "kv_heads", "head_dim", "ffn"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads is {self.heads}, which is no multiple of kv_heads ({self.kv_heads})")
        if self.head_dim % 2:
            raise ValueError(f"head_dim is {self.head_dim}; rotary embedding needs an even number")
        if not self.rope_base > 0 or not self.eps > 0:
            raise ValueError(f"rope_base ({self.rope_base}) and eps ({self.eps}) must be positive")

    @property
    def group(self) -> int:
        """Query heads that share one key/value head."""
        return self.heads // self.kv_heads

    @property
    def q_width(self) -> int:
        """Columns of the query projection: all heads side by side."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Columns of the key (or value) projection."""
        return self.kv_heads * self.head_dim

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each field of `LayerWeights`; projections are [out, in], as in model files."""
        return {
            "attn_norm": (self.hidden,),
            "wq": (self.q_width, self.hidden),
            "wk": (self.kv_width, self.hidden),
            "wv": (self.kv_width, self.hidden),
            "wo": (self.hidden, self.q_width),
            "ffn_norm": (self.hidden,),
            "w_gate": (self.ffn, self.hidden),
            "w_up": (self.ffn, self.hidden),
            "w_down": (self.hidden, self.ffn),
        }


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """The parameters of one layer, float32; shapes as in `LayerConfig.weight_shapes`."""

    attn_norm: F32
    wq: F32
    wk: F32
    wv: F32
    wo: F32
    ffn_norm: F32
    w_gate: F32
    w_up: F32
    w_down: F32

    def check(self, config: LayerConfig) -> None:
        """Raise ValueError or TypeError for a weight whose shape or dtype is not the layer's."""
        shapes = config.weight_shapes()
        for item in fields(self):
            array = getattr(self, item.name)
            if array.dtype != np.float32:
                raise TypeError(f"weight {item.name} is {array.dtype}; it must be float32")
            if array.shape != shapes[item.name]:
                raise ValueError(
                    f"weight {item.name} has shape {array.shape}; the layer needs {shapes[item.name]}"
                )


@dataclass(frozen=True, slots=True)
class LayerCase:
    """One layer with its weights and input.

    Attributes:
        name: its name in reports.
        slug: its name for files.
        hidden_in: float32 [tokens, hidden], the residual stream that enters the layer.
        notes: sentences for the report: where the input comes from, what was prepared on the host.
    """

    name: str
    slug: str
    config: LayerConfig
    weights: LayerWeights
    hidden_in: F32
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.weights.check(self.config)
        if self.hidden_in.ndim != 2 or self.hidden_in.shape[1] != self.config.hidden:
            raise ValueError(
                f"the input has shape {self.hidden_in.shape}; the layer needs [tokens, {self.config.hidden}]"
            )
        if self.hidden_in.dtype != np.float32:
            raise TypeError(f"the input is {self.hidden_in.dtype}; it must be float32")
        if not len(self.hidden_in):
            raise ValueError("the input has no tokens")


@dataclass(frozen=True, slots=True)
class StackCase:
    """The first layers of a model, from token numbers to the logits of the last token.

    Attributes:
        name: its name in reports.
        slug: its name for files.
        layers: number of layers.
        layer: returns the weights of a layer, by its index.
        table: float32 [vocabulary, hidden]: embedding, and head of the logits.
        final_norm: float32 [hidden].
        ids: int32 [tokens], the numbers of the input's tokens.
        word: returns the text of a token, by its number.
        notes: sentences for the report.
    """

    name: str
    slug: str
    config: LayerConfig
    layers: int
    layer: Callable[[int], LayerWeights]
    table: F32
    final_norm: F32
    ids: NDArray[np.int32]
    word: Callable[[int], str]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.layers < 1:
            raise ValueError(f"layers is {self.layers}; a stack has at least 1")
        if self.ids.ndim != 1 or not len(self.ids):
            raise ValueError(f"ids have shape {self.ids.shape}; a stack needs a row of at least one token")
        hidden = self.config.hidden
        if self.table.ndim != 2 or self.table.shape[1] != hidden or self.final_norm.shape != (hidden,):
            raise ValueError(
                f"the table has shape {self.table.shape}, the final norm {self.final_norm.shape}; "
                f"the model needs [vocabulary, {hidden}] and [{hidden}]"
            )
