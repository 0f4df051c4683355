"""Gradients, the loss and the optimiser step of training.

A backward function takes `dy`, the gradient of the loss with respect to the operation's result.
"""

import math
from typing import Any

import numpy as np

from echo_npu.reference import F64

_ERF = np.vectorize(math.erf, otypes=[np.float64])


def softmax_backward(dy: Any, y: Any, scale: float = 1.0) -> F64:
    """Compute the gradient of `y = softmax(scale * x)` over the last axis.

    It is `scale * y * (dy - sum(dy * y))`.
    """
    wide, result = np.asarray(dy, np.float64), np.asarray(y, np.float64)
    return np.asarray(scale * result * (wide - np.sum(wide * result, axis=-1, keepdims=True)))


def silu_backward(dy: Any, x: Any) -> F64:
    """Compute the gradient of `x * sigmoid(x)`: `dy * s * (1 + x * (1 - s))`, `s = sigmoid(x)`."""
    wide = _finite(x)
    small = np.exp(-np.abs(wide))
    sigmoid = np.where(wide >= 0, 1.0, small) / (1.0 + small)
    opposite = np.where(wide >= 0, small, 1.0) / (1.0 + small)
    return np.asarray(np.asarray(dy, np.float64) * sigmoid * (1.0 + wide * opposite))


def gelu_backward(dy: Any, x: Any, approximate: str = "none") -> F64:
    """Compute the gradient of gelu (Hendrycks and Gimpel 2016).

    It is `x * Phi(x)` for "none", or its form with tanh for "tanh".
    """
    wide, grad = _finite(x), np.asarray(dy, np.float64)
    if approximate == "tanh":
        factor = math.sqrt(2 / math.pi)
        inner = np.tanh(factor * (wide + 0.044715 * wide**3))
        slope = factor * (1.0 + 3 * 0.044715 * wide**2)
        return np.asarray(grad * (0.5 * (1.0 + inner) + 0.5 * wide * (1.0 - inner**2) * slope))
    density = np.exp(-0.5 * wide**2) / math.sqrt(2 * math.pi)
    return np.asarray(grad * (0.5 * (1.0 + _ERF(wide / math.sqrt(2))) + wide * density))


def _finite(x: Any) -> F64:
    """Limit x to +-1000, where the derivatives have reached their limits, to avoid infinity times zero."""
    return np.clip(np.asarray(x, np.float64), -1000.0, 1000.0)


def rms_norm_backward(dy: Any, x: Any, weight: Any, eps: float = 1e-6) -> tuple[F64, F64]:
    """Compute the gradients (dx, dweight) of `rms_norm(x, weight, eps)`."""
    wide, grad = np.asarray(x, np.float64), np.asarray(dy, np.float64)
    rate = 1.0 / np.sqrt(np.mean(wide * wide, axis=-1, keepdims=True) + eps)
    unit = wide * rate
    inner = grad * np.asarray(weight, np.float64)
    dx = rate * (inner - unit * np.mean(inner * unit, axis=-1, keepdims=True))
    return dx, np.sum((grad * unit).reshape(-1, wide.shape[-1]), axis=0)


def layer_norm_backward(dy: Any, x: Any, weight: Any, eps: float = 1e-5) -> tuple[F64, F64, F64]:
    """Compute the gradients (dx, dweight, dbias) of `layer_norm(x, weight, bias, eps)`."""
    wide, grad = np.asarray(x, np.float64), np.asarray(dy, np.float64)
    centred = wide - wide.mean(axis=-1, keepdims=True)
    rate = 1.0 / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + eps)
    unit = centred * rate
    inner = grad * np.asarray(weight, np.float64)
    dx = rate * (
        inner - np.mean(inner, axis=-1, keepdims=True) - unit * np.mean(inner * unit, axis=-1, keepdims=True)
    )
    width = wide.shape[-1]
    return dx, np.sum((grad * unit).reshape(-1, width), axis=0), np.sum(grad.reshape(-1, width), axis=0)


def cross_entropy(logits: Any, targets: Any) -> np.float64:
    """Compute the mean over rows of `log(sum(exp(logits))) - logits[target]`.

    Args:
        logits: [..., V].
        targets: int [...].
    """
    wide = np.asarray(logits, np.float64)
    shifted = wide - wide.max(axis=-1, keepdims=True)
    picked = np.take_along_axis(shifted, np.asarray(targets)[..., None], axis=-1)[..., 0]
    return np.float64(np.mean(np.log(np.sum(np.exp(shifted), axis=-1)) - picked))


def cross_entropy_backward(logits: Any, targets: Any, dy: float = 1.0) -> F64:
    """Compute the gradient of `cross_entropy`, times `dy`.

    It is `(softmax(logits) - onehot(targets)) * dy / rows`.
    """
    wide = np.asarray(logits, np.float64)
    odds = np.exp(wide - wide.max(axis=-1, keepdims=True))
    onehot = np.arange(wide.shape[-1]) == np.asarray(targets)[..., None]
    shares = odds / odds.sum(axis=-1, keepdims=True)
    return np.asarray((shares - onehot) * (dy / np.asarray(targets).size))


def adamw_step(
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    step: int,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
) -> tuple[F64, F64, F64]:
    """Return the step number `step` (from 1) of AdamW (Loshchilov and Hutter 2019): the new (p, m, v)."""
    grad = np.asarray(g, np.float64)
    first = betas[0] * np.asarray(m, np.float64) + (1 - betas[0]) * grad
    second = betas[1] * np.asarray(v, np.float64) + (1 - betas[1]) * grad**2
    decayed = np.asarray(p, np.float64) * (1 - lr * weight_decay)
    rate = np.sqrt(second / (1 - betas[1] ** step)) + eps
    return decayed - lr * (first / (1 - betas[0] ** step)) / rate, first, second
