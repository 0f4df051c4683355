"""LeNet-5 (LeCun et al. 1998) as a model: a batch of images, classified on the NPU.

    32x32 | conv 6@5x5, ReLU, max-pool | conv 16@5x5, ReLU, max-pool | 120, ReLU | 84, ReLU | 10, argmax

As usual today, it has ReLU and max-pooling in place of the paper's squashing function and trainable averages.
"""

import numpy as np

from echo_npu.models import lenet_reference
from echo_npu.models.digits import Digits
from echo_npu.models.executor import Executor, Mirrored
from echo_npu.models.lenet_weights import SHAPES, LeNetWeights
from echo_npu.models.model import Model, Outcome
from echo_npu.models.operations import Add, ArgMax, Conv2d, Matmul, MaxPool2d, Relu
from echo_npu.models.records import Check

LOGITS_BOUND = 1e-5
"""Largest error of the logits against float64, as a part of the largest logit of the same image."""


class LeNet(Model):
    """LeNet-5 with its weights, and a batch of labelled images.

    Raises:
        ValueError: no images.
    """

    slug = "lenet"
    steps = 15

    def __init__(self, weights: LeNetWeights, digits: Digits, notes: tuple[str, ...] = ()) -> None:
        if not len(digits):
            raise ValueError("there are no images to classify")
        self.weights = weights
        self.digits = digits
        self.name = f"LeNet-5, {len(digits)} images"
        self.notes = notes

    def load(self, executor: Executor) -> None:
        count = len(self.digits)
        self.weight = {
            name: executor.tensor(name, array, region="weight") for name, array in self.weights.items()
        }
        self._images = executor.tensor("images", self.digits.images)
        self._maps1 = executor.empty("maps 1", (count, 6, 28, 28))
        self._pooled1 = executor.empty("pooled 1", (count, 6, 14, 14))
        self._maps2 = executor.empty("maps 2", (count, 16, 10, 10))
        self._pooled2 = executor.empty("pooled 2", (count, 16, 5, 5))
        self._hidden1 = executor.empty("hidden 1", (count, SHAPES["fc1"][0]))
        self._hidden2 = executor.empty("hidden 2", (count, SHAPES["fc2"][0]))
        self._logits = executor.empty("logits", (count, SHAPES["fc3"][0]))
        self._classes = executor.empty("classes", (count,), np.int32)

    def compute(self, executor: Executor) -> Outcome:
        def convolve(name: str, source: Mirrored, maps: Mirrored, pooled: Mirrored) -> None:
            inputs = (source, self.weight[name], self.weight[f"{name}_bias"])
            executor.run(name, Conv2d(), inputs, maps)
            executor.run(f"{name} relu", Relu(), (maps,), maps)
            executor.run(f"{name} pool", MaxPool2d(2), (maps,), pooled)

        def connect(name: str, source: Mirrored, target: Mirrored) -> None:
            executor.run(name, Matmul(trans_b=True), (source, self.weight[name]), target)
            executor.run(f"{name} bias", Add(), (target, self.weight[f"{name}_bias"]), target)

        convolve("conv1", self._images, self._maps1, self._pooled1)
        convolve("conv2", self._pooled1, self._maps2, self._pooled2)
        connect("fc1", self._pooled2.view(lambda maps: maps.reshape(maps.shape[0], -1)), self._hidden1)
        executor.run("fc1 relu", Relu(), (self._hidden1,), self._hidden1)
        connect("fc2", self._hidden1, self._hidden2)
        executor.run("fc2 relu", Relu(), (self._hidden2,), self._hidden2)
        connect("fc3", self._hidden2, self._logits)
        executor.run("class", ArgMax(), (self._logits,), self._classes)
        return self._outcome()

    def _outcome(self) -> Outcome:
        logits, classes = self._logits.device.to_numpy(), self._classes.device.to_numpy()
        truth = lenet_reference.logits(self.weights, self.digits.images)
        scale = np.max(np.abs(truth), axis=1, keepdims=True)
        count = len(classes)
        checks = (
            Check(
                "logits_error",
                "logits against an independent float64 reference, of an image's largest",
                float(np.max(np.abs(logits.astype(np.float64) - truth) / scale)),
                LOGITS_BOUND,
            ),
            Check(
                "predictions_differing",
                "predictions that are not the reference's",
                float(np.count_nonzero(classes != np.argmax(truth, axis=1))),
                0.0,
            ),
        )
        right = int(np.count_nonzero(classes == self.digits.labels))
        results = {
            "model": self.name,
            "images": count,
            "right": right,
            "accuracy": right / count,
            "predictions": classes.tolist(),
            "labels": self.digits.labels.tolist(),
        }
        return Outcome(checks, results, (f"{right} of {count} images right: {right / count:.1%}",))
