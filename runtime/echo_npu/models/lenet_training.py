"""Train LeNet-5 on the host, in numpy: a few seconds for the digits of scikit-learn.

Each layer is a class with `forward` and `backward`. `backward` takes the gradient of the loss by the layer's
output, returns that by its input, and stores those by its parameters in `gradients`.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from echo_npu.models.digits import Digits
from echo_npu.models.extras import require
from echo_npu.models.lenet_weights import SHAPES, LeNetWeights
from echo_npu.models.truth import F32

EPOCHS = 5
BATCH = 32
RATE = 2e-3


class _Layer(Protocol):
    parameters: list[F32]
    gradients: list[F32]

    def forward(self, x: F32) -> F32: ...
    def backward(self, grad: F32) -> F32: ...


class _Plain:
    """A layer without parameters."""

    def __init__(self) -> None:
        self.parameters: list[F32] = []
        self.gradients: list[F32] = []


class _Relu(_Plain):
    def forward(self, x: F32) -> F32:
        self._open = x > 0
        return x * self._open

    def backward(self, grad: F32) -> F32:
        return grad * self._open


class _MaxPool(_Plain):
    """2x2. If several elements are largest, as in the plain squares of these images, they share the
    gradient."""

    def forward(self, x: F32) -> F32:
        batch, channels, height, width = x.shape
        windows = x.reshape(batch, channels, height // 2, 2, width // 2, 2)
        largest: F32 = windows.max(axis=(3, 5), keepdims=True)
        taken = windows == largest
        self._share = taken / taken.sum(axis=(3, 5), keepdims=True, dtype=np.float32)
        return largest[:, :, :, 0, :, 0]

    def backward(self, grad: F32) -> F32:
        batch, channels, height, width = grad.shape
        spread = self._share * grad[:, :, :, None, :, None]
        result: F32 = spread.reshape(batch, channels, 2 * height, 2 * width)
        return result


class _Flatten(_Plain):
    def forward(self, x: F32) -> F32:
        self._shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, grad: F32) -> F32:
        return grad.reshape(self._shape)


class _Linear:
    """`x @ weight.T + bias`."""

    def __init__(self, weight: F32, bias: F32) -> None:
        self.parameters = [weight, bias]
        self.gradients: list[F32] = []

    def forward(self, x: F32) -> F32:
        weight, bias = self.parameters
        self._x = x
        return x @ weight.T + bias

    def backward(self, grad: F32) -> F32:
        self.gradients = [grad.T @ self._x, grad.sum(axis=0)]
        return grad @ self.parameters[0]


class _Conv:
    """A convolution, stride 1, no padding, as a product with the patches of its input.

    The `first` layer of a network skips the gradient by its input, which is the costliest and which nothing
    needs: it returns its argument.
    """

    def __init__(self, weight: F32, bias: F32, *, first: bool = False) -> None:
        self.parameters = [weight, bias]
        self.gradients: list[F32] = []
        self._first = first

    def forward(self, x: F32) -> F32:
        weight, bias = self.parameters
        self._patches = _patches(x, weight.shape[-1])
        return _correlate(self._patches, weight) + bias[:, None, None]

    def backward(self, grad: F32) -> F32:
        weight, _ = self.parameters
        flat = grad.transpose(0, 2, 3, 1).reshape(-1, len(weight))
        columns = self._patches.reshape(len(flat), -1)
        self.gradients = [(flat.T @ columns).reshape(weight.shape), flat.sum(axis=0)]
        if self._first:
            return grad
        side = weight.shape[-1]
        edge = side - 1
        padded = np.pad(grad, ((0, 0), (0, 0), (edge, edge), (edge, edge)))
        return _correlate(_patches(padded, side), weight[:, :, ::-1, ::-1].swapaxes(0, 1))


def _patches(x: F32, side: int) -> F32:
    """Return the inputs of each output of a convolution, [batch, height, width, channels * side * side]."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (side, side), axis=(2, 3))
    batch, _, height, width = windows.shape[:4]
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(batch, height, width, -1)


def _correlate(patches: F32, weight: F32) -> F32:
    return (patches @ weight.reshape(len(weight), -1).T).transpose(0, 3, 1, 2)


def _network(parameters: dict[str, F32]) -> list[_Layer]:
    def pair(name: str) -> tuple[F32, F32]:
        return parameters[name], parameters[f"{name}_bias"]

    return [
        *(_Conv(*pair("conv1"), first=True), _Relu(), _MaxPool()),
        *(_Conv(*pair("conv2")), _Relu(), _MaxPool(), _Flatten()),
        *(_Linear(*pair("fc1")), _Relu()),
        *(_Linear(*pair("fc2")), _Relu()),
        _Linear(*pair("fc3")),
    ]


def _initial(random: np.random.Generator) -> dict[str, F32]:
    """Draw weights (He initialisation); biases are zero."""
    return {
        name: np.zeros(shape, np.float32)
        if len(shape) == 1
        else (random.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32)
        for name, shape in SHAPES.items()
    }


def _loss_gradient(logits: F32, labels: np.ndarray) -> F32:
    """Compute the gradient of the mean cross-entropy by the logits."""
    odds: F32 = np.exp(logits - logits.max(axis=1, keepdims=True))
    odds /= odds.sum(axis=1, keepdims=True)
    odds[np.arange(len(labels)), labels] -= 1
    odds /= np.float32(len(labels))
    return odds


def train(
    digits: Digits, *, seed: int = 0, epochs: int = EPOCHS, on_epoch: Callable[[int], None] | None = None
) -> LeNetWeights:
    """Train weights with Adam (Kingma and Ba 2015), with a rate that falls linearly to zero.

    Args:
        seed: of the initial weights and of the order of the images. The same seed gives the same weights if
            numpy's matrix products round alike.
        on_epoch: called after each epoch with the number of epochs done.

    Raises:
        MissingExtraError: threadpoolctl, which comes with scikit-learn, is not installed.
    """
    with require("threadpoolctl").threadpool_limits(1):  # threads slow down products this small
        return _train(digits, np.random.default_rng(seed), epochs, on_epoch)


def _train(
    digits: Digits, random: np.random.Generator, epochs: int, on_epoch: Callable[[int], None] | None
) -> LeNetWeights:
    parameters = _initial(random)
    network = _network(parameters)
    mean = {name: np.zeros_like(value) for name, value in parameters.items()}
    square = {name: np.zeros_like(value) for name, value in parameters.items()}
    steps = epochs * -(-len(digits) // BATCH)
    step = 0
    for epoch in range(epochs):
        order = random.permutation(len(digits))
        for start in range(0, len(order), BATCH):
            batch = digits.take(order[start : start + BATCH])
            x = batch.images
            for layer in network:
                x = layer.forward(x)
            grad = _loss_gradient(x, batch.labels)
            for layer in reversed(network):
                grad = layer.backward(grad)
            gradients = [each for layer in network for each in layer.gradients]
            rate = RATE * (1 - step / steps)
            step += 1
            for (name, value), gradient in zip(parameters.items(), gradients, strict=True):
                mean[name] += np.float32(0.1) * (gradient - mean[name])
                square[name] += np.float32(0.001) * (gradient**2 - square[name])
                root = np.sqrt(square[name] / (1 - 0.999**step)) + 1e-8
                value -= (rate / (1 - 0.9**step) * mean[name] / root).astype(np.float32)
        if on_epoch is not None:
            on_epoch(epoch + 1)
    return LeNetWeights(**parameters)
