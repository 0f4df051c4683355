"""Calls of elementwise operations.

Tests check the functional model's results; every other backend must give the same bits.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echo_npu import Device
from tests.arrays import normal
from tests.runtime.ops.accuracy import F32

Case = Callable[[Device], Any]

CORNERS = np.array(
    [0.0, 2.0**-149, 2.0**-127, 2.0**-126, 2.0**-30, 0.5, 1.0, 1.5, 2.0, 88.8, 104.5, 2.0**19, 2.0**100,
     3.4e38, np.inf, np.nan],
    dtype=np.float32,
)  # fmt: skip

UNARY = ("neg", "abs", "relu", "reciprocal", "sqrt", "rsqrt", "exp", "log", "sin", "cos", "tanh", "sigmoid")
UNARY += ("silu", "gelu", "gelu_tanh")
EXACT_UNARY: dict[str, Callable[..., Any]] = {
    "neg": np.negative,
    "abs": np.abs,
    "relu": lambda x: np.maximum(x, np.float32(0)),
}
BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "minimum": np.minimum, "maximum": np.maximum,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip
"""numpy's function by the name of the method; only `div` may differ in bits."""


def arguments(count: int = 640, seed: int = 0) -> F32:
    """Return the corners with both signs, moderate numbers, and numbers of all exponents."""
    rng = np.random.default_rng(seed)
    rest = count - 2 * CORNERS.size
    moderate = rng.uniform(-10, 10, rest // 2).astype(np.float32)
    spread = rng.integers(0, 2**32, rest - rest // 2, dtype=np.uint32).view(np.float32)
    return np.concatenate([CORNERS, -CORNERS, moderate, spread])


def pairs() -> tuple[F32, F32]:
    """Return every pair of corners, and random pairs."""
    corners = np.concatenate([CORNERS, -CORNERS])
    a, b = (each.ravel() for each in np.meshgrid(corners, corners))
    more = arguments(400, seed=1), np.roll(arguments(400, seed=2), 77)
    return np.concatenate([a, more[0]]), np.concatenate([b, more[1]])


def call_unary(name: str, npu: Device, x: Any, **options: Any) -> Any:
    """Call one of UNARY."""
    if name == "gelu_tanh":
        return npu.gelu(x, approximate="tanh", **options)
    return getattr(npu, name)(x, **options)


def _unary(name: str) -> Case:
    return lambda npu: call_unary(name, npu, arguments())


def _binary(name: str) -> Case:
    return lambda npu: getattr(npu, name)(*pairs())


def _power(exponent: float) -> Case:
    return lambda npu: npu.pow(arguments(), exponent)


def _views(npu: Device) -> NDArray[Any]:
    """Return operands with gaps, transposed, broadcast, with more axes than a command has."""
    x = npu.tensor(normal(3, 4, 5, 6, 7))
    y = npu.tensor(normal(5, 8, 3))
    left = x.transpose(3, 1, 4, 0, 2)[:, ::2, 1:6]
    right = y[:, ::4, :2].transpose(1, 2, 0)[:, :, None, None, :]
    total = npu.mul(left[:, :, :, :2], right[:1])
    assert total.shape == (6, 2, 5, 2, 5)
    return np.asarray(npu.sub(total, x[0, 0, 0, 0, 0]).to_numpy())


def _in_place(npu: Device) -> NDArray[Any]:
    x = npu.tensor(normal(9, 70))
    npu.exp(x, out=x)
    npu.add(x, npu.tensor(normal(70)), out=x)
    npu.mul(x, x, out=x)
    npu.sub(x[:, ::2], 1.0, out=x[:, ::2])
    return x.to_numpy()


def _quantized(npu: Device) -> NDArray[Any]:
    q, scales = npu.quantize(quantizable())
    return np.concatenate([q.astype(np.float32), npu.dequantize(q, scales), scales[:, None]], axis=1)


def quantizable() -> F32:
    """Return rows of all sizes, zero rows, rows with infinities and NaN, and subnormal ones."""
    x = normal(9, 333)
    x[1] = 0
    x[2, 5], x[3, 7] = np.inf, np.nan
    x[4] *= np.float32(2.0**-140)
    x[5] *= np.float32(2.0**120)
    x[6] = -np.abs(x[6])
    x[7] *= np.float32(2.0**-127)
    x[8] = np.arange(-166, 167)
    return x


def _cast(dtype: Any) -> Case:
    return lambda npu: npu.cast(arguments(), dtype)


def _back(dtype: Any) -> Case:
    bits = np.arange(0, 2**16, 37, dtype=np.uint16)
    return lambda npu: npu.cast(bits if dtype == "bfloat16" else bits.view(dtype), np.float32)


CASES: dict[str, Case] = {
    **{name: _unary(name) for name in UNARY},
    **{name: _binary(name) for name in BINARY},
    **{f"pow {exponent}": _power(exponent) for exponent in (-3.0, -0.37, 0.0, 0.5, 1.0, 2.0, 3.0, 7.5, 33.0)},
    "add row": lambda npu: npu.add(normal(5, 70), normal(70)),
    "add column": lambda npu: npu.add(normal(5, 70), normal(5, 1), alpha=0.3),
    "sub from a number": lambda npu: npu.sub(1.0, arguments()),
    "clamp": lambda npu: npu.clamp(arguments(), -2.5, 3.0),
    "clamp above": lambda npu: npu.clamp(arguments(), max=3.0),
    "where": lambda npu: npu.where(pairs()[0], pairs()[0], pairs()[1]),
    "where bool": lambda npu: npu.where(normal(5, 70) > 0, normal(5, 70, seed=1), 2.0),
    "masked_fill": lambda npu: npu.masked_fill(normal(5, 70), normal(70) > 0, -np.inf),
    "addcmul": lambda npu: npu.addcmul(normal(5, 70), normal(70), normal(5, 1), 0.3),
    "addcdiv": lambda npu: npu.addcdiv(normal(5, 70), normal(70), normal(5, 1), -0.3),
    "views": _views,
    "in place": _in_place,
    "quantize": _quantized,
    **{f"to {np.dtype(dtype)}": _cast(dtype) for dtype in (np.float16, np.int32)},
    "to bfloat16": _cast("bfloat16"),
    **{f"from {dtype}": _back(dtype) for dtype in ("float16", "bfloat16", "int16", "int8", "uint8")},
}
"""Calls by name; each returns a numpy array."""
