"""The operators of PyTorch's fast path for transformer encoders in inference, made of other operators."""

from typing import Any, Final

import torch
from torch.nn import functional

from echo_npu.torch.kernels import native
from echo_npu.torch.types import FLOATS

_SQUARE: Final = 0
_PADDING: Final = 1
"""Kinds of masks: [queries, keys] for the whole batch, or [batch, keys]; else [batch, heads, queries, keys].
What is not 0 leaves a key out, in floating point too, as on the CPU."""


def _kept(mask: torch.Tensor, kind: int | None) -> torch.Tensor:
    """Return which keys each query may see, to broadcast over [batch, heads, queries, keys]."""
    if kind == _SQUARE:
        mask = mask[None, None]
    elif kind == _PADDING:
        mask = mask[:, None, None]
    return torch.logical_not(mask.to(torch.bool))


def _heads(
    x: torch.Tensor, heads: int, weight: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return queries, keys and values [batch, heads, tokens, width] of rows [batch, tokens, features]."""
    batch, tokens, _ = x.shape
    made = functional.linear(x, weight, bias).reshape(batch, tokens, 3, heads, -1)
    queries, keys, values = made.permute(2, 0, 3, 1, 4).unbind(0)
    return queries, keys, values


def _joined(x: torch.Tensor) -> torch.Tensor:
    """Return [batch, tokens, features] of [batch, heads, tokens, width]."""
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


def _foreign(*tensors: torch.Tensor) -> bool:
    """Return whether the device lacks a type, or the layout, of these."""
    wrong = any(each.is_nested or each.dtype not in FLOATS or not each.numel() for each in tensors)
    return wrong or tensors[0].dim() != 3


@native("_native_multi_head_attention")
def native_multi_head_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:
    if query is not key or key is not value or _foreign(query, qkv_weight):
        return NotImplemented
    queries, keys, values = _heads(query, num_head, qkv_weight, qkv_bias)
    kept = None if mask is None else _kept(mask, mask_type)
    if not need_weights:
        seen = functional.scaled_dot_product_attention(queries, keys, values, kept)
        return functional.linear(_joined(seen), proj_weight, proj_bias), None
    scores = torch.matmul(queries * (queries.shape[-1] ** -0.5), keys.transpose(-2, -1))
    if kept is not None:
        scores = scores.masked_fill(torch.logical_not(kept), -torch.inf)
    shares = torch.softmax(scores, -1)
    made = functional.linear(_joined(torch.matmul(shares, values)), proj_weight, proj_bias)
    return made, shares.mean(1) if average_attn_weights else shares


@native("_transformer_encoder_layer_fwd")
def transformer_encoder_layer(
    src: torch.Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> Any:
    if _foreign(src, qkv_weight, ffn_weight_1):
        return NotImplemented

    def first(x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    def attention(x: torch.Tensor) -> torch.Tensor:
        queries, keys, values = _heads(x, num_heads, qkv_weight, qkv_bias)
        kept = None if mask is None else _kept(mask, mask_type)
        seen = functional.scaled_dot_product_attention(queries, keys, values, kept)
        return functional.linear(_joined(seen), proj_weight, proj_bias)

    def feed_forward(x: torch.Tensor) -> torch.Tensor:
        inner = functional.linear(x, ffn_weight_1, ffn_bias_1)
        inner = functional.gelu(inner) if use_gelu else functional.relu(inner)
        return functional.linear(inner, ffn_weight_2, ffn_bias_2)

    if norm_first:
        src = src + attention(first(src))
        return src + feed_forward(second(src))
    src = first(src + attention(src))
    return second(src + feed_forward(src))


@native("_nested_tensor_from_mask_left_aligned")
def left_aligned(t: torch.Tensor, mask: torch.Tensor) -> bool:
    """Say that rows cannot be packed by their lengths: the device has no nested tensors, and has masks."""
    return False
