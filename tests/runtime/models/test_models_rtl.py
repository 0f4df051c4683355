"""The models on the RTL: small ones on `small` and `default`."""

from collections.abc import Callable

import numpy as np
import pytest

import echo_npu
from echo_npu.models import (
    Digits,
    LeNet,
    LeNetWeights,
    Model,
    ModelRun,
    load_digits,
    run_model,
    smollm2_stack,
    tiny_layer,
    tiny_stack,
    train,
)
from echo_npu.models.extras import MissingExtraError
from echo_npu.models.lenet_weights import SHAPES

pytestmark = [pytest.mark.sim, pytest.mark.slow]


def random_lenet() -> LeNet:
    """Return LeNet-5 with random weights and two random images."""
    random = np.random.default_rng(0)
    weights = {
        name: (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        for name, shape in SHAPES.items()
    }
    images = random.standard_normal((2, 1, 32, 32)).astype(np.float32)
    return LeNet(LeNetWeights(**weights), Digits(images, np.zeros(2, np.int64)))


def run(model: Model, config: str, stalls: float = 0.0) -> ModelRun:
    with (
        echo_npu.open("cmodel", config=config) as twin,
        echo_npu.open("rtlmodel", config=config, stalls=stalls) as device,
    ):
        done = run_model(model, device, twin)
    assert done.failures == []
    assert done.config == config
    for record in done.records:
        assert record.cycles > 0
        assert record.bus is not None
        if record.macs:
            assert record.utilisation is not None
            assert 0 < record.utilisation <= 1
    return done


@pytest.mark.parametrize("config", ["default", "small"])
@pytest.mark.parametrize("stalls", [0.0, 0.3])
def test_tiny_layer(config: str, stalls: float) -> None:
    run(tiny_layer(), config, stalls)


@pytest.mark.parametrize("config", ["default", "small"])
@pytest.mark.parametrize("make", [lambda: tiny_stack(1), random_lenet], ids=["stack", "lenet"])
def test_other_models(make: Callable[[], Model], config: str) -> None:
    run(make(), config)


def test_lenet_with_fifty_images() -> None:
    pytest.importorskip("sklearn")
    known, held_out = load_digits()
    done = run(LeNet(train(known.take(slice(640)), epochs=2), held_out.take(slice(50))), "default")
    assert done.to_dict()["accuracy"] > 0.8


def test_two_layers_of_smollm2() -> None:
    try:
        model = smollm2_stack(2)
    except MissingExtraError as error:
        pytest.skip(str(error))
    run(model, "default")
