"""Gradients, loss and optimiser, compared with float64, whose formulas central differences confirm."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from echo_npu import Device, DeviceTensor
from echo_npu.reference import training as reference
from echo_npu.reference.norm import layer_norm, rms_norm
from echo_npu.reference.softmax import softmax
from tests.arrays import normal
from tests.refusals import refuses
from tests.runtime.ops.accuracy import TINY, UNIT, assert_within, total_units

F64 = NDArray[np.float64]
LENGTHS = [1, 2, 17, 100, 513]


def slope(function: Callable[[F64], Any], x: Any, dy: Any) -> F64:
    """Compute the gradient of `sum(dy * function(x))` by central differences."""
    wide = np.asarray(x, np.float64)
    result = np.zeros_like(wide)
    for index in np.ndindex(*wide.shape):
        step = 1e-6 * max(1.0, abs(wide[index]))
        ends = []
        for sign in (1, -1):
            moved = wide.copy()
            moved[index] += sign * step
            ends.append(np.sum(dy * function(moved)))
        result[index] = (ends[0] - ends[1]) / (2 * step)
    return result


def gelu(x: F64) -> F64:
    return x * 0.5 * (1 + reference._ERF(x / np.sqrt(2)))


def gelu_tanh(x: F64) -> F64:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def silu(x: F64) -> F64:
    return x / (1 + np.exp(-x))


def test_the_references_are_gradients() -> None:
    dy, x = normal(3, 7).astype(np.float64), 2 * normal(3, 7, seed=1).astype(np.float64)
    weight, bias = normal(7, seed=2).astype(np.float64), normal(7, seed=3).astype(np.float64)
    rms = reference.rms_norm_backward(dy, x, weight, 1e-3)
    layer = reference.layer_norm_backward(dy, x, weight, 1e-3)
    targets = np.array([2, 0, 6])
    pairs = [
        (
            reference.softmax_backward(dy, softmax(x, scale=0.3), 0.3),
            slope(lambda t: softmax(t, scale=0.3), x, dy),
        ),
        (reference.silu_backward(dy, x), slope(silu, x, dy)),
        (reference.gelu_backward(dy, x), slope(gelu, x, dy)),
        (reference.gelu_backward(dy, x, "tanh"), slope(gelu_tanh, x, dy)),
        (rms[0], slope(lambda t: rms_norm(t, weight, 1e-3), x, dy)),
        (rms[1], slope(lambda t: rms_norm(x, t, 1e-3), weight, dy)),
        (layer[0], slope(lambda t: layer_norm(t, weight, bias, 1e-3), x, dy)),
        (layer[1], slope(lambda t: layer_norm(x, t, bias, 1e-3), weight, dy)),
        (layer[2], slope(lambda t: layer_norm(x, weight, t, 1e-3), bias, dy)),
        (
            reference.cross_entropy_backward(x, targets, 1.5),
            slope(lambda t: reference.cross_entropy(t, targets), x, 1.5),
        ),
    ]
    for gradient, difference in pairs:
        assert np.allclose(gradient, difference, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("length", [*LENGTHS, 9000])
@pytest.mark.parametrize("scale", [1.0, 0.125])
def test_softmax_backward(npu: Device, length: int, scale: float) -> None:
    dy, y = normal(3, length), softmax(normal(3, length, seed=1)).astype(np.float32)
    wide = np.abs(dy.astype(np.float64) * y)
    magnitude = scale * (wide + y * wide.sum(axis=-1, keepdims=True))
    result = npu.softmax_backward(dy, y, scale=scale)
    bound = (total_units(length) + 4) * UNIT * magnitude + 4 * TINY
    assert_within(result, reference.softmax_backward(dy, y, scale), bound)


def test_softmax_backward_in_place(npu: Device) -> None:
    dy, y = normal(4, 6, 50), normal(4, 6, 50, seed=1)
    expected = npu.softmax_backward(dy, y)
    for other in (npu.tensor(y), npu.tensor(np.repeat(y, 2, axis=1))[:, ::2]):
        tensor = npu.tensor(dy)
        assert npu.softmax_backward(tensor, other, out=tensor) is tensor
        assert np.array_equal(tensor.to_numpy(), expected)


def arguments() -> NDArray[np.float32]:
    """Return arguments of both signs and every size, and the corners."""
    sizes = np.float32(2.0) ** np.arange(-140, 128, 3, dtype=np.float32)
    near = np.linspace(-20, 20, 401, dtype=np.float32)
    corners = np.array([0.0, np.inf], np.float32)
    return np.concatenate([sizes, -sizes, near, corners, -corners])


ELEMENTWISE = [
    ("silu_backward", {}),
    ("gelu_backward", {"approximate": "none"}),
    ("gelu_backward", {"approximate": "tanh"}),
]


@pytest.mark.parametrize(("name", "options"), ELEMENTWISE, ids=str)
def test_elementwise_gradients(npu: Device, name: str, options: dict[str, str]) -> None:
    x = arguments()
    dy = normal(*x.shape) + np.float32(3)
    expected = getattr(reference, name)(dy, x, **options)
    # The terms of a derivative near its zero are at most about as large as the sigmoid times 1 + |x|.
    share = 1 / (1 + np.exp(-np.clip(x.astype(np.float64), -60, 60)))
    magnitude = np.abs(dy) * np.minimum(share * (1 + np.abs(np.clip(x, -60, 60))), 2.0)
    assert_within(getattr(npu, name)(dy, x, **options), expected, 12 * UNIT * magnitude + 2 * TINY)


@pytest.mark.parametrize(("name", "options"), ELEMENTWISE, ids=str)
def test_elementwise_gradients_of_nan(npu: Device, name: str, options: dict[str, str]) -> None:
    x = np.array([np.nan, 1.0, np.nan], np.float32)
    dy = np.array([1.0, np.nan, np.nan], np.float32)
    assert np.isnan(getattr(npu, name)(dy, x, **options)).all()


@pytest.mark.parametrize(("name", "options"), ELEMENTWISE, ids=str)
def test_elementwise_gradients_of_views(npu: Device, name: str, options: dict[str, str]) -> None:
    dy, x = normal(4, 6, 50), normal(4, 6, 50, seed=1)
    left, right = npu.tensor(dy), npu.tensor(x)
    op = getattr(npu, name)
    expected = op(dy, x, **options)
    assert np.array_equal(op(left[:, ::2, 1:], right[:, ::2, 1:], **options).to_numpy(), expected[:, ::2, 1:])
    assert np.array_equal(op(left.T, right.T, **options).to_numpy(), expected.T)
    assert op(left, right, out=right, **options) is right
    assert np.array_equal(right.to_numpy(), expected)


@pytest.mark.parametrize("length", [*LENGTHS, 700])
@pytest.mark.parametrize("leading", [(3,), (2, 2)], ids=str)
def test_rms_norm_backward(npu: Device, length: int, leading: tuple[int, ...]) -> None:
    dy, x, weight = normal(*leading, length), normal(*leading, length, seed=1), normal(length, seed=2)
    eps = float(np.float32(1e-6))
    expected = reference.rms_norm_backward(dy, x, weight, eps)
    result = npu.rms_norm_backward(dy, x, weight, eps)
    unit = np.abs(rms_norm(x, None, eps))
    inner = np.abs(dy.astype(np.float64) * weight)
    rate = 1 / np.sqrt(np.mean(x.astype(np.float64) ** 2, axis=-1, keepdims=True) + eps)
    magnitude = rate * (inner + unit * np.mean(inner * unit, axis=-1, keepdims=True))
    units = 2 * total_units(length) + 16
    assert_within(result[0], expected[0], units * UNIT * magnitude)
    down = np.sum((np.abs(dy) * unit).reshape(-1, length), axis=0)
    assert_within(result[1], expected[1], (units + 4) * UNIT * down)


@pytest.mark.parametrize("length", [*LENGTHS, 700])
@pytest.mark.parametrize("leading", [(3,), (2, 2)], ids=str)
def test_layer_norm_backward(npu: Device, length: int, leading: tuple[int, ...]) -> None:
    dy, x, weight = normal(*leading, length), normal(*leading, length, seed=1), normal(length, seed=2)
    eps = float(np.float32(1e-2))
    expected = reference.layer_norm_backward(dy, x, weight, eps)
    result = npu.layer_norm_backward(dy, x, weight, eps)
    unit = np.abs(layer_norm(x, eps=eps))
    inner = np.abs(dy.astype(np.float64) * weight)
    wide = x.astype(np.float64)
    rate = 1 / np.sqrt(np.var(wide, axis=-1, keepdims=True) + eps)
    # An error of the mean moves every difference: relative to the mean magnitude, not to the difference.
    shifted = unit + rate * np.mean(np.abs(wide), axis=-1, keepdims=True)
    mean = np.mean(inner, axis=-1, keepdims=True)
    magnitude = rate * (inner + mean + (1 + shifted) * np.mean(inner * (1 + shifted), axis=-1, keepdims=True))
    units = 3 * total_units(length) + 20
    assert_within(result[0], expected[0], units * UNIT * magnitude)
    down = np.sum((np.abs(dy) * (1 + shifted)).reshape(-1, length), axis=0)
    assert_within(result[1], expected[1], units * UNIT * down)
    assert_within(result[2], expected[2], 4 * UNIT * np.abs(dy).reshape(-1, length).sum(axis=0))


def test_norm_gradients_stay_on_the_device(npu: Device) -> None:
    dy, x, weight = normal(4, 6, 50), normal(4, 6, 50, seed=1), normal(50, seed=2)
    count = npu.capabilities.row_elements + 16
    for op in (npu.rms_norm_backward, npu.layer_norm_backward):
        expected = op(dy, x, weight)
        assert [each.shape for each in expected] == [(4, 6, 50), *[(50,)] * (len(expected) - 1)]
        result = op(npu.tensor(dy.T).T, npu.tensor(x), npu.tensor(weight))
        for tensor, array in zip(result, expected, strict=True):
            assert isinstance(tensor, DeviceTensor)
            assert np.array_equal(tensor.to_numpy(), array)
        long = op(normal(2, count), normal(2, count, seed=1), normal(count, seed=2))
        function = reference.rms_norm_backward if len(long) == 2 else reference.layer_norm_backward
        truth = function(normal(2, count), normal(2, count, seed=1), normal(count, seed=2))
        for array, wide in zip(long, truth, strict=True):
            assert_within(array, wide, 3e-4)


@pytest.mark.parametrize("name", ["rms_norm_backward", "layer_norm_backward"])
@pytest.mark.parametrize("ends", ["new", "with gaps", "operands"])
def test_norm_gradients_into_tensors(npu: Device, name: str, ends: str) -> None:
    """Results go to tensors of the caller: fresh ones, columns of a wider one, or the operands themselves."""
    op = getattr(npu, name)
    arrays = normal(4, 6, 50), normal(4, 6, 50, seed=1), normal(50, seed=2)
    expected = op(*arrays)
    dy, x, weight = (npu.tensor(each) for each in arrays)
    bias = npu.full(50, 7.0)
    if ends == "new":
        dx, scale = npu.full((4, 6, 50), 7.0), npu.full(50, 7.0)
    elif ends == "with gaps":
        wide = npu.full((4, 6, 70), 7.0)
        dx, scale = wide[..., 3:53], npu.full((50, 3), 7.0)[:, 1]
    else:
        dx, scale = dy, weight
    out = (dx, scale, bias)[: len(expected)]
    result = op(dy, x, weight, out=out)
    for given, tensor, array in zip(out, result, expected, strict=True):
        assert tensor is given
        assert np.array_equal(tensor.to_numpy(), array)
    if ends == "with gaps":
        assert np.all(wide.to_numpy()[..., :3] == 7.0)
        assert np.all(wide.to_numpy()[..., 53:] == 7.0)


@pytest.mark.parametrize("name", ["rms_norm_backward", "layer_norm_backward"])
def test_some_norm_gradients_into_tensors(npu: Device, name: str) -> None:
    """One result goes to a tensor; the others stay on the device too."""
    op = getattr(npu, name)
    arrays = normal(3, 5), normal(3, 5, seed=1), normal(5, seed=2)
    expected = op(*arrays)
    scale = npu.empty(5)
    result = op(*arrays, out=[None, scale, None][: len(expected)])
    assert result[1] is scale
    for tensor, array in zip(result, expected, strict=True):
        assert np.array_equal(tensor.to_numpy(), array)


@pytest.mark.parametrize("vocabulary", [1, 2, 17, 700, 9000])
@pytest.mark.parametrize("leading", [(), (5,), (2, 3)], ids=str)
def test_cross_entropy(npu: Device, vocabulary: int, leading: tuple[int, ...]) -> None:
    logits = 3 * normal(*leading, vocabulary)
    targets = np.random.default_rng(1).integers(0, vocabulary, leading)
    expected = reference.cross_entropy(logits, targets)
    largest = np.abs(logits.astype(np.float64)).max()
    units = total_units(vocabulary) + 4 * largest + 20
    result = npu.cross_entropy(logits, targets)
    assert_within(result, np.asarray(expected), units * UNIT * (1 + abs(expected)))
    shares = softmax(logits)
    gradient = reference.cross_entropy_backward(logits, targets, 0.5)
    onehot = np.arange(vocabulary) == np.asarray(targets)[..., None]
    bound = units * UNIT * (shares + onehot) * 0.5 / max(1, np.size(targets)) + TINY
    assert_within(npu.cross_entropy_backward(logits, targets, dy=0.5), gradient, bound)


def test_cross_entropy_on_the_device(npu: Device) -> None:
    logits, targets = normal(4, 6, 50), np.random.default_rng(1).integers(0, 50, (4, 6)).astype(np.int32)
    tensor, numbers = npu.tensor(logits), npu.tensor(targets)
    loss = npu.cross_entropy(tensor, numbers)
    assert isinstance(loss, DeviceTensor)
    assert loss.shape == ()
    assert np.array_equal(loss.to_numpy(), npu.cross_entropy(logits, targets))
    gradient = npu.cross_entropy_backward(logits, targets)
    turned = npu.cross_entropy_backward(tensor.swapaxes(0, 1), numbers.T)
    assert np.array_equal(turned.to_numpy(), gradient.swapaxes(0, 1))
    assert npu.cross_entropy_backward(tensor, numbers, out=tensor) is tensor
    assert np.array_equal(tensor.to_numpy(), gradient)
    numbers[0, 0].copy_from(np.array(50, np.int32))
    assert np.isposinf(npu.cross_entropy(tensor, numbers).to_numpy())


def test_cross_entropy_corners(npu: Device) -> None:
    logits = normal(2, 40)
    logits[0, 3] = -np.inf
    assert np.isfinite(npu.cross_entropy(logits, [1, 1]))
    assert np.isposinf(npu.cross_entropy(logits, [3, 1]))
    logits[1, 7] = np.nan
    assert np.isnan(npu.cross_entropy(logits, [1, 1]))


@pytest.mark.parametrize("shape", [(1,), (17,), (40, 30), ()], ids=str)
def test_adamw_steps(npu: Device, shape: tuple[int, ...]) -> None:
    p, m, v = np.asarray(normal(*shape)), np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    tensors = [npu.tensor(each) for each in (p, m, v)]
    options: dict[str, Any] = {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}
    for step in (1, 2, 3):
        g = np.asarray(normal(*shape, seed=step))
        expected = reference.adamw_step(p, g, m, v, step, **options)
        result = npu.adamw_step(p, g, m, v, step=step, **options)
        bounds = [8 * UNIT * (np.abs(p) + 0.05), 4 * UNIT * (np.abs(m) + np.abs(g)), 4 * UNIT * (v + g * g)]
        for array, truth, bound in zip(result, expected, bounds, strict=True):
            assert_within(array, truth, bound)
        moved = npu.adamw_step(tensors[0], g, tensors[1], tensors[2], step=step, **options)
        for tensor, same, array in zip(tensors, moved, result, strict=True):
            assert same is tensor
            assert np.array_equal(tensor.to_numpy(), array)
        p, m, v = result


def test_adamw_is_three_commands(npu: Device) -> None:
    zeros = [npu.full((4, 50), 0.0) for _ in range(2)]
    tensors = [npu.tensor(normal(4, 50)), npu.tensor(normal(4, 50, seed=1)), *zeros]
    npu.adamw_step(*tensors, step=1)
    commands = npu.counters()["commands"]
    npu.adamw_step(*tensors, step=2)
    assert npu.counters()["commands"] == commands + 3


def test_errors(npu: Device) -> None:
    x = normal(3, 5)
    refuses(ValueError, r"dy has shape \(3, 5\), y has shape \(3, 4\)", npu.softmax_backward, x, x[:, :4])
    with pytest.raises(TypeError, match="dy is ndarray of float32, x is ndarray of float64"):
        npu.silu_backward(x, x.astype(np.float64))
    refuses(ValueError, "approximate is 'erf'", npu.gelu_backward, x, x, approximate="erf")
    with pytest.raises(ValueError, match=r"weight has shape \(3,\), x has shape \(3, 5\)"):
        npu.rms_norm_backward(x, x, normal(3))
    with pytest.raises(ValueError, match=r"dy has shape \(2, 5\), x has shape \(3, 5\)"):
        npu.layer_norm_backward(x[:2], x, normal(5))
    with pytest.raises(TypeError, match="out must be 2 DeviceTensors or None"):
        npu.rms_norm_backward(x, x, normal(5), out=npu.empty(5))
    with pytest.raises(ValueError, match=r"out has shape \(3, 5\), the result has shape \(5,\)"):
        npu.rms_norm_backward(x, x, normal(5), out=(None, npu.empty((3, 5))))
    shared = npu.empty((3, 5))
    refuses(ValueError, "share memory", npu.rms_norm_backward, x, x, normal(5), out=(shared, shared[1]))
    refuses(ValueError, r"logits have shape \(3, 5\), targets \(2,\)", npu.cross_entropy, x, [0, 1])
    with pytest.raises(IndexError, match=r"targets lie in 0\.\.5; they must lie in 0\.\.4"):
        npu.cross_entropy_backward(x, [0, 1, 5])
    refuses(TypeError, "targets are integers", npu.cross_entropy, x, np.zeros(3))
    refuses(ValueError, r"p has shape \(3, 5\), g has shape \(5,\)", npu.adamw_step, x, x[0], x, x, step=1)
    refuses(ValueError, "step is 0", npu.adamw_step, x, x, x, x, step=0)
    refuses(ValueError, "it must be contiguous", npu.adamw_step, npu.tensor(normal(5, 3)).T, x, x, x, step=1)
