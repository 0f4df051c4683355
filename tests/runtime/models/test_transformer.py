"""The tiny layer on the functional model: it passes, and it fails whenever anything is wrong."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu import Device
from echo_npu.models import LayerConfig, decoder_layer, run_model, tiny_layer
from echo_npu.models.operations import Array, Operation, Softmax
from echo_npu.models.transformer import LAYER_BOUND
from echo_npu.models.truth import Truth, exact
from echo_npu.tensor import DeviceTensor
from tests.refusals import refuses


@pytest.mark.parametrize("seed", [0, 1, 2026])
def test_tiny_layer_passes(device: Device, twin: Device, seed: int) -> None:
    model = tiny_layer(seed)
    run = run_model(model, device, twin)
    assert run.failures == []
    assert run.passed
    assert len(run.records) == model.steps
    twice = {"add": 2, "rms_norm": 2, "rope": 2}
    assert Counter(each.op for each in run.records) == {
        "matmul": 9,
        **twice,
        "softmax": 1,
        "silu": 1,
        "mul": 1,
    }
    assert all(record.where == "NPU" for record in run.records)
    assert run.macs == 16 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 176) + 2 * 4 * 16 * 16 * 16
    (check,) = run.checks
    assert 0 < check.value < check.bound == LAYER_BOUND


@pytest.mark.parametrize("tokens", [1, 2, 5, 17])
def test_any_number_of_tokens(device: Device, twin: Device, tokens: int) -> None:
    assert run_model(tiny_layer(3, tokens), device, twin).failures == []


def test_nothing_is_computed_on_the_host(
    device: Device, twin: Device, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ECHO_NPU_DEBUG_LEVEL", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    model = tiny_layer()
    run_model(model, device, twin)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= model.steps
    assert all(line.startswith("[NPU]") for line in lines)


def test_memory_is_given_back(device: Device, twin: Device) -> None:
    model = tiny_layer()
    run_model(model, device, twin)
    used = [figures.used for figures in device.memory_statistics().values()]
    assert run_model(model, device, twin).passed
    assert [figures.used for figures in device.memory_statistics().values()] == used


def test_out_of_memory_is_named(device: Device, twin: Device) -> None:
    for end in (device, twin):
        end.malloc(255 << 20, region="activation")
        end.malloc(1 << 20, region="activation")
    refuses(echo_npu.NpuOutOfMemoryError, None, run_model, tiny_layer(), device, twin)


def _flip(device: Device, address: int, bit: int) -> None:
    byte = device.backend.read_mem(address + bit // 8, 1)
    device.backend.write_mem(address + bit // 8, byte ^ np.uint8(1 << bit % 8))


@pytest.mark.parametrize("weight", sorted(tiny_layer().case.config.weight_shapes()))
@pytest.mark.parametrize("bit", [0, 16, 30])
def test_one_wrong_weight_bit_fails(device: Device, twin: Device, weight: str, bit: int) -> None:
    model = tiny_layer()
    run = run_model(
        model, device, twin, on_loaded=lambda _: _flip(device, model.layer.weights[weight].device.ptr, bit)
    )
    assert not run.passed
    assert not run.weights_exact
    wrong = [record for record in run.records if not record.exact]
    if bit:  # rounding of the products can hide the last bit of a weight
        assert [record.op for record in wrong] == ["rms_norm" if weight.endswith("norm") else "matmul"]
    if bit == 30:
        assert not all(record.accurate for record in run.records)


@pytest.mark.parametrize("bit", [0, 31])
def test_a_stray_write_to_an_unused_place_fails(device: Device, twin: Device, bit: int) -> None:
    model = tiny_layer()
    run = run_model(model, device, twin, on_loaded=lambda _: _flip(device, model.target.device.ptr, bit))
    assert [record.name for record in run.records if not record.exact] == ["attention norm"]
    assert not run.passed


def test_not_a_number_fails(device: Device, twin: Device) -> None:
    model = tiny_layer()

    def poison(_: Any) -> None:
        for end in (device, twin):
            end.memset(model.layer.weights["wv"].device.ptr, 0xFF, 4)

    run = run_model(model, device, twin, on_loaded=poison)
    assert not run.passed
    assert not next(record for record in run.records if record.name == "v projection").accurate


class _Unturned(Operation):
    """Replaces RoPE by the identity."""

    op = "rope"

    def __init__(self, base: float) -> None:
        pass

    def run(self, npu: Device, inputs: Sequence[DeviceTensor], out: DeviceTensor) -> None:
        npu.copy(inputs[0], out=out)

    def truth(self, *inputs: Array) -> Truth:
        return exact(inputs[0].astype(np.float64))


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("Softmax", lambda scale, causal: Softmax(scale)),
        ("Softmax", lambda scale, causal: Softmax(causal=causal)),
        ("Rope", _Unturned),
    ],
    ids=["unmasked", "unscaled", "unturned"],
)
def test_a_wrong_layer_of_right_operations_fails(
    device: Device, twin: Device, monkeypatch: pytest.MonkeyPatch, name: str, mistake: Any
) -> None:
    monkeypatch.setattr(decoder_layer, name, mistake)
    run = run_model(tiny_layer(), device, twin)
    assert all(record.passed for record in run.records)
    assert [check.key for check in run.checks if not check.passed] == ["layer_error"]
    assert not run.passed


def test_the_same_seed_is_the_same_layer() -> None:
    first, again, other = (tiny_layer(seed).case for seed in (5, 5, 6))
    assert np.array_equal(first.hidden_in, again.hidden_in)
    assert np.array_equal(first.weights.w_down, again.weights.w_down)
    assert not np.array_equal(first.weights.w_down, other.weights.w_down)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kv_heads": 3}, "no multiple of kv_heads"),
        ({"head_dim": 15}, "even"),
        ({"ffn": 0}, "ffn is 0"),
        ({"eps": 0.0}, "positive"),
    ],
)
def test_impossible_layers_are_refused(change: dict[str, int], says: str) -> None:
    fields = {"hidden": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 176} | change
    refuses(ValueError, says, LayerConfig, **fields)


def test_a_layer_without_tokens_is_refused() -> None:
    refuses(ValueError, "at least 1", tiny_layer, tokens=0)
