"""LeNet-5 on the functional model: it passes, and it fails whenever anything is wrong."""

from collections.abc import Sequence

import numpy as np
import pytest

from echo_npu import Device
from echo_npu.models import Digits, LeNet, LeNetWeights, lenet, load_digits, run_model, train
from echo_npu.models.operations import Array, Operation, Relu
from echo_npu.models.truth import Truth, exact
from echo_npu.tensor import DeviceTensor

pytest.importorskip("sklearn")
Trained = tuple[LeNetWeights, Digits]


@pytest.fixture(scope="module")
def trained() -> Trained:
    known, held_out = load_digits()
    return train(known.take(slice(640)), epochs=2), held_out


def test_fifty_images(device: Device, twin: Device, trained: Trained) -> None:
    weights, held_out = trained
    model = LeNet(weights, held_out.take(slice(50)))
    run = run_model(model, device, twin)
    assert run.failures == []
    assert len(run.records) == model.steps
    assert run.macs == 50 * (28 * 28 * 25 * 6 + 10 * 10 * 150 * 16 + 400 * 120 + 120 * 84 + 84 * 10)
    report = run.to_dict()
    assert report["images"] == len(report["predictions"]) == 50
    assert report["labels"] == held_out.labels[:50].tolist()
    assert report["accuracy"] > 0.8
    assert report["predictions_differing"] == report["predictions_bound"] == 0


@pytest.mark.parametrize("count", [1, 3])
def test_any_number_of_images(device: Device, twin: Device, trained: Trained, count: int) -> None:
    weights, held_out = trained
    assert run_model(LeNet(weights, held_out.take(slice(count))), device, twin).failures == []


def test_no_images_are_refused(trained: Trained) -> None:
    with pytest.raises(ValueError, match="no images"):
        LeNet(trained[0], trained[1].take(slice(0)))


def test_one_wrong_weight_bit_fails(device: Device, twin: Device, trained: Trained) -> None:
    weights, held_out = trained
    model = LeNet(weights, held_out.take(slice(2)))

    def corrupt(_: object) -> None:
        address = model.weight["conv2"].device.ptr
        device.backend.write_mem(address + 3, device.backend.read_mem(address + 3, 1) ^ np.uint8(0x80))

    run = run_model(model, device, twin, on_loaded=corrupt)
    assert [record.name for record in run.records if not record.exact] == ["conv2"]
    assert not run.weights_exact


class _Identity(Operation):
    """Replaces ReLU by the identity."""

    op = "relu"

    def run(self, npu: Device, inputs: Sequence[DeviceTensor], out: DeviceTensor) -> None:
        pass

    def truth(self, *inputs: Array) -> Truth:
        return exact(inputs[0].astype(np.float64))


def test_a_wrong_network_of_right_operations_fails(
    device: Device, twin: Device, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lenet.Relu is Relu
    monkeypatch.setattr(lenet, "Relu", _Identity)
    weights, held_out = trained
    run = run_model(LeNet(weights, held_out.take(slice(4))), device, twin)
    assert all(record.passed for record in run.records)
    assert "logits_error" in [check.key for check in run.checks if not check.passed]
