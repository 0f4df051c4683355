"""Windows of images: convolution and pooling. Images are [..., channels, height, width]."""

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from echo_npu.reference import F64

Pair = tuple[int, int]


def windows(
    x: Any, kernel: Pair, stride: Pair, padding: Pair, fill: float = 0.0, dilation: Pair = (1, 1)
) -> F64:
    """Return the windows [..., C, out height, out width, kernel height, kernel width] of x [..., C, H, W]."""
    wide = np.asarray(x, np.float64)
    edges = [(0, 0)] * (wide.ndim - 2) + [(size, size) for size in padding]
    padded = np.pad(wide, edges, constant_values=fill)
    spans = [(count - 1) * step + 1 for count, step in zip(kernel, dilation, strict=True)]
    every = sliding_window_view(padded, spans, axis=(-2, -1))
    return np.asarray(every[..., :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]])


def max_pool2d(x: Any, kernel: Pair, stride: Pair, padding: Pair = (0, 0), dilation: Pair = (1, 1)) -> F64:
    """Compute the greatest of each window; padding is -infinity."""
    return np.asarray(windows(x, kernel, stride, padding, -np.inf, dilation).max(axis=(-2, -1)))


def avg_pool2d(x: Any, kernel: Pair, stride: Pair, padding: Pair = (0, 0)) -> F64:
    """Compute the mean of each window; padding counts as zeros."""
    return np.asarray(windows(x, kernel, stride, padding).mean(axis=(-2, -1)))


def conv2d(x: Any, weight: Any, bias: Any = None, stride: Pair = (1, 1), padding: Pair = (0, 0)) -> F64:
    """Cross-correlate x [N, C, H, W] with weight [O, C, kernel height, kernel width], bias [O]."""
    taps = windows(x, np.shape(weight)[2:], stride, padding)
    result: F64 = np.einsum("nchwyx,ocyx->nohw", taps, np.asarray(weight, np.float64))
    return result if bias is None else result + np.asarray(bias, np.float64)[:, None, None]
