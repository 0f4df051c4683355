"""Training: gradients compared with central differences, and the accuracy reached."""

import numpy as np
import pytest

from echo_npu.models import LeNetWeights, lenet_reference, load_digits, train
from echo_npu.models import lenet_training as training
from echo_npu.models.digits import Digits
from echo_npu.models.lenet_weights import SHAPES

pytest.importorskip("sklearn")


def _loss(parameters: dict[str, np.ndarray], digits: Digits) -> float:
    logits = lenet_reference.logits(LeNetWeights(**parameters), digits.images)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    right = odds[np.arange(len(digits)), digits.labels] / odds.sum(axis=1)
    return float(-np.mean(np.log(right)))


def test_gradients() -> None:
    """The derivative along a random direction of each parameter, against the reference's loss."""
    random = np.random.default_rng(0)
    parameters = training._initial(random)
    # No images of plain squares: equal elements of a pool have no derivative.
    digits = Digits(random.standard_normal((8, 1, 32, 32)).astype(np.float32), np.arange(8))
    network = training._network(parameters)
    x = digits.images
    for layer in network:
        x = layer.forward(x)
    grad = training._loss_gradient(x, digits.labels)
    for layer in reversed(network):
        grad = layer.backward(grad)
    gradients = dict(zip(SHAPES, (each for layer in network for each in layer.gradients), strict=True))
    for name, value in parameters.items():
        direction = random.standard_normal(value.shape).astype(np.float32)
        step = np.float32(1e-4) / np.float32(np.linalg.norm(direction))
        ends = [_loss(parameters | {name: value + sign * step * direction}, digits) for sign in (1, -1)]
        expected = (ends[0] - ends[1]) / (2 * float(step))
        found = float(np.sum(gradients[name].astype(np.float64) * direction))
        assert found == pytest.approx(expected, rel=0.02, abs=0.002), name


def test_equal_elements_of_a_pool_share_the_gradient() -> None:
    pool = training._MaxPool()
    pool.forward(np.array([[[[1, 1], [0, 1]]]], np.float32))
    assert np.array_equal(pool.backward(np.full((1, 1, 1, 1), 6, np.float32)), [[[[2, 2], [0, 2]]]])


def test_it_learns_and_the_seed_decides_what() -> None:
    known, held_out = load_digits()
    few = known.take(slice(640))
    epochs: list[int] = []
    weights = train(few, epochs=2, on_epoch=epochs.append)
    again, other = train(few, epochs=2), train(few, epochs=2, seed=1)
    assert epochs == [1, 2]
    assert all(np.array_equal(a, b) for (_, a), (_, b) in zip(weights.items(), again.items(), strict=True))
    assert not np.array_equal(weights.fc3, other.fc3)
    found = np.argmax(lenet_reference.logits(weights, held_out.images), axis=1)
    assert np.mean(found == held_out.labels) > 0.8


def test_weights_of_another_shape_are_refused() -> None:
    arrays = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    with pytest.raises(ValueError, match=r"fc1 has shape \(2,\); LeNet-5 has \(120, 400\)"):
        LeNetWeights(**arrays | {"fc1": np.zeros(2, np.float32)})
    with pytest.raises(TypeError, match="fc2 is float64"):
        LeNetWeights(**arrays | {"fc2": np.zeros((84, 120))})
