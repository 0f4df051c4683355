"""Made-up results of `make bench`."""

from typing import Any

import echo_npu
from benchmarks.committed import hardware
from echo_npu.benchmark.gemm import Measured, judged
from echo_npu.benchmark.goals import find_goals
from echo_npu.benchmark.products import Product
from echo_npu.benchmark.summary import summarize
from echo_npu.cli.benchmark import to_dict
from echo_npu.spec.data_types import DataType

SINGLE = (Product(1, 576, 1536), Product(16, 16, 16), Product(128, 768, 768), Product(784, 25, 6))
TRANSPOSED = (Product(1, 576, 1536, trans_b=True),)
BATCHES = (Product(16, 64, 16, batch=9, trans_b=True), Product(128, 128, 64, batch=14))


def measured(products: tuple[Product, ...]) -> list[Measured]:
    """Return each product in every type, with 1.25 times its bound plus a hundred cycles."""
    with echo_npu.open("cmodel") as device:
        capabilities = device.capabilities
    return [
        judged(capabilities, product, dtype, int(bound * 1.25) + 100, bit_exact=True)
        for product in products
        for dtype in DataType
        for bound in [judged(capabilities, product, dtype, None).bound.cycles]
    ]


def results() -> dict[str, Any]:
    """Return the results of a whole run."""

    def group(name: str, products: tuple[Product, ...]) -> dict[str, Any]:
        found = measured(products)
        return to_dict("default", [name] * len(found), found, summarize(found))

    with echo_npu.open("cmodel") as device:
        facts = hardware(device.capabilities, DataType)
    operations = [
        {"name": name, "shape": "16x64", "cycles": cycles, "macs": macs}
        for name, cycles, macs in (("norm", 700, 0), ("q <projection>", 1500, 65536), ("silu", 800, 0))
    ]
    others = [
        {
            "name": name,
            "shape": "[64, 2048]",
            "cycles": cycles,
            "commands": 1,
            "beats": beats,
            "bus": beats / cycles,
        }
        for name, cycles, beats in (("add", 33000, 32768), ("tanh", 99000, 16384))
    ]
    return {
        "config": "default",
        "revision": "abc1234",
        "quick": False,
        "hardware": facts,
        "goals": [goal.to_dict() for goal in find_goals(measured((*SINGLE, *BATCHES)))],
        "gemm": group("networks", SINGLE),
        "transposed": group("transposed", TRANSPOSED),
        "attention": group("attention", BATCHES),
        "layer": {"layer": "tiny", "tokens": 16, "cycles": 3000, "passed": True, "ops": operations},
        "operations": others,
        "simulation": {
            "wrong": [],
            "facts": ["Half as fast."],
            "speeds": {"this harness": 150000.0, "bare loop": 300000.0},
        },
    }
