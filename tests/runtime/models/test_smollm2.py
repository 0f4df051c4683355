"""SmolLM2-135M itself, where its weights are installed (`make setup-models`)."""

import numpy as np
import pytest

from echo_npu import Device
from echo_npu.models import reference, run_model, smollm2, smollm2_layer, smollm2_stack
from echo_npu.models.extras import MissingExtraError, smollm2_file
from echo_npu.models.gguf_model import GgufModel


@pytest.fixture(scope="module")
def model() -> GgufModel:
    try:
        made = GgufModel(smollm2_file())
        assert made.tokenizer is not None
    except MissingExtraError as error:
        pytest.skip(str(error))
    return made


@pytest.mark.slow
def test_the_capital_of_france(model: GgufModel) -> None:
    """All 30 layers of the reference give the right token, so reader, tokenizer and reference are right."""
    stack = smollm2_stack(model.layers, "The capital of France is", model)
    logits = reference.stack_logits(stack.case)
    odds = np.exp(logits - logits.max())
    best = int(np.argmax(odds))
    assert model.tokenizer.decode([best]) == " Paris"
    assert odds[best] / odds.sum() == pytest.approx(0.77, abs=0.01)


@pytest.mark.parametrize("index", [0, 3])
def test_a_layer_runs(model: GgufModel, device: Device, twin: Device, index: int) -> None:
    layer = smollm2_layer(index, model=model)
    assert len(layer.case.hidden_in) >= 8
    assert run_model(layer, device, twin).failures == []


def test_two_layers_run(model: GgufModel, device: Device, twin: Device) -> None:
    run = run_model(smollm2_stack(2, model=model), device, twin)
    assert run.failures == []
    assert len(run.to_dict()["top"]) == 5


def test_the_number_of_layers_is_known_before_the_file_is_read(
    model: GgufModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: object) -> GgufModel:
        raise AssertionError(f"{path} is read")

    assert model.layers == smollm2.LAYERS
    monkeypatch.setattr(smollm2, "GgufModel", read)
    with pytest.raises(IndexError, match="layer index 99999: this model has the layers 0 to 29"):
        smollm2_layer(99999)
    with pytest.raises(ValueError, match="layers is 31; this model has 1 to 30"):
        smollm2_stack(31)


def test_layer_out_of_range(model: GgufModel) -> None:
    with pytest.raises(IndexError, match="the layers 0 to 29"):
        smollm2_layer(30, model=model)
