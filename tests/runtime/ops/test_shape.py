"""Data movement: cat, clone, contiguous, permute, transpose, full."""

from typing import Any

import numpy as np
import pytest

from echo_npu import Device, DeviceTensor
from echo_npu.ops.copy import copy_commands
from tests.arrays import normal
from tests.refusals import refuses


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int16, np.float64])
def test_cat(npu: Device, axis: int, dtype: type) -> None:
    shapes = [[3, 4, 5] for _ in range(3)]
    for count, shape in zip((1, 6, 2), shapes, strict=True):
        shape[axis] = count
    arrays = [(100 * normal(*shape)).astype(np.int8).astype(dtype) for shape in shapes]
    result = npu.cat(arrays, axis)
    assert result.dtype == dtype
    assert np.array_equal(result, np.concatenate(arrays, axis))


def test_cat_of_views_into_a_view(npu: Device) -> None:
    values = normal(4, 6)
    tensor, out = npu.tensor(values), npu.tensor(np.zeros((9, 12), np.float32))
    part = out[:, ::4]
    assert npu.cat([tensor[:, :3], tensor.T[3:, :3].T, values[2:, :3]], out=part) is part
    expected = np.zeros((9, 12), np.float32)
    expected[:, ::4] = np.concatenate([values[:, :3], values[:3, 3:], values[2:, :3]])
    assert np.array_equal(out.to_numpy(), expected)
    overlapping = npu.cat([tensor[2:], tensor[:2]], out=tensor)
    assert np.array_equal(overlapping.to_numpy(), np.roll(values, 2, axis=0))


def test_cat_errors(npu: Device) -> None:
    refuses(ValueError, "no arrays", npu.cat, [])
    refuses(ValueError, r"axis 0: shapes \(3, 4\), \(3, 5\)", npu.cat, [normal(3, 4), normal(3, 5)])
    refuses(ValueError, r"axis 2 of arrays of shapes \(3, 4\)", npu.cat, [normal(3, 4)], 2)
    with pytest.raises(TypeError, match="ndarray of float32, ndarray of float64"):
        npu.cat([normal(3), normal(3).astype(np.float64)])
    refuses(TypeError, "got list", npu.cat, [[1.0]])


def test_clone_and_contiguous(npu: Device) -> None:
    values = normal(3, 4, 5, 6)
    tensor = npu.tensor(values)
    copied = npu.clone(tensor)
    assert copied is not tensor
    assert np.array_equal(copied.to_numpy(), values)
    assert npu.contiguous(tensor) is tensor
    for axes in ((3, 1, 0, 2), (0, 2, 1, 3), (3, 2, 1, 0)):
        view = tensor.transpose(*axes)[1:, ::2]
        dense = npu.contiguous(view)
        assert dense.is_contiguous
        assert np.array_equal(dense.to_numpy(), values.transpose(axes)[1:, ::2])
    assert np.array_equal(npu.clone(values[::2]), values[::2])


@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2), (2, -1, 0, 1)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float64])
def test_permute(npu: Device, axes: tuple[int, ...], dtype: type) -> None:
    values = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5).astype(dtype)
    assert np.array_equal(npu.permute(values, axes), values.transpose(axes))
    made = npu.permute(npu.tensor(values), axes)
    assert isinstance(made, DeviceTensor)
    assert made.is_contiguous
    assert np.array_equal(made.to_numpy(), values.transpose(axes))


def test_transpose(npu: Device) -> None:
    values = normal(2, 3, 40)
    assert np.array_equal(npu.transpose(values), values.swapaxes(1, 2))
    out = npu.empty((2, 40, 3))
    assert npu.transpose(values, out=out) is out
    assert np.array_equal(out.to_numpy(), values.swapaxes(1, 2))


@pytest.mark.parametrize("shape", [1, 700, (3, 5), (), (2, 3, 100)], ids=str)
@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, -np.inf, np.nan])
def test_full(npu: Device, shape: Any, value: float) -> None:
    made = npu.full(shape, value).to_numpy()
    assert np.array_equal(made.view(np.uint32), np.full(shape, value, np.float32).view(np.uint32))


