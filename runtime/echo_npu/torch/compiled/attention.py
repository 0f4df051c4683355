"""Keep attention whole: PyTorch would trace it as several operators."""

from typing import Any

import torch
from torch import fx
from torch.nn import functional

from echo_npu.torch.ops.attention import OVERRIDEABLE, choice

_aten = torch.ops.aten


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Do as `scaled_dot_product_attention`, as one operator where it is one without compilation."""
    options: dict[str, Any] = {"scale": scale, "enable_gqa": enable_gqa}
    native = q.device.type == "echo_npu"
    if not native or choice(q, k, v, attn_mask, dropout_p, is_causal, **options) != OVERRIDEABLE:
        return functional.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal, **options)
    bias = attn_mask
    if bias is not None and bias.dtype == torch.bool:
        zeros = torch.zeros_like(bias, dtype=q.dtype)
        bias = zeros.masked_fill(bias.logical_not(), float("-inf"))
    fused = _aten._scaled_dot_product_fused_attention_overrideable
    return fused(q, k, v, bias, dropout_p, is_causal, False, scale=scale)[0]


def keep_attention(module: fx.GraphModule) -> None:
    """Replace the calls of `scaled_dot_product_attention` in a graph of Dynamo by `attention`."""
    found = [
        node
        for node in module.graph.nodes
        if node.op == "call_function" and node.target is functional.scaled_dot_product_attention
    ]
    for node in found:
        node.target = attention
    if found:
        module.recompile()
