"""scatter_rows: rows to the rows of a table that indices name."""

from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu import Device, ErrorCode, NpuDeviceError
from echo_npu.ops.types import named_type
from tests.arrays import normal
from tests.refusals import refuses

BFLOAT16 = named_type("bfloat16", np.dtype(np.uint16))


def drawn(height: int, *shape: int, dtype: Any = np.int32) -> Any:
    """Draw indices, with many that are equal."""
    return np.random.default_rng(3).integers(0, height, shape).astype(dtype)


def scattered(table: Any, indices: Any, rows: Any) -> Any:
    """Return the table with one row after another in its place."""
    result = table.copy()
    for index, row in zip(indices.reshape(-1).tolist(), rows.reshape(-1, table.shape[1]), strict=True):
        result[index] = row
    return result


@pytest.mark.parametrize("shape", [(1,), (9,), (2, 3), (2, 1, 4)], ids=str)
@pytest.mark.parametrize("width", [1, 3, 16, 100])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int16, np.float64])
def test_same_types(npu: Device, shape: tuple[int, ...], width: int, index: type, dtype: type) -> None:
    table = (100 * normal(6, width)).astype(np.int8).astype(dtype)
    rows = (100 * normal(*shape, width)).astype(np.int8).astype(dtype)
    indices = drawn(6, *shape, dtype=index)
    placed = npu.tensor(table)
    assert npu.scatter_rows(placed, npu.tensor(indices), rows) is placed
    assert np.array_equal(placed.to_numpy(), scattered(table, indices, rows))


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_float16(npu: Device, index: type) -> None:
    """Each element is rounded once; infinities and subnormals come as numpy makes them."""
    table, rows = normal(7, 33).astype(np.float16), normal(20, 33) * np.float32(1e4)
    rows[3, :4] = np.float32([1e6, -1e6, 1e-7, np.inf])
    indices = drawn(7, 20, dtype=index)
    indices[-1] = 3
    placed = npu.tensor(table)
    npu.scatter_rows(placed, npu.tensor(indices), npu.tensor(rows))
    with np.errstate(over="ignore"):
        expected = scattered(table, indices, rows.astype(np.float16))
    assert np.array_equal(placed.to_numpy().view(np.uint16), expected.view(np.uint16))


def test_bfloat16(npu: Device) -> None:
    rows, indices = normal(5, 9), np.array([4, 0, 4, 1, 3])
    placed = npu.tensor(np.zeros((5, 9), BFLOAT16))
    npu.scatter_rows(placed, indices, rows)
    bits = scattered(np.zeros((5, 9), np.float32), indices, rows).view(np.uint32)
    # Nearest, ties to even.
    expected = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    assert np.array_equal(placed.to_numpy().view(np.uint16), expected)


def test_views(npu: Device) -> None:
    """Tables with gaps between rows, transposed and strided rows and indices."""
    wide, rows, indices = normal(8, 40), normal(6, 10, 3), drawn(8, 3, 6)
    placed = npu.tensor(wide)
    table = placed[:, 4:14]
    npu.scatter_rows(table, npu.tensor(indices).T, npu.tensor(rows).transpose(0, 2, 1))
    expected = wide.copy()
    expected[:, 4:14] = scattered(wide[:, 4:14], indices.T.copy(), rows.transpose(0, 2, 1).copy())
    assert np.array_equal(placed.to_numpy(), expected)
    listed = npu.tensor(np.arange(16, dtype=np.int64))[2:8:2]
    npu.scatter_rows(table, listed, npu.tensor(normal(3, 20))[:, ::2])
    expected[[2, 4, 6], 4:14] = normal(3, 20)[:, ::2]
    assert np.array_equal(placed.to_numpy(), expected)


def test_rows_of_the_table_itself(npu: Device) -> None:
    """What shares memory with the table is read before it is written."""
    values = normal(6, 5)
    table = npu.tensor(values)
    npu.scatter_rows(table, np.array([0, 1, 2]), table[3:])
    assert np.array_equal(table.to_numpy()[:3], values[3:])
    numbers = npu.tensor(np.arange(4, dtype=np.int32).reshape(4, 1))
    npu.scatter_rows(numbers, numbers.reshape(4), np.array([[7], [8], [9], [6]], np.int32))
    assert numbers.to_numpy().tolist() == [[7], [8], [9], [6]]


def test_one_command(npu: Device) -> None:
    table, indices, rows = (npu.tensor(each) for each in (normal(50, 8), drawn(50, 40), normal(40, 8)))
    npu.scatter_rows(table, indices, rows)  # loads the program
    before = npu.counters()["commands"]
    npu.scatter_rows(table, indices, rows)
    assert npu.counters()["commands"] == before + 1


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_an_index_outside_the_table(npu: Device, index: type) -> None:
    with echo_npu.open("cmodel", config=npu.config) as other:
        table = other.tensor(normal(5, 4))
        for wrong in (5, -1):
            refuses(IndexError, r"must lie in 0\.\.4", other.scatter_rows, table, [0, wrong], normal(2, 4))
        listed = other.tensor(np.array([0, 4, -2, 9], index))
        with pytest.raises(NpuDeviceError) as caught:
            other.scatter_rows(table, listed, normal(4, 4))
        assert caught.value.code == ErrorCode.BAD_INDEX
        assert caught.value.address == listed.ptr + 2 * np.dtype(index).itemsize


def test_errors(npu: Device) -> None:
    table, rows = npu.tensor(normal(5, 4)), normal(2, 4)
    refuses(TypeError, "table is ndarray of float32", npu.scatter_rows, normal(5, 4), [0, 1], rows)
    with echo_npu.open("cmodel") as other:
        elsewhere = other.tensor(normal(5, 4))
        refuses(ValueError, "belongs to another device", npu.scatter_rows, elsewhere, [0, 1], rows)
    refuses(TypeError, "got list", npu.scatter_rows, table, [0, 1], [[1.0]])
    refuses(TypeError, "indices are integers", npu.scatter_rows, table, [0.0, 1.0], rows)
    short = npu.tensor(np.zeros(2, np.int16))
    refuses(TypeError, "int32 or int64, got int16", npu.scatter_rows, table, short, rows)
    refuses(TypeError, "no cast", npu.scatter_rows, table, [0, 1], rows.astype(np.complex64))
    refuses(ValueError, "it is", npu.scatter_rows, npu.tensor(normal(5)), [0, 1], rows)
    refuses(ValueError, "have gaps", npu.scatter_rows, table[:, ::2], [0, 1], rows[:, ::2])
    refuses(ValueError, r"they have shape \(2, 4\)", npu.scatter_rows, table, [0, 1], normal(3, 4))
    refuses(ValueError, r"\[\.\.\., n\]", npu.scatter_rows, table, np.zeros(0, np.int32), normal(0, 4))
