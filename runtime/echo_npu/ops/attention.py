"""Scaled dot-product attention as one submission."""

from typing import Any

import numpy as np

from echo_npu.driver.command_device import CommandDevice
from echo_npu.ops.matmul import matmul_commands
from echo_npu.ops.operands import check_out, require_float32, upload
from echo_npu.ops.rows import run, target_for
from echo_npu.ops.softmax import check_mask, softmax_commands
from echo_npu.tensor import DeviceTensor


def attention(
    device: CommandDevice,
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
    mask: Any = None,
    out: DeviceTensor | None = None,
) -> Any:
    """Compute `softmax(scale * q @ k^T + mask) @ v` (Vaswani et al. 2017) as one submission.

    The scores stay on the device. Query head h uses key head h // (heads / kv_heads).

    Args:
        q: float32 [..., heads, T, D]; a DeviceTensor's last axis is contiguous, its other axes have any
            strides, so heads may lie side by side.
        k: float32 [..., kv_heads, S, D], likewise.
        v: float32 [..., kv_heads, S, E], likewise.
        causal: query t sees the keys 0 .. t + S - T.
        scale: None: 1 / sqrt(D).
        mask: float32, broadcast to [..., heads, T, S].
        out: a DeviceTensor of the result's shape to write to, its last axis contiguous.

    Returns: float32 [..., heads, T, E]. A query that sees no key gives NaN.

    Raises:
        TypeError: a dtype other than float32, or no array.
        ValueError: shapes that do not fit one another; an empty array.
    """
    require_float32("attention", q=q, k=k, v=v, **({} if mask is None else {"mask": mask}))
    shapes = f"q has shape {q.shape}, k has shape {k.shape}, v has shape {v.shape}"
    if min(q.ndim, k.ndim, v.ndim) < 3 or 0 in (*q.shape, *k.shape, *v.shape):
        raise ValueError(f"attention takes [..., heads, tokens, head_dim], none empty: {shapes}")
    if k.shape[:-1] != v.shape[:-1]:
        raise ValueError(f"attention: k and v differ in heads or tokens: {shapes}")
    if q.shape[:-3] != k.shape[:-3] or q.shape[-1] != k.shape[-1] or q.shape[-3] % k.shape[-3]:
        raise ValueError(
            f"attention: batch or head_dim differ, or heads are no multiple of kv_heads: {shapes}"
        )
    *batch, heads, tokens, width = q.shape
    kv_heads, keys = k.shape[-3:-1]
    if mask is not None:
        check_mask("attention", mask, (*batch, heads, tokens, keys))
    shape = (*batch, heads, tokens, v.shape[-1])
    check_out(device, "attention", out, shape)

    query, key, value = (upload(device, each, "activation") for each in (q, k, v))
    added = None if mask is None else upload(device, mask, "activation")
    scores, shares = (device.empty((*batch, heads, tokens, keys)) for _ in range(2))
    target = target_for(
        device, shape, out, [query, key, value] if added is None else [query, key, value, added]
    )
    grouped = (*batch, kv_heads, heads // kv_heads)

    def group(tensor: DeviceTensor) -> DeviceTensor:
        return tensor.reshape(*grouped, *tensor.shape[-2:])

    def shared(tensor: DeviceTensor) -> DeviceTensor:
        return tensor[..., None, :, :]

    factor = np.float32(1 / np.sqrt(width) if scale is None else scale)
    commands = [
        *matmul_commands(group(query), shared(key).swapaxes(-1, -2), group(scores), grouped),
        *softmax_commands(device, scores, shares, scale=float(factor), causal=causal, mask=added),
        *matmul_commands(group(shares), shared(value), group(target), grouped),
    ]
    what = f"q {q.shape}, k {k.shape}, v {v.shape}{' causal' * causal}{' masked' * (mask is not None)}"
    return run(device, f"attention {what}", commands, target, out, [q, k, v, mask])
