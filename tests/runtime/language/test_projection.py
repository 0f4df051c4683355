"""Weights on the device: columns of them, and a bias that is added to the product."""

import numpy as np
import pytest

import echo_npu
from echo_npu import PackedTensor, formats
from echo_npu.language.projection import BlockProjection, HalfProjection, Projection, joined, place
from tests.arrays import normal
from tests.refusals import refuses

INPUTS = 96
WIDTHS = 32, 41
"""Of two matrices side by side; the second one ends with a part of a tile."""


def packed_projection(device: echo_npu.Device) -> Projection:
    parts = [
        PackedTensor.upload(device, normal(width, INPUTS, seed=width), name)
        for width, name in zip(WIDTHS, ("q4_1", "q8_0"), strict=True)
    ]
    return BlockProjection(device, parts)


def half_projection(device: echo_npu.Device) -> Projection:
    return HalfProjection(device, place(device, normal(sum(WIDTHS), INPUTS).astype(np.float16)))


@pytest.mark.parametrize("make", [packed_projection, half_projection])
def test_columns_and_bias(make: type) -> None:
    with echo_npu.open("cmodel") as device:
        weights: Projection = make(device)
        assert (weights.outputs, weights.size) == (sum(WIDTHS), sum(WIDTHS) * INPUTS)
        rows = device.tensor(normal(1, INPUTS, seed=3))
        whole, bias = device.empty((1, sum(WIDTHS))), device.tensor(normal(sum(WIDTHS), seed=4))
        weights.apply(rows, whole)
        expected = whole.to_numpy()
        biased = device.empty(whole.shape)
        weights.apply(rows, biased, bias=bias)
        assert np.array_equal(biased.to_numpy(), expected + bias.to_numpy())
        assert np.array_equal(biased.to_numpy(), device.add(bias[None], whole).to_numpy())
        for first, stop in ((0, 16), (16, 64), (48, sum(WIDTHS)), (0, sum(WIDTHS))):
            part = weights.columns(first, stop)
            out = device.empty((1, stop - first))
            part.apply(rows, out)
            assert part.outputs == stop - first
            assert np.array_equal(out.to_numpy(), expected[:, first:stop])


@pytest.mark.parametrize(("first", "stop"), [(8, 32), (0, 40), (-16, 16), (16, 16), (32, 57), (32, 80)])
def test_columns_that_are_no_tiles_are_refused(first: int, stop: int) -> None:
    with echo_npu.open("cmodel") as device:
        weight = PackedTensor.upload(device, formats.pack(normal(56, INPUTS), "q4_0"))
        refuses(ValueError, [f"columns {first} to {stop} of 56"], weight.columns, first, stop)


def test_neighbours_of_one_format_become_one_matrix() -> None:
    parts = [formats.pack(normal(width, INPUTS, seed=width), "q4_1") for width in (16, 32, 8, 16)]
    assert [part.columns for part in joined(parts)] == [56, 16]
    other = formats.pack(normal(16, INPUTS), "q8_0")
    assert [part.columns for part in joined([parts[0], other, parts[1]])] == [16, 16, 32]
