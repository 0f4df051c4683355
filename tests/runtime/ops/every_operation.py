"""A random trial of every operation: its operands as views, the call, and numpy's result."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echo_npu import BlockLinear, Device, formats
from echo_npu.ops.quantized_linear import QuantizedLinear
from echo_npu.reference import attention, blocks, elementwise, norm, pool, rope, softmax, training
from tests.runtime.ops.elementwise_cases import BINARY, EXACT_UNARY, UNARY
from tests.runtime.ops.random_views import Draw, View

Array = NDArray[Any]
ROUNDINGS = 2.0**-20
"""Allowed error, relative to the sum of magnitudes, of operations that are not exact."""


@dataclasses.dataclass(frozen=True)
class OperationTrial:
    """An operation to be called.

    Attributes:
        views: its arrays.
        call: takes the device, the arrays, and `out` as a keyword if there is one.
        truth: takes the arrays; gives one result, or a tuple of several.
        scale: takes the arrays; ROUNDINGS of what it gives are allowed. None: the bits are numpy's.
        stable: whether the bits are those of dense operands; a sum's order may follow the layout.
        out: shape and dtype of `out`; None: the operation has none.
        out_dense: how many axes of `out` must be dense.
        meets: whether `out` may overlap the operands.
        offered: whether a device has the operation; one that does not refuses it with TypeError.
    """

    views: Sequence[View]
    call: Callable[..., Any]
    truth: Callable[..., Any]
    scale: Callable[..., Any] | None = None
    stable: bool = True
    out: tuple[tuple[int, ...], Any] | None = None
    out_dense: int = 0
    meets: bool = True
    offered: Callable[[Device], bool] = lambda device: True


def _ones(*arrays: Array) -> float:
    return 8.0


def _method(name: str, *words: Any, **options: Any) -> Callable[..., Any]:
    """The call of a method of the device with the arrays, then `words`."""
    return lambda device, *arrays, **out: getattr(device, name)(*arrays, *words, **options, **out)


def _elementwise(
    draw: Draw, call: Callable[..., Any], truth: Callable[..., Any], count: int, scale: Any = None
) -> OperationTrial:
    shape = draw.shape()
    views = [draw.view(shape)] + [draw.view(draw.broadcast(shape)) for _ in range(count - 1)]
    return OperationTrial(views, call, truth, scale, out=(shape, np.float32))


def _unary(name: str) -> Callable[[Draw], OperationTrial]:
    if name in EXACT_UNARY:
        return lambda draw: _elementwise(draw, _method(name), EXACT_UNARY[name], 1)
    return _rounded(name, lambda x: elementwise.FUNCTIONS[name].truth(x.astype(np.float64)))


def _rounded(name: str, truth: Callable[[Array], Array], *words: Any) -> Callable[[Draw], OperationTrial]:
    """Make a trial of an operation of one array whose error is relative to its result."""
    return lambda draw: _elementwise(draw, _method(name, *words), truth, 1, lambda x: np.abs(truth(x)) + 1)


def _binary(name: str, function: Callable[..., Any]) -> Callable[[Draw], OperationTrial]:
    def truth(a: Array, b: Array) -> Array:
        return np.asarray(function(a, b), np.float32)

    return lambda draw: _elementwise(draw, _method(name), truth, 2)


def _gelu(draw: Draw) -> OperationTrial:
    name, truth = draw.random.choice((("none", elementwise.gelu), ("tanh", elementwise.gelu_tanh)))
    return _elementwise(draw, _method("gelu", name), lambda x: truth(x.astype(np.float64)), 1, _ones)


def _clamp(draw: Draw) -> OperationTrial:
    if draw.random.random() < 0.5:
        return _elementwise(draw, _method("clamp"), lambda x, a, b: np.minimum(np.maximum(x, a), b), 3)
    return _elementwise(draw, _method("clamp", max=0.5), lambda x: np.minimum(x, np.float32(0.5)), 1)


def _power(draw: Draw) -> OperationTrial:
    exponent = draw.random.choice((-1.0, 0.0, 0.5, 2.0, 3.0, 7.0))
    if exponent == 0.5:
        return _rounded("pow", lambda x: np.sqrt(x.astype(np.float64)), exponent)(draw)
    return _rounded("pow", lambda x: np.power(x.astype(np.float64), exponent), exponent)(draw)


def _flags(rng: np.random.Generator, count: int) -> Array:
    return rng.integers(0, 2, count)


def _where(draw: Draw) -> OperationTrial:
    shape, dtype = draw.shape(), draw.random.choice((bool, np.int8, np.int16, np.int32, np.float32))
    condition = draw.view(draw.broadcast(shape), dtype, _flags)
    views = [condition, draw.view(shape), draw.view(draw.broadcast(shape))]
    return OperationTrial(
        views, _method("where"), lambda c, a, b: np.where(c != 0, a, b), out=(shape, np.float32)
    )


def _masked_fill(draw: Draw) -> OperationTrial:
    shape = draw.shape()
    views = [draw.view(shape), draw.view(draw.broadcast(shape), bool, _flags)]
    call = _method("masked_fill", -3.5)
    return OperationTrial(views, call, lambda x, m: np.where(m, np.float32(-3.5), x), out=(shape, np.float32))


def _three(name: str, function: Callable[..., Any]) -> Callable[[Draw], OperationTrial]:
    def truth(x: Array, a: Array, b: Array) -> Array:
        return x + 0.5 * function(a.astype(np.float64), b.astype(np.float64))

    def scale(x: Array, a: Array, b: Array) -> Array:
        return np.abs(x) + np.abs(truth(x, a, b) - x) + 1

    return lambda draw: _elementwise(draw, _method(name, 0.5), truth, 3, scale)


def _any_bits(rng: np.random.Generator, count: int) -> Array:
    return rng.integers(-100, 100, count)


def _cast(draw: Draw) -> OperationTrial:
    source = draw.random.choice((np.float32, np.float16, np.int32, np.int16, np.int8, np.uint8, bool))
    target = draw.random.choice((np.float32, np.float16, np.int32))
    shape = draw.shape()
    views = [draw.view(shape, source, _any_bits)]
    return OperationTrial(views, _method("cast", target), lambda x: x.astype(target), out=(shape, target))


def _quantize(draw: Draw) -> OperationTrial:
    def truth(x: Array) -> tuple[Array, Array]:
        scales = np.abs(x).max(axis=-1) / np.float32(127)
        q = np.nan_to_num(np.round(x / scales[..., None]))
        return np.clip(q, -127, 127).astype(np.int8), scales

    return OperationTrial([draw.view(draw.shape())], _method("quantize"), truth)


def _dequantize(draw: Draw) -> OperationTrial:
    shape = draw.shape()
    views = [draw.view(shape, np.int8, _any_bits), draw.view(shape[:-1])]
    call = _method("dequantize")
    return OperationTrial(
        views, call, lambda q, s: q.astype(np.float32) * s[..., None], out=(shape, np.float32)
    )


def _reduction(name: str) -> Callable[[Draw], OperationTrial]:
    def make(draw: Draw) -> OperationTrial:
        shape = draw.shape()
        axes = sorted(draw.random.sample(range(len(shape)), draw.random.randint(1, len(shape))))
        axis = draw.random.choice((tuple(axes), axes[0], None))
        keep = draw.random.random() < 0.5
        result = np.sum(np.zeros(shape), axis=axis, keepdims=keep).shape
        exact = name in ("max", "min")
        return OperationTrial(
            [draw.view(shape)],
            _method(name, axis, keep),
            lambda x: getattr(np, name)(x if exact else x.astype(np.float64), axis=axis, keepdims=keep),
            None if exact else lambda x: np.sum(np.abs(x), axis=axis, keepdims=keep),
            stable=exact,
            out=(result, np.float32),
        )

    return make


def _argmax(draw: Draw) -> OperationTrial:
    shape = draw.shape()
    axis = draw.random.choice((None, draw.random.randrange(len(shape))))
    keep = draw.random.random() < 0.5
    return OperationTrial(
        [draw.view(shape)],
        _method("argmax", axis, keep),
        lambda x: np.argmax(x, axis=axis, keepdims=keep).astype(np.int32),
        out=(np.argmax(np.zeros(shape), axis=axis, keepdims=keep).shape, np.int32),
    )


def _top_k(draw: Draw) -> OperationTrial:
    shape = draw.shape()
    count = draw.random.randint(1, shape[-1])

    def truth(x: Array) -> tuple[Array, Array]:
        order = np.argsort(-x, axis=-1, kind="stable")[..., :count]
        return np.take_along_axis(x, order, axis=-1) + np.float32(0), order.astype(np.int32)

    return OperationTrial([draw.view(shape)], _method("top_k", count), truth)


def _softmax(draw: Draw) -> OperationTrial:
    shape, options = draw.shape(), {"scale": draw.random.choice((1.0, 0.5, -0.3))}
    axis, causal = draw.random.randrange(len(shape)), False
    masked = axis == len(shape) - 1 and draw.random.random() < 0.5
    if axis == len(shape) - 1 and len(shape) > 1 and shape[-1] >= shape[-2]:
        causal = draw.random.random() < 0.5
    views = [draw.view(shape)] + [draw.view(draw.broadcast(shape))] * masked
    return OperationTrial(
        views,
        lambda d, x, mask=None, **k: d.softmax(x, axis, causal=causal, mask=mask, **options, **k),
        lambda x, mask=None: softmax.softmax(x, axis, options["scale"], causal, mask),
        _ones,
        stable=False,
        out=(shape, np.float32),
    )


def _normalised(name: str, function: Callable[..., Any], most: int) -> Callable[[Draw], OperationTrial]:
    def make(draw: Draw) -> OperationTrial:
        shape = draw.shape()
        views = [draw.view(shape)]
        views += [draw.view(shape[-1:]) for _ in range(draw.random.randint(0, most))]
        return OperationTrial(
            views,
            _method(name, eps=0.01),
            lambda *arrays: function(*arrays, eps=0.01),
            lambda x, *vectors: 64 * (1 + sum(np.abs(each) for each in vectors)),
            out=(shape, np.float32),
        )

    return make


def _angles(rng: np.random.Generator, count: int) -> Array:
    return rng.uniform(-1, 1, count)


def _rope(draw: Draw) -> OperationTrial:
    shape = (*draw.shape(1, 4, budget=200), 2 * draw.random.randint(1, 9))
    axis = 0 if len(shape) == 2 else draw.random.randrange(len(shape) - 1)
    pairs = draw.random.random() < 0.5
    tables = [draw.view((shape[axis], shape[-1] // 2), values=_angles) for _ in range(2)]

    def truth(x: Array, cos: Array, sin: Array) -> Array:
        ones = (None,) * (len(shape) - axis - 2)
        cos, sin = (each.astype(np.float64)[(slice(None), *ones)] for each in (cos, sin))
        half = shape[-1] // 2
        first, second = (x[..., ::2], x[..., 1::2]) if pairs else (x[..., :half], x[..., half:])
        pair = first * cos - second * sin, second * cos + first * sin
        return np.stack(pair, -1).reshape(shape) if pairs else np.concatenate(pair, -1)

    return OperationTrial(
        [draw.view(shape), *tables],
        _method("rope", interleaved=pairs, token_axis=axis),
        truth,
        _ones,
        out=(shape, np.float32),
        out_dense=0 if pairs else 1,
    )


def _rope_tables(draw: Draw) -> OperationTrial:
    tokens, width = draw.random.randint(1, 9), 2 * draw.random.randint(1, 9)

    def truth() -> tuple[Array, Array]:
        angle = rope.angles(np.arange(tokens), width)
        return np.cos(angle), np.sin(angle)

    return OperationTrial([], _method("rope_tables", tokens, width), truth, _ones)


def _matmul(draw: Draw) -> OperationTrial:
    batch = draw.shape(0, 3, budget=12)
    m, k, n = (draw.random.choice((1, 2, 5, 9, draw.random.randint(1, 30))) for _ in range(3))
    trans_a, trans_b = draw.random.random() < 0.3, draw.random.random() < 0.3
    dtype = draw.random.choice((np.float32, np.float32, np.float16, np.int8))
    a = draw.view((*draw.broadcast(batch), *((k, m) if trans_a else (m, k))), dtype, _any_bits, dense=2)
    b = draw.view((*batch, *((n, k) if trans_b else (k, n))), dtype, _any_bits, dense=2)

    def wide(a: Array, b: Array) -> tuple[Array, Array]:
        a, b = a.astype(np.float64), b.astype(np.float64)
        return a.swapaxes(-1, -2) if trans_a else a, b.swapaxes(-1, -2) if trans_b else b

    return OperationTrial(
        [a, b],
        _method("matmul", trans_a=trans_a, trans_b=trans_b),
        lambda a, b: np.matmul(*wide(a, b)),
        lambda a, b: np.matmul(*map(np.abs, wide(a, b))),
        out=((*batch, m, n), np.float32),
        out_dense=2,
        meets=False,
    )


def _attention(draw: Draw) -> OperationTrial:
    batch = draw.shape(0, 2, budget=4)
    group, kv_heads = draw.random.randint(1, 3), draw.random.randint(1, 3)
    tokens, keys, width, values = (draw.random.randint(1, 9) for _ in range(4))
    causal = keys >= tokens and draw.random.random() < 0.5
    query, cache = (*batch, group * kv_heads, tokens), (*batch, kv_heads, keys)
    return OperationTrial(
        [draw.view(shape, dense=2) for shape in ((*query, width), (*cache, width), (*cache, values))],
        _method("attention", causal=causal),
        lambda q, k, v: attention.attention(q, k, v, causal),
        _ones,
        stable=False,
        out=((*query, values), np.float32),
        out_dense=2,
    )


def _embedding(draw: Draw) -> OperationTrial:
    rows, shape = draw.random.randint(1, 9), draw.shape(0, 3, budget=60)
    dtype = draw.random.choice((np.float32, np.int8, np.float64))
    table = draw.view((rows, *shape), dtype, _any_bits, dense=1 + len(shape))

    def ids(rng: np.random.Generator, count: int) -> Array:
        return rng.integers(0, rows, count)

    places = draw.shape(1, 2, budget=20)
    views = [table, draw.view(places, np.int32, ids)]
    return OperationTrial(views, _method("embedding"), lambda t, i: t[i], out=((*places, *shape), dtype))


def _scatter_rows(draw: Draw) -> OperationTrial:
    """Rows of one type or of two, into a copy of the table."""
    height, width = draw.random.randint(1, 9), draw.random.randint(1, 9)
    places = draw.shape(1, 2, budget=20)
    source, target = draw.random.choice(
        ((np.float32, np.float32), (np.int8, np.int8), (np.float64, np.float64), (np.float32, np.float16))
    )

    def indices(rng: np.random.Generator, count: int) -> Array:
        return rng.integers(0, height, count)

    def call(device: Device, table: Any, listed: Any, rows: Any) -> Any:
        placed = device.tensor(table) if isinstance(table, np.ndarray) else device.copy(table)
        return device.scatter_rows(placed, listed, rows)

    def truth(table: Array, listed: Array, rows: Array) -> Array:
        result = table.copy()
        for index, row in zip(listed.reshape(-1), rows.reshape(-1, width), strict=True):
            result[index] = row.astype(target)
        return result

    views = [
        draw.view((height, width), target, _any_bits),
        draw.view(places, draw.random.choice((np.int32, np.int64)), indices),
        draw.view((*places, width), source, _any_bits),
    ]
    return OperationTrial(views, call, truth)


def _moved(name: str) -> Callable[[Draw], OperationTrial]:
    def make(draw: Draw) -> OperationTrial:
        shape = draw.shape(2 if name == "transpose" else 1)
        axes = tuple(range(len(shape)))
        if name == "permute":
            axes = tuple(draw.random.sample(axes, len(axes)))
        if name == "transpose":
            axes = (*axes[:-2], axes[-1], axes[-2])
        words = (axes,) if name == "permute" else ()
        dtype = draw.random.choice((np.float32, np.uint8, np.int16, np.float64))
        return OperationTrial(
            [draw.view(shape, dtype, _any_bits)],
            _method(name, *words),
            lambda x: x.transpose(axes),
            out=(tuple(shape[axis] for axis in axes), dtype),
            meets=False,
        )

    return make


def _cat(draw: Draw) -> OperationTrial:
    shape, dtype = list(draw.shape(budget=500)), draw.random.choice((np.float32, np.uint8, np.float64))
    axis = draw.random.randrange(len(shape))
    views = []
    for _ in range(draw.random.randint(1, 4)):
        shape[axis] = draw.random.randint(1, 6)
        views.append(draw.view(shape, dtype, _any_bits))
    shape[axis] = sum(view.shape[axis] for view in views)
    return OperationTrial(
        views,
        lambda d, *arrays, **k: d.cat(arrays, axis, **k),
        lambda *arrays: np.concatenate(arrays, axis),
        out=(tuple(shape), dtype),
    )


def _full(draw: Draw) -> OperationTrial:
    shape, value = draw.shape(), draw.random.choice((0.0, -2.5, math.inf))
    return OperationTrial([], _method("full", shape, value), lambda: np.full(shape, value, np.float32))


def _images(draw: Draw) -> tuple[tuple[int, ...], tuple[int, int], tuple[int, int], tuple[int, int]]:
    r = draw.random
    shape = (r.randint(1, 2), r.randint(1, 3), r.randint(1, 9), r.randint(1, 9))
    padding = r.randint(0, 1), r.randint(0, 1)
    kernel = r.randint(1, min(4, shape[2] + 2 * padding[0])), r.randint(1, min(6, shape[3] + 2 * padding[1]))
    return shape, kernel, (r.randint(1, 3), r.randint(1, 3)), padding


def _result(
    shape: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> Any:
    return tuple((shape[i + 2] + 2 * padding[i] - kernel[i]) // stride[i] + 1 for i in (0, 1))


def _im2col(draw: Draw) -> OperationTrial:
    sizes = shape, kernel, stride, padding = _images(draw)
    high, wide = _result(*sizes)
    made = (shape[0], shape[1] * kernel[0] * kernel[1], high * wide)
    return OperationTrial(
        [draw.view(shape)],
        _method("im2col", kernel, stride=stride, padding=padding),
        lambda x: (
            pool.windows(x, kernel, stride, padding).transpose(0, 1, 4, 5, 2, 3).reshape(made).astype(x.dtype)
        ),
        out=(made, np.float32),
    )


def _conv2d(draw: Draw) -> OperationTrial:
    sizes = shape, kernel, stride, padding = _images(draw)
    filters, biased = draw.random.randint(1, 5), draw.random.random() < 0.5
    views = [draw.view(shape), draw.view((filters, shape[1], *kernel), dense=4)]
    return OperationTrial(
        views + [draw.view((filters,))] * biased,
        _method("conv2d", stride=stride, padding=padding),
        lambda x, w, b=None: pool.conv2d(x, w, b, stride, padding),
        lambda x, w, b=None: pool.conv2d(
            np.abs(x), np.abs(w), np.abs(b) if biased else None, stride, padding
        ),
        out=((shape[0], filters, *_result(*sizes)), np.float32),
    )


def _pool(name: str, function: Callable[..., Any], scale: Any) -> Callable[[Draw], OperationTrial]:
    def make(draw: Draw) -> OperationTrial:
        sizes = shape, kernel, stride, padding = _images(draw)
        return OperationTrial(
            [draw.view(shape)],
            _method(name, kernel, stride=stride, padding=padding),
            lambda x: function(x, kernel, stride, padding).astype(np.float64 if scale else np.float32),
            scale,
            out=((*shape[:2], *_result(*sizes)), np.float32),
        )

    return make


def _gradient(name: str, vectors: int = 0) -> Callable[[Draw], OperationTrial]:
    function = getattr(training, name)

    def make(draw: Draw) -> OperationTrial:
        shape = draw.shape()
        views = [draw.view(shape), draw.view(shape)] + [draw.view(shape[-1:])] * vectors
        many = vectors > 0
        options = {"eps": 0.01} if many else {}
        return OperationTrial(
            views,
            _method(name, **options),
            lambda *arrays: function(*arrays, **options),
            lambda dy, x, *rest: (
                64 * (1 + np.abs(dy).sum()) * (1 + np.abs(x).max()) * (1 + sum(np.abs(w).max() for w in rest))
            ),
            stable=not many,
            out=None if many else (shape, np.float32),
        )

    return make


def _logits(draw: Draw) -> tuple[tuple[int, ...], list[View]]:
    shape = draw.shape()

    def targets(rng: np.random.Generator, count: int) -> Array:
        return rng.integers(0, shape[-1], count)

    return shape, [draw.view(shape), draw.view(shape[:-1], np.int32, targets)]


def _cross_entropy(draw: Draw) -> OperationTrial:
    _, views = _logits(draw)

    def truth(x: Array, targets: Array) -> Array:
        return np.asarray(training.cross_entropy(x, targets))

    return OperationTrial(views, _method("cross_entropy"), truth, _ones, out=((), np.float32))


def _cross_entropy_backward(draw: Draw) -> OperationTrial:
    shape, views = _logits(draw)

    def truth(x: Array, targets: Array) -> Array:
        return training.cross_entropy_backward(x, targets, 0.5)

    return OperationTrial(
        views, _method("cross_entropy_backward", dy=0.5), truth, _ones, out=(shape, np.float32)
    )


def _positive(rng: np.random.Generator, count: int) -> Array:
    return rng.uniform(0.5, 2, count)


def _adamw_step(draw: Draw) -> OperationTrial:
    shape = draw.shape(budget=300)
    arrays = [draw.view(shape, values=_positive, dense=len(shape)).numpy() for _ in range(4)]
    return OperationTrial(
        [],  # it overwrites its operands on the device
        lambda d: d.adamw_step(*arrays, step=3),
        lambda: training.adamw_step(*arrays, step=3),
        _ones,
    )


def _linear(draw: Draw) -> OperationTrial:
    shape, outputs = draw.shape(1, 4, budget=300), draw.random.randint(1, 9)
    biased = draw.random.random() < 0.5
    views = [draw.view(shape), draw.view((outputs, shape[-1]), np.int8, _any_bits), draw.view((outputs,))] + [
        draw.view((outputs,))
    ] * biased

    def truth(x: Array, w: Array, s: Array, b: Any = 0.0) -> Array:
        scales = np.abs(x).max(axis=-1, keepdims=True) / np.float32(127)
        q = np.clip(np.nan_to_num(np.round(x / scales)), -127, 127)
        return (q @ w.T.astype(np.float64)) * scales * s + b

    return OperationTrial(
        views,
        lambda d, x, w, s, b=None: QuantizedLinear(d, w, s, b)(x),
        truth,
        lambda x, w, s, b=0.0: 16 * (1 + np.abs(x).max() * 128 * w.shape[1]) * (1 + np.abs(s)) + np.abs(b),
    )


def _block_linear(draw: Draw) -> OperationTrial:
    name = draw.random.choice(tuple(formats.FORMATS))
    outputs, inputs = draw.random.randint(1, 40), formats.BLOCK * draw.random.randint(1, 4)
    weights = draw.view((outputs, inputs), dense=2).numpy()
    packed = formats.pack(weights, name)
    shape = (*draw.shape(0, 3, budget=20), inputs)
    biased = draw.random.random() < 0.5
    views = [draw.view(shape)] + [draw.view((outputs,))] * biased

    def truth(x: Array, bias: Array | None = None) -> Array:
        parts = packed.parts()
        product = blocks.block_product(x.reshape(-1, inputs), parts.q, parts.d, parts.m)
        return (product if bias is None else product + bias).reshape(*shape[:-1], outputs)

    return OperationTrial(
        views,
        lambda d, x, b=None, **out: BlockLinear(d, packed, bias=b)(x, **out),
        truth,
        out=((*shape[:-1], outputs), np.float32),
        out_dense=min(2, len(shape)),
        meets=False,
        offered=lambda device: name in device.capabilities.block_formats,
    )


EVERY: dict[str, Callable[[Draw], OperationTrial]] = {
    **{name: _unary(name) for name in UNARY if not name.startswith("gelu")},
    "gelu": _gelu,
    **{name: _binary(name, function) for name, function in BINARY.items()},
    "clamp": _clamp,
    "pow": _power,
    "where": _where,
    "masked_fill": _masked_fill,
    "addcmul": _three("addcmul", np.multiply),
    "addcdiv": _three("addcdiv", np.divide),
    "cast": _cast,
    "quantize": _quantize,
    "dequantize": _dequantize,
    **{name: _reduction(name) for name in ("sum", "mean", "max", "min")},
    "argmax": _argmax,
    "top_k": _top_k,
    "softmax": _softmax,
    "rms_norm": _normalised("rms_norm", norm.rms_norm, 1),
    "layer_norm": _normalised("layer_norm", norm.layer_norm, 2),
    "rope": _rope,
    "rope_tables": _rope_tables,
    "matmul": _matmul,
    "attention": _attention,
    "embedding": _embedding,
    "scatter_rows": _scatter_rows,
    **{name: _moved(name) for name in ("copy", "clone", "contiguous", "permute", "transpose")},
    "cat": _cat,
    "full": _full,
    "im2col": _im2col,
    "conv2d": _conv2d,
    "max_pool2d": _pool("max_pool2d", pool.max_pool2d, None),
    "avg_pool2d": _pool("avg_pool2d", pool.avg_pool2d, _ones),
    **{name: _gradient(name) for name in ("softmax_backward", "silu_backward", "gelu_backward")},
    **{name: _gradient(name, vectors=1) for name in ("rms_norm_backward", "layer_norm_backward")},
    "cross_entropy": _cross_entropy,
    "cross_entropy_backward": _cross_entropy_backward,
    "adamw_step": _adamw_step,
    "QuantizedLinear": _linear,
    "BlockLinear": _block_linear,
}
"""Trials by the name of the method of `Device`, or of the class."""
