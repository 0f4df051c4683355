"""A stack of tiny layers on the functional model: it passes, and it fails whenever anything is wrong."""

from dataclasses import replace

import numpy as np
import pytest

from echo_npu import Device
from echo_npu.models import LayerWeights, reference, run_model, tiny_stack
from echo_npu.models.stack import TOP, Stack


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_stack_passes(device: Device, twin: Device, layers: int) -> None:
    model = tiny_stack(layers)
    run = run_model(model, device, twin)
    assert run.failures == []
    assert len(run.records) == model.steps == 1 + 18 * layers + 3
    assert [record.op for record in run.records[-3:]] == ["rms_norm", "matmul", "softmax"]
    assert run.records[0].op == "embedding"


def test_top_tokens(device: Device, twin: Device) -> None:
    model = tiny_stack()
    top = run_model(model, device, twin).to_dict()["top"]
    truth = reference.stack_logits(model.case)
    assert [row["token"] for row in top] == np.argsort(-truth)[:TOP].tolist()
    odds = np.exp(truth - truth.max())
    for row in top:
        assert row["logit"] == pytest.approx(truth[row["token"]], rel=1e-5)
        assert row["probability"] == pytest.approx(odds[row["token"]] / odds.sum(), rel=1e-4)
        assert row["word"] == f"token {row['token']}"


def test_another_order_of_layers_fails(device: Device, twin: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_stack(2)
    swapped = replace(model.case, layer=lambda index: model.case.layer(1 - index))
    truth = reference.stack_logits(model.case)
    monkeypatch.setattr(reference, "stack_logits", lambda case: truth)
    run = run_model(Stack(swapped), device, twin)
    assert all(record.passed for record in run.records)
    assert not run.passed
    assert not run.checks[0].passed


def test_a_damaged_weight_of_an_earlier_layer_fails(device: Device, twin: Device) -> None:
    model = tiny_stack(2)

    weights = model.case.layer

    def layer(index: int) -> LayerWeights:
        if index == 1:
            device.memset(model.layer.weights["w_down"].device.ptr, 0, 1)
        return weights(index)

    model.case = replace(model.case, layer=layer)
    run = run_model(model, device, twin)
    assert all(record.passed for record in run.records)
    assert not run.weights_exact
    assert run.failures == ["weight memory differs from what was put there"]


def test_wrong_ids_in_device_memory_fail(device: Device, twin: Device) -> None:
    model = tiny_stack(1)
    ids = np.roll(model.case.ids, 1)

    def other(_: object) -> None:
        for end in (model.ids.device, model.ids.twin):
            end.copy_from(ids)

    run = run_model(model, device, twin, on_loaded=other)
    assert all(record.passed for record in run.records)
    assert not run.passed
    assert not run.checks[0].passed


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"layers": 0}, "layers is 0"),
        ({"ids": np.zeros((2, 2), np.int32)}, r"ids have shape \(2, 2\)"),
        ({"table": np.zeros((131, 63), np.float32)}, r"\(131, 63\)"),
    ],
)
def test_impossible_stacks_are_refused(change: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        replace(tiny_stack().case, **change)  # type: ignore[arg-type]


def test_more_layers_than_the_host_holds_are_refused_before_they_are_drawn() -> None:
    with pytest.raises(ValueError, match="layers is 1000000000; at most 1000"):
        tiny_stack(1_000_000_000)
