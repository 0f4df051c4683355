"""Scaled dot-product attention and its gradient."""

import math
from typing import Any

import numpy as np
import torch

from echo_npu.ops.methods import OpMethods
from echo_npu.ops.rows import last_axis_commands, row_fits
from echo_npu.tensor import DeviceTensor
from echo_npu.torch.kernels import native
from echo_npu.torch.launch import launch
from echo_npu.torch.ops.common import Tensors, float_target, narrowed, widened
from echo_npu.torch.ops.matrix import operand
from echo_npu.torch.storages import like
from echo_npu.torch.types import FLOATS
from echo_npu.vector.kernels.softmax import softmax

OVERRIDEABLE = int(torch.nn.attention.SDPBackend.OVERRIDEABLE.value)
_MATH = int(torch.nn.attention.SDPBackend.MATH.value)


@native("_fused_sdp_choice")
def choice(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> int:
    """Choose the device's own attention, or the one of several operators."""
    plain = dropout_p == 0.0 and all(each.dim() == 4 and each.numel() for each in (q, k, v))
    same = all(each.dtype == q.dtype for each in (k, v)) and q.dtype in FLOATS
    mask = attn_mask is None or (not attn_mask.requires_grad and attn_mask.dtype in (torch.bool, q.dtype))
    grouped = k.dim() == 4 and q.dim() == 4 and k.shape[1] == v.shape[1] and q.shape[1] % k.shape[1] == 0
    return OVERRIDEABLE if plain and same and mask and grouped and q.shape[0] == k.shape[0] else _MATH


def _shares(
    npu: OpMethods, q: DeviceTensor, k: DeviceTensor, mask: Tensors, causal: bool, scale: float
) -> DeviceTensor:
    """Return softmax(scale * q @ k^T + mask): [N, kv_heads, group, T, S]."""
    scores = npu.matmul(q, k[:, :, None], trans_b=True)
    shares = npu.empty(scores.shape)
    cols = scores.shape[-1]
    program = softmax(
        scaled=scale != 1.0,
        negative=not scale > 0.0,
        causal=causal,
        masked=bool(mask),
        kept=row_fits(npu, cols),
    )
    given = [scores]
    for each in mask:
        heads = each.shape[-3] if each.ndim > 2 else 1
        whole = each.broadcast_to(scores.shape[0], heads, *scores.shape[-2:])
        given.append(whole[:, :, None] if heads == 1 else npu.contiguous(whole).reshape(*scores.shape))
    params: list[Any] = [np.float32(scale)]
    if causal:
        params.append(np.int32(0))  # PyTorch aligns the first query with the first key
    npu.execute(last_axis_commands(npu, program, given, shares, params=params, keep_last=causal))
    return shares


def _grouped(npu: OpMethods, x: DeviceTensor, kv_heads: int) -> DeviceTensor:
    """Return float32 [N, kv_heads, group, T, D]."""
    whole: DeviceTensor = npu.contiguous(widened(npu, x))
    return whole.reshape(x.shape[0], kv_heads, x.shape[1] // kv_heads, *x.shape[2:])


def _forward(
    npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], causal: bool, scale: float
) -> None:
    q, k, v, *mask = inputs
    heads = k.shape[1]
    keys, values = (operand(npu, widened(npu, each)) for each in (k, v))
    masks = [widened(npu, each) for each in mask]
    shares = _shares(npu, _grouped(npu, q, heads), keys, masks, causal, scale)
    target = float_target(npu, outputs[0])
    whole = npu.matmul(shares, values[:, :, None])
    npu.copy(whole.reshape(*target.shape), out=target)
    narrowed(npu, target, outputs[0])


@native("_scaled_dot_product_fused_attention_overrideable")
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attn_bias: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> Any:
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    # The heads lie innermost but one, as the projection behind expects them.
    out = like(q, (q.shape[0], q.shape[2], q.shape[1], v.shape[-1])).transpose(1, 2)
    mask = [] if attn_bias is None else [attn_bias]
    launch("aten::scaled_dot_product_attention", _forward, (out,), (q, k, v, *mask), (is_causal, factor))
    rest = like(q, (*q.shape[:-1],), torch.float32)
    number = torch.zeros((), dtype=torch.int64)
    return out, rest, None, None, q.shape[2], k.shape[2], number, number, None


def _backward(
    npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], causal: bool, scale: float
) -> None:
    grad, q, k, v, *mask = inputs
    heads = k.shape[1]
    keys, values = (npu.contiguous(widened(npu, each)) for each in (k, v))
    query, gradient = _grouped(npu, q, heads), _grouped(npu, grad, heads)
    shares = _shares(npu, query, keys, [widened(npu, each) for each in mask], causal, scale)
    upstream = npu.matmul(gradient, values[:, :, None], trans_b=True)
    scores = npu.softmax_backward(upstream, shares, scale=scale)
    dq, dk, dv = outputs
    groups = query.shape[2]
    for out, made in (
        (dq, npu.matmul(scores, keys[:, :, None]).reshape(*dq.shape)),
        (dk, npu.matmul(scores, query, trans_a=True)),
        (dv, npu.matmul(shares, gradient, trans_a=True)),
    ):
        whole = made
        if made.ndim == 5:
            whole = made[:, :, 0] if groups == 1 else npu.sum(made, 2)
        target = float_target(npu, out)
        npu.copy(whole, out=target)
        narrowed(npu, target, out)


@native("_scaled_dot_product_fused_attention_overrideable_backward")
def attention_backward(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attn_bias: torch.Tensor | None,
    mask: Any,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    cum_seq_q: Any,
    cum_seq_k: Any,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Any,
    philox_offset: Any,
    *,
    scale: float | None = None,
) -> Any:
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    given = [] if attn_bias is None else [attn_bias]
    outs = tuple(like(each, each.shape) for each in (q, k, v))
    label = "aten::scaled_dot_product_attention_backward"
    launch(label, _backward, outs, (grad, q, k, v, *given), (is_causal, factor))
    return (*outs, None)
