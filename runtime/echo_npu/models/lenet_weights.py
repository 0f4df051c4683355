"""The shape of LeNet-5, and its weights."""

from dataclasses import dataclass, fields

import numpy as np

from echo_npu.models.truth import F32

SHAPES: dict[str, tuple[int, ...]] = {
    "conv1": (6, 1, 5, 5),
    "conv1_bias": (6,),
    "conv2": (16, 6, 5, 5),
    "conv2_bias": (16,),
    "fc1": (120, 400),
    "fc1_bias": (120,),
    "fc2": (84, 120),
    "fc2_bias": (84,),
    "fc3": (10, 84),
    "fc3_bias": (10,),
}
"""Convolutions are [out, in, rows, columns], fully connected layers [out, in]."""


@dataclass(frozen=True, slots=True)
class LeNetWeights:
    """The parameters of LeNet-5, float32, with the shapes of `SHAPES`; TypeError or ValueError for others."""

    conv1: F32
    conv1_bias: F32
    conv2: F32
    conv2_bias: F32
    fc1: F32
    fc1_bias: F32
    fc2: F32
    fc2_bias: F32
    fc3: F32
    fc3_bias: F32

    def __post_init__(self) -> None:
        for name, array in self.items():
            if array.dtype != np.float32:
                raise TypeError(f"weight {name} is {array.dtype}; it must be float32")
            if array.shape != SHAPES[name]:
                raise ValueError(f"weight {name} has shape {array.shape}; LeNet-5 has {SHAPES[name]}")

    def items(self) -> list[tuple[str, F32]]:
        """(name, array) of each parameter."""
        return [(item.name, getattr(self, item.name)) for item in fields(self)]