def test_errors(npu: Device) -> None:
    with pytest.raises(ValueError, match=r"axes \(0, 0\) are no permutation of those of shape \(3, 4\)"):
        npu.permute(normal(3, 4), (0, 0))
    refuses(TypeError, "got list", npu.permute, [1.0], (0,))
    refuses(ValueError, r"transpose: x has shape \(3,\)", npu.transpose, normal(3))
    refuses(ValueError, "at least 1", npu.full, (0, 2), 1.0)


def test_view_is_the_same_bytes_as_another_type(npu: Device) -> None:
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    tensor = npu.tensor(values)
    for made, wanted in (
        (tensor, values),
        (tensor[:, 1], values[:, 1]),
        (tensor.swapaxes(0, 1), values.swapaxes(0, 1)),
    ):
        for dtype in (np.uint8, np.int16, np.int32, np.float64):
            view = made.view(dtype)
            assert view.dtype == dtype
            assert np.array_equal(view.to_numpy().view(np.uint8), np.ascontiguousarray(wanted).view(np.uint8))
    tensor[0].view(np.int32).copy_from(np.zeros((3, 4), np.int32))
    assert np.array_equal(tensor.to_numpy()[0], np.zeros((3, 4)))
    refuses(ValueError, "last axis", tensor.T.view, np.uint8)
    refuses(ValueError, "larger dtype", npu.tensor(values[:, :, :3]).view, np.float64)
    kept = npu.tensor(values).view(np.uint8)  # the view alone keeps the bytes
    others = [npu.tensor(np.zeros_like(values)) for _ in range(4)]
    assert np.array_equal(kept.to_numpy().view(np.float32).reshape(values.shape), values)
    del others
    view = tensor.view(np.int32)
    tensor.free()
    refuses(ValueError, "free", tensor.view, np.int32)
    refuses(ValueError, "free", view.to_numpy)


def test_unfold_is_a_view_of_windows(npu: Device) -> None:
    values = normal(3, 11)
    view = npu.tensor(values).unfold(1, 4, 3)
    assert np.array_equal(view.to_numpy(), np.stack([values[:, i : i + 4] for i in (0, 3, 6)], axis=1))
    refuses(ValueError, "larger", npu.tensor(values).unfold, 0, 4)


@pytest.mark.parametrize("shape", [(5, 7), (4, 5, 7), (5, 1)])
def test_a_broadcast_is_copied(npu: Device, shape: tuple[int, ...]) -> None:
    """A stride of 0 reads the same bytes again, in rows, columns and batches."""
    for values in (normal(7), normal(5, 1), normal(1, 1)):
        if values.shape == (7,) and shape[-1] != 7:
            continue
        view = npu.tensor(values).broadcast_to(*shape)
        expected = np.broadcast_to(values, shape)
        assert np.array_equal(npu.copy(view).to_numpy(), expected)
        assert np.array_equal(view.contiguous().to_numpy(), expected)
        assert np.array_equal(npu.cat([view, view], -1).to_numpy(), np.concatenate([expected] * 2, -1))


def test_a_broadcast_is_one_command(npu: Device) -> None:
    """The repeated axis is a batch, the others are its rows."""
    view = npu.tensor(normal(6, 1, 9)).broadcast_to(6, 8, 9)
    assert len(copy_commands(view, npu.empty((6, 8, 9)))) == 1


def test_out_must_not_overlap_itself(npu: Device) -> None:
    """It is not defined which of several results would stay."""
    tensor = npu.tensor(normal(9))
    for out in (tensor.broadcast_to(3, 9), tensor.unfold(0, 3)):
        assert out.overlaps_itself
        refuses(ValueError, "elements share bytes", npu.copy, normal(*out.shape), out=out)
    assert not tensor.reshape(3, 3).T[:, ::2].overlaps_itself
