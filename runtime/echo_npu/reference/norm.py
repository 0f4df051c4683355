"""Normalisations over the last axis."""

from typing import Any

import numpy as np

from echo_npu.reference import F64


def rms_norm(x: Any, weight: Any = None, eps: float = 1e-6) -> F64:
    """Compute `x / sqrt(mean(x**2) + eps) * weight` (Zhang and Sennrich 2019)."""
    wide = np.asarray(x, np.float64)
    result: F64 = wide / np.sqrt(np.mean(wide * wide, axis=-1, keepdims=True) + eps)
    return result if weight is None else result * np.asarray(weight, np.float64)


def layer_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> F64:
    """Compute `(x - mean(x)) / sqrt(var(x) + eps) * weight + bias` (Ba, Kiros, Hinton 2016)."""
    wide = np.asarray(x, np.float64)
    centred = wide - wide.mean(axis=-1, keepdims=True)
    result: F64 = centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + eps)
    if weight is not None:
        result = result * np.asarray(weight, np.float64)
    return result if bias is None else result + np.asarray(bias, np.float64)
