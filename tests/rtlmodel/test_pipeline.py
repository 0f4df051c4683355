"""The key `pipeline`: the same bits with it and without it, and the committed cycles for both.

After a change of the RTL that moves cycles on purpose, run this file with ECHO_NPU_UPDATE=1.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import echo_npu
from echo_npu import Device
from tb.committed_cycles import CommittedCycles
from tests.arrays import elements, normal

pytestmark = pytest.mark.sim

CONFIGS = ("small", "pipeline-small")
ROOT = Path(__file__).resolve().parents[2]
COMMITTED = CommittedCycles(ROOT / "benchmarks" / "pipeline_cycles.json")
PAGE = ROOT / "docs" / "architecture.md"

Result = NDArray[Any]
Load = Callable[[Device], Result]


def product(name: str, m: int, k: int, n: int) -> Load:
    """Return the product of an [m, k] and a [k, n] matrix of a type."""
    a, b = elements(name, m, k), elements(name, k, n, seed=1)
    return lambda npu: np.asarray(npu.matmul(a, b))


LOADS: dict[str, Load] = {
    "product 16x16x16, float32": product("float32", 16, 16, 16),
    "product 16x16x16, int8": product("int8", 16, 16, 16),
    "product 33x40x21, bfloat16": product("uint16", 33, 40, 21),
    "row of a decoder, 1x64x64, float32": product("float32", 1, 64, 64),
    "row of a decoder, 1x64x64, int8": product("int8", 1, 64, 64),
    "`gelu` [4, 256]": lambda npu: np.asarray(npu.gelu(normal(4, 256))),
    "`exp` [4, 256]": lambda npu: np.asarray(npu.exp(normal(4, 256))),
    "`softmax` [1, 256]": lambda npu: np.asarray(npu.softmax(normal(1, 256))),
    "`rms_norm` [4, 256]": lambda npu: np.asarray(npu.rms_norm(normal(4, 256), normal(256, seed=1))),
}


def run(npu: Device, load: Load) -> tuple[Result, int]:
    """Run a load twice; return its result, and BUSY_CYCLES of the second run, whose programs are loaded."""
    load(npu)
    before = npu.counters()["busy_cycles"]
    result = load(npu)
    return result, npu.counters()["busy_cycles"] - before


@pytest.fixture(scope="module")
def devices() -> Iterator[dict[str, Device]]:
    """Both devices and the functional model, which is named `model`."""
    with (
        echo_npu.open("rtlmodel", config=CONFIGS[0]) as without,
        echo_npu.open("rtlmodel", config=CONFIGS[1]) as pipelined,
        echo_npu.open("cmodel", config=CONFIGS[0]) as model,
    ):
        yield {**dict(zip(CONFIGS, (without, pipelined), strict=True)), "model": model}


@pytest.mark.parametrize("name", list(LOADS))
def test_bits_are_equal_and_cycles_committed(devices: dict[str, Device], name: str) -> None:
    wanted = LOADS[name](devices["model"])
    for config in CONFIGS:
        found, cycles = run(devices[config], LOADS[name])
        assert found.dtype == wanted.dtype
        assert found.tobytes() == wanted.tobytes(), config
        COMMITTED.compare(config, {name: cycles})


def test_the_page_has_the_committed_cycles() -> None:
    off, on = (COMMITTED.load(config) for config in CONFIGS)
    assert list(off) == list(on) == sorted(LOADS)
    text = PAGE.read_text(encoding="utf-8")
    for name in LOADS:
        assert f"| {name} | {off[name]:,} | {on[name]:,} |" in text
