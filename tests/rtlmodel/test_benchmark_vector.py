"""Vector operations against the bandwidth of memory: figures that can be derived."""

import pytest

import echo_npu
from echo_npu.benchmark.roofline import bus_bytes
from echo_npu.benchmark.vector import OPERATIONS, measure_vector

pytestmark = pytest.mark.sim

ROWS, COLS = 4, 300


def test_every_operation_is_measured(npu: echo_npu.Device) -> None:
    measured = {each.name: each for each in measure_vector(npu, ROWS, COLS)}
    assert list(measured) == [operation.name for operation in OPERATIONS]
    assert all(each.cycles > 0 and 0 < each.bandwidth < 1 for each in measured.values())
    width = bus_bytes(npu.capabilities)
    for name, nbytes in (
        ("add", 2 * 4 * ROWS * COLS),
        ("int8 to float32", 4 * ROWS * COLS),  # written, not read
        ("float32 to float16", 4 * ROWS * COLS),
        ("layer_norm", 4 * ROWS * COLS + 4 * COLS),
    ):
        each = measured[name]
        assert each.bandwidth == pytest.approx(nbytes / width / each.cycles)
        assert each.cycles_per_chunk == pytest.approx(
            each.cycles * npu.capabilities.vector_lanes / (ROWS * COLS)
        )
    assert all(each.used == 0 for each in npu.memory_statistics().values())


def test_cycles_are_needed() -> None:
    with echo_npu.open("cmodel") as npu, pytest.raises(ValueError, match="cmodel has no cycles"):
        next(measure_vector(npu, 1, 1))
