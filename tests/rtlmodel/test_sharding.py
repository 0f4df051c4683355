"""Layers and a language model on several RTL simulations: the bits of one device, and the cycles of each."""

from contextlib import ExitStack
from pathlib import Path

import pytest

import echo_npu
from echo_npu.language.generator import GenerationStep, TextGenerator
from echo_npu.language.network import Network
from echo_npu.models.gguf_model import GgufModel
from echo_npu.models.layer_types import LayerConfig
from echo_npu.sharding import DeviceGroup, ShardedNetwork
from echo_npu.sharding.report import SMOLLM2, TINY, report_layer, report_linear
from tests.runtime.model_files import write_model

pytestmark = [pytest.mark.sim, pytest.mark.slow]

CONFIG = LayerConfig(hidden=96, heads=6, kv_heads=3, head_dim=16, ffn=192, rope_base=1e4, eps=1e-6)
TEXT = [5, 200, 31, 7]


def devices(stack: ExitStack, config: str, count: int) -> list[echo_npu.Device]:
    return [stack.enter_context(echo_npu.open("rtlmodel", config=config)) for _ in range(count)]


@pytest.mark.parametrize(
    ("config", "layer", "cycles"),
    [
        ("small", TINY, {1: [26_922], 2: [13_693, 15_831], 3: [10_597, 10_667, 10_667]}),
        ("default", SMOLLM2, {1: [75_479], 2: [37_170, 41_372], 3: [27_232, 27_302, 27_302]}),
    ],
    ids=["small", "default"],
)
def test_a_layer(config: str, layer: LayerConfig, cycles: dict[int, list[int]]) -> None:
    """One token behind 15 or 31 others; the table of docs/sharding.md has the cycles of SmolLM2's layer."""
    position, block_format = (31, "q4_1") if layer is SMOLLM2 else (15, None)
    for count in (2, 3):
        with ExitStack() as stack:
            report = report_layer(
                devices(stack, config, count), "it", layer,
                tokens=1, position=position, block_format=block_format,
            )  # fmt: skip
        assert report.bit_exact
        assert list(report.cycles) == cycles[count]
        assert report.one_device_cycles == cycles[1][0]
        assert max(report.cycles) <= report.critical_cycles <= sum(report.cycles)
        assert report.speedup == report.one_device_cycles / report.critical_cycles


def test_a_linear_layer() -> None:
    with ExitStack() as stack:
        report = report_linear(devices(stack, "small", 2), 5, 40, 36)
    assert report.bit_exact
    assert all(0 < each < report.one_device_cycles for each in report.cycles)
    assert report.traffic_bytes == 5 * 36 * 4


def test_text_on_two_devices(tmp_path: Path) -> None:
    """The tokens of one functional model, and all memory of each device that of its twin."""
    path = tmp_path / "model.gguf"
    write_model(path, config=CONFIG)
    source, steps = GgufModel(path), list[GenerationStep]()
    with ExitStack() as stack:
        networks = []
        for backend in ("rtlmodel", "cmodel"):
            opened = [stack.enter_context(echo_npu.open(backend, config="small")) for _ in range(2)]
            group = stack.enter_context(DeviceGroup(opened))
            networks.append(ShardedNetwork(group, source, context=16, layers=1))
        single = Network(stack.enter_context(echo_npu.open("cmodel")), source, context=16, layers=1)
        tokens = list(TextGenerator(networks[0], twin=networks[1], on_step=steps.append).generate(TEXT, 3))
        assert tokens == list(TextGenerator(single).generate(TEXT, 3))
    assert all(step.checked > 0 for step in steps)
    assert all(0 < step.bound < step.cycles for step in steps)
