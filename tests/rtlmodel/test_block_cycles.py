"""Cycles of products with weights in blocks: the committed ones.

After a change of the RTL that moves them on purpose, run this file with ECHO_NPU_UPDATE=1.
"""

from pathlib import Path

import pytest

import echo_npu
from echo_npu.commands.matmul_command import matmul_command
from echo_npu.formats import FORMATS
from tb.committed_cycles import CommittedCycles
from tests.rtlmodel.simulated import BENCHMARKED

pytestmark = pytest.mark.sim

COMMITTED = CommittedCycles(Path(__file__).resolve().parents[2] / "benchmarks" / "block_cycles.json")
K, N = 576, 1536
ROWS = (1, 16, 128)


def workload(name: str, m: int) -> str:
    """Return the name under which the cycles of a product are kept."""
    return f"{name} {m}x{K}x{N}"


def cycles(device: echo_npu.Device, name: str, m: int) -> int:
    """Run a product of what memory holds; no cycle depends on a value."""
    blocks = [
        device.malloc(nbytes, region=region)
        for nbytes, region in (
            (4 * m * K, "activation"),
            (FORMATS[name].packed_bytes(N, K), "weight"),
            (4 * m * N, "activation"),
        )
    ]
    before = device.counters()
    device.execute(matmul_command(*blocks, m, K, N, blocks=name))
    after = device.counters()
    for block in blocks:
        device.free(block)
    return after["busy_cycles"] - before["busy_cycles"]


def test_every_product_has_a_committed_number() -> None:
    assert set(COMMITTED.load(BENCHMARKED)) == {workload(name, m) for name in FORMATS for m in ROWS}


@pytest.mark.parametrize("m", ROWS)
def test_cycles_are_the_committed_ones(device: echo_npu.Device, m: int) -> None:
    COMMITTED.compare(BENCHMARKED, {workload(name, m): cycles(device, name, m) for name in FORMATS})
