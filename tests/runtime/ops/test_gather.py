"""Embedding: rows of a table by their numbers."""

import numpy as np
import pytest

import echo_npu
from echo_npu import Device, DeviceTensor, ErrorCode, NpuDeviceError
from tests.arrays import normal
from tests.refusals import refuses


@pytest.mark.parametrize("shape", [(1,), (5,), (2, 3), ()], ids=str)
@pytest.mark.parametrize("width", [(), (1,), (16,), (3, 7)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int16, np.float64])
def test_embedding(npu: Device, shape: tuple[int, ...], width: tuple[int, ...], dtype: type) -> None:
    table = (100 * normal(20, *width)).astype(np.int8).astype(dtype)
    ids = np.random.default_rng(3).integers(0, 20, shape)
    result = npu.embedding(table, ids)
    assert result.dtype == dtype
    assert np.array_equal(result, table[ids])


def test_tensors_stay_on_the_device(npu: Device) -> None:
    table, ids = normal(20, 8), np.array([[3, 19, 0], [3, 3, 7]], np.int32)
    placed, numbers, out = npu.tensor(table, region="weight"), npu.tensor(ids), npu.empty((2, 3, 8))
    commands = npu.counters()["commands"]
    assert npu.embedding(placed, numbers, out=out) is out
    assert npu.counters()["commands"] == commands + 1
    assert np.array_equal(out.to_numpy(), table[ids])
    result = npu.embedding(placed, numbers.T)
    assert isinstance(result, DeviceTensor)
    assert np.array_equal(result.to_numpy(), table[ids.T])
    wide = npu.tensor(np.zeros((2, 3, 16), np.float32))
    npu.embedding(placed, ids, out=wide[..., ::2])
    assert np.array_equal(wide.to_numpy()[..., ::2], table[ids])


def test_an_index_outside_the_table(npu: Device) -> None:
    table = normal(5, 4)
    for wrong in (5, -1):
        refuses(IndexError, r"ids lie in .*; they must lie in 0\.\.4", npu.embedding, table, [0, wrong])
    with echo_npu.open("cmodel", config=npu.config) as other:
        ids = other.tensor(np.array([0, 4, 5], np.int32))
        with pytest.raises(NpuDeviceError) as caught:
            other.embedding(table, ids)
        assert caught.value.code == ErrorCode.BAD_INDEX
        assert caught.value.address == ids.ptr + 8


def test_errors(npu: Device) -> None:
    table = normal(5, 4)
    refuses(TypeError, "ids are integers, got ndarray of float64", npu.embedding, table, np.zeros(3))
    with pytest.raises(TypeError, match="ids on the device are int32, got int64"):
        npu.embedding(table, npu.tensor(np.zeros(3, np.int64)))
    refuses(ValueError, r"ids have shape \(0,\)", npu.embedding, table, np.zeros(0, np.int32))
    refuses(TypeError, "a table of at least one row, got list", npu.embedding, [[1.0]], [0])
    refuses(ValueError, "it has gaps", npu.embedding, npu.tensor(table)[:, ::2], [0])
    with pytest.raises(TypeError, match="out is float64, the result is float32"):
        npu.embedding(table, [0], out=npu.empty((1, 4), np.float64))
