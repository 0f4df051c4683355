"""Reductions, softmax, norms, rope, attention, images, training: the RTL and the functional model agree."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import echo_npu
from echo_npu import Device
from tests.arrays import normal
from tests.rtlmodel.simulated import STALLS, open_rtl

pytestmark = pytest.mark.sim


@pytest.fixture(
    scope="module", params=[("default", 0.0), ("small", STALLS)], ids=["default", "small, stalls"]
)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Device, Device]]:
    """An RTL simulation and a functional model."""
    config, stalls = request.param
    with (
        open_rtl(config, stalls=stalls, seed=5) as rtl,
        echo_npu.open("cmodel", config=config) as model,
    ):
        yield rtl, model


def corners(*shape: int) -> NDArray[np.float32]:
    """Draw ordinary numbers, with one row each that holds NaN, an infinity, or only -infinity."""
    values = normal(*shape)
    rows = values.reshape(-1, shape[-1])
    rows[0, shape[-1] // 2] = np.nan
    rows[1, -1] = np.inf
    rows[2] = -np.inf
    return values


def view(device: Device) -> Any:
    """Return a tensor with gaps and exchanged axes."""
    return device.tensor(normal(6, 40, 10)).transpose(2, 0, 1)[::2, :, 3:]


def targets(count: int, *shape: int) -> NDArray[np.int32]:
    return np.random.default_rng(1).integers(0, count, shape).astype(np.int32)


def attention(device: Device, **options: Any) -> Any:
    q, k, v = normal(2, 4, 5, 8), normal(2, 2, 9, 8, seed=1), normal(2, 2, 9, 8, seed=2)
    return device.attention(q, k, v, **options)


def in_place(device: Device) -> Any:
    tensor = device.tensor(normal(4, 6, 50))
    return device.rms_norm(device.softmax(tensor, out=tensor), normal(50), out=tensor)


Case = Callable[[Device], Any]
VECTOR, GRAD = normal(70, seed=1), normal(5, 70, seed=2)
LONG = 600
"""Elements of a row that is longer than a row register of the configuration `small`."""

CASES: dict[str, Case] = {
    **{
        f"{op} over {axis}": lambda d, op=op, axis=axis: getattr(d, op)(normal(3, 70, 5), axis)
        for op in ("sum", "mean", "max", "min", "argmax")
        for axis in (0, 1, 2, None)
    },
    "sum of corners": lambda d: d.sum(corners(5, 100), 1),
    "max of corners": lambda d: d.max(corners(100, 5), 0),
    "argmax of corners": lambda d: d.argmax(corners(5, 100), 1),
    "sum of a view": lambda d: d.sum(view(d), (0, 2)),
    "mean of a view": lambda d: d.mean(view(d), 1),
    "softmax": lambda d: d.softmax(normal(5, 70)),
    "softmax of corners": lambda d: d.softmax(corners(5, 70), scale=-0.3),
    "softmax of long rows": lambda d: d.softmax(normal(2, LONG), scale=0.5),
    "softmax, causal": lambda d: d.softmax(normal(2, 9, 20), causal=True, scale=0.5),
    "softmax, masked": lambda d: d.softmax(normal(2, 9, 20), mask=corners(9, 20), causal=True),
    "softmax, long, masked": lambda d: d.softmax(normal(2, LONG), mask=normal(1, LONG)),
    "softmax up to a number": lambda d: d.softmax(
        corners(5, 70), last=d.tensor(np.array([33], np.int32)), scale=0.5
    ),
    "softmax down": lambda d: d.softmax(normal(3, 9, 70), 1, scale=0.5),
    "softmax of a view": lambda d: d.softmax(view(d)),
    "rms_norm": lambda d: d.rms_norm(corners(5, 70), VECTOR),
    "rms_norm without weight, long": lambda d: d.rms_norm(normal(2, LONG)),
    "rms_norm, long": lambda d: d.rms_norm(normal(2, LONG), normal(LONG)),
    "layer_norm": lambda d: d.layer_norm(corners(5, 70), VECTOR, VECTOR),
    "layer_norm, bias alone": lambda d: d.layer_norm(normal(5, 70), None, VECTOR),
    "layer_norm, long": lambda d: d.layer_norm(normal(2, LONG), normal(LONG), normal(LONG)),
    "in place": in_place,
    "rope, halves": lambda d: d.rope(normal(5, 3, 80), *d.rope_tables(5, 80)),
    "rope into rows": lambda d: d.rope(
        normal(5, 3, 80),
        *d.rope_tables(5, 80, interleaved=True),
        interleaved=True,
        out=d.tensor(np.zeros((9, 3, 80), np.float32)),
        at=d.tensor(np.array([3, 8, 0, 3, 2], np.int32)),
    ),
    "rope, pairs": lambda d: d.rope(corners(5, 3, 80), *d.rope_tables(5, 80), interleaved=True),
    "attention": lambda d: attention(d, causal=True),
    "attention, masked": lambda d: attention(d, mask=normal(5, 9), scale=0.5),
    "embedding": lambda d: d.embedding(normal(20, 37), targets(20, 3, 5)),
    "scatter_rows": lambda d: d.scatter_rows(d.tensor(normal(20, 37)), targets(20, 3, 5), normal(3, 5, 37)),
    "scatter_rows, float16": lambda d: d.scatter_rows(
        d.tensor(normal(9, 70).astype(np.float16)), targets(9, 40).astype(np.int64), corners(40, 70)
    ),
    "cat": lambda d: d.cat([view(d), view(d)[:, :4], view(d)], 1),
    "permute": lambda d: d.permute(normal(3, 4, 5, 6), (2, 0, 3, 1)),
    "full": lambda d: d.full((3, 45), -np.inf),
    "im2col": lambda d: d.im2col(normal(2, 3, 9, 8), (3, 2), stride=2, padding=1),
    "conv2d": lambda d: d.conv2d(normal(2, 3, 9, 8), normal(5, 3, 3, 3), normal(5), padding=1),
    "max_pool2d": lambda d: d.max_pool2d(corners(2, 3, 8, 8), 2),
    "max_pool2d, wide": lambda d: d.max_pool2d(normal(1, 2, 9, 40), (3, 6), stride=2, padding=1),
    "avg_pool2d": lambda d: d.avg_pool2d(normal(1, 2, 9, 40), (3, 6), stride=(2, 3)),
    "softmax_backward": lambda d: d.softmax_backward(GRAD, normal(5, 70), scale=0.5),
    "softmax_backward, long": lambda d: d.softmax_backward(normal(2, LONG), normal(2, LONG, seed=1)),
    "silu_backward": lambda d: d.silu_backward(GRAD, 9 * corners(5, 70)),
    "gelu_backward": lambda d: d.gelu_backward(GRAD, 3 * corners(5, 70)),
    "gelu_backward, tanh": lambda d: d.gelu_backward(GRAD, 3 * corners(5, 70), approximate="tanh"),
    "rms_norm_backward": lambda d: d.rms_norm_backward(GRAD, normal(5, 70), VECTOR),
    "rms_norm_backward, long": lambda d: d.rms_norm_backward(normal(2, LONG), normal(2, LONG), normal(LONG)),
    "layer_norm_backward": lambda d: d.layer_norm_backward(GRAD, normal(5, 70), VECTOR),
    "layer_norm_backward, long": lambda d: d.layer_norm_backward(
        normal(2, LONG), normal(2, LONG), normal(LONG)
    ),
    "cross_entropy": lambda d: d.cross_entropy(normal(5, 70), targets(70, 5)),
    "cross_entropy, long": lambda d: d.cross_entropy(normal(2, LONG), targets(LONG, 2)),
    "cross_entropy_backward": lambda d: d.cross_entropy_backward(corners(5, 70), targets(70, 5)),
    "cross_entropy_backward, long": lambda d: d.cross_entropy_backward(normal(2, LONG), targets(LONG, 2)),
    "adamw_step": lambda d: d.adamw_step(GRAD, normal(5, 70), normal(5, 70), normal(5, 70) ** 2, step=3),
}


@pytest.mark.parametrize("name", CASES)
def test_same_bits(pair: tuple[Device, Device], name: str) -> None:
    rtl, model = (bits(CASES[name](device)) for device in pair)
    assert len(rtl) == len(model)
    for ours, theirs in zip(rtl, model, strict=True):
        assert ours.shape == theirs.shape
        assert np.array_equal(ours, theirs)


def bits(results: Any) -> list[NDArray[np.uint32]]:
    """Return every result of an operation as words."""
    each = results if isinstance(results, tuple) else (results,)
    arrays = [one if isinstance(one, (np.ndarray, np.generic)) else one.to_numpy() for one in each]
    return [np.asarray(array).view(np.uint32) for array in arrays]
