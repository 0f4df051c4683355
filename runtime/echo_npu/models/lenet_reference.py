"""LeNet-5 in float64, independent of `lenet.py`: one kernel element at a time, without shared code."""

import numpy as np

from echo_npu.models.lenet_weights import LeNetWeights
from echo_npu.models.truth import F32, F64


def logits(weights: LeNetWeights, images: F32) -> F64:
    """Compute the ten logits of each image: float32 [count, 1, 32, 32] to float64 [count, 10]."""
    x = images.astype(np.float64)
    x = _halve(np.maximum(_convolve(x, weights.conv1, weights.conv1_bias), 0))
    x = _halve(np.maximum(_convolve(x, weights.conv2, weights.conv2_bias), 0))
    x = x.reshape(len(x), -1)
    x = np.maximum(x @ weights.fc1.T.astype(np.float64) + weights.fc1_bias, 0)
    x = np.maximum(x @ weights.fc2.T.astype(np.float64) + weights.fc2_bias, 0)
    return np.asarray(x @ weights.fc3.T.astype(np.float64) + weights.fc3_bias)


def _convolve(x: F64, weight: F32, bias: F32) -> F64:
    features, _, rows, columns = weight.shape
    height, width = x.shape[2] - rows + 1, x.shape[3] - columns + 1
    result: F64 = np.zeros((len(x), features, height, width))
    result += bias[:, None, None]
    for row in range(rows):
        for column in range(columns):
            seen = x[:, :, row : row + height, column : column + width]
            result += np.tensordot(weight[:, :, row, column].astype(np.float64), seen, (1, 1)).swapaxes(0, 1)
    return result


def _halve(x: F64) -> F64:
    largest: F64 = np.maximum.reduce([x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)])
    return largest
