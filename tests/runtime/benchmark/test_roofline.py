"""The bound of a product, against figures worked out by hand."""

from dataclasses import replace

import pytest

import echo_npu
from echo_npu.benchmark.roofline import Bound, bus_bytes, peak_macs, product_bound
from echo_npu.driver.capabilities import Capabilities
from echo_npu.spec.data_types import DataType, OutType


@pytest.fixture(scope="module")
def default() -> Capabilities:
    """16 x 16 elements, 32 bytes a cycle."""
    with echo_npu.open("cmodel") as device:
        return device.capabilities


def test_peak(default: Capabilities) -> None:
    assert [peak_macs(default, dtype) for dtype in DataType] == [256, 256, 256, 1024]
    assert peak_macs(replace(default, array_rows=8, array_cols=4), DataType.INT8) == 128
    assert bus_bytes(default) == 32


@pytest.mark.parametrize(
    ("dtype", "shape", "batch", "bound", "limit"),
    [
        (DataType.FP32, (512, 512, 512), 1, (524288, 65536, 32768), "compute"),
        (DataType.INT8, (512, 512, 512), 1, (131072, 16384, 32768), "compute"),
        (DataType.FP32, (1, 576, 192), 1, (432, 13896, 24), "read"),
        (DataType.BF16, (1, 576, 192), 1, (432, 6948, 24), "read"),
        (DataType.INT8, (1, 576, 192), 1, (108, 3474, 24), "read"),
        (DataType.INT8, (64, 64, 64), 1, (256, 256, 512), "write"),
        (DataType.FP16, (16, 64, 16), 9, (576, 1152, 288), "read"),
    ],
)
def test_bound(
    default: Capabilities,
    dtype: DataType,
    shape: tuple[int, int, int],
    batch: int,
    bound: tuple[float, float, float],
    limit: str,
) -> None:
    found = product_bound(default, dtype, *shape, batch=batch)
    assert (found.compute, found.read, found.write) == bound
    assert found.cycles == max(bound)
    assert found.limit == limit


def test_writing_depends_on_the_type_of_the_result(default: Capabilities) -> None:
    for out, write in ((OutType.FLOAT32, 512), (OutType.OWN, 128), (OutType.INT32, 512)):
        assert product_bound(default, DataType.INT8, 64, 64, 64, out=out).write == write
    assert product_bound(default, DataType.BF16, 64, 64, 64, out=OutType.OWN).write == 256


def test_a_tie_is_computes() -> None:
    assert Bound(compute=2, read=2, write=1).limit == "compute"
