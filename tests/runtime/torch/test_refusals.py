"""What the CPU refuses, the device refuses with an error of the same class, and works afterwards."""

from collections.abc import Callable
from typing import Final

import pytest
import torch
from torch.nn import functional

DEVICE: Final = "echo_npu"

CASES: Final[dict[str, Callable[[torch.Tensor], object]]] = {
    "layer_norm of other axes": lambda x: functional.layer_norm(x, (5,)),
    "layer_norm of more axes": lambda x: functional.layer_norm(x[0], (4, 6)),
    "weights of layer_norm": lambda x: functional.layer_norm(x, (6,), x[0, :5]),
    "rms_norm of other axes": lambda x: functional.rms_norm(x, (5,)),
    "weights of rms_norm": lambda x: functional.rms_norm(x, (6,), x[0, :5]),
    "convolution without dilation": lambda x: functional.conv2d(
        x[None, None], x[None, None, :2, :2], dilation=0
    ),
    "arange without an end": lambda x: torch.arange(0, float("inf"), device=x.device),
    "arange to NaN": lambda x: torch.arange(float("nan"), device=x.device),
    "arange from NaN": lambda x: torch.arange(float("nan"), 4.0, 1, device=x.device),
    "arange by infinity": lambda x: torch.arange(float("-inf"), 4.0, float("inf"), device=x.device),
    "fill_ with several numbers": lambda x: x.fill_(x[0]),
    "fill_ with a tensor of one number": lambda x: x.fill_(x[0, :1]),
    "abs of bool": lambda x: (x > 1).abs(),
    "relu of bool": lambda x: (x > 1).relu(),
}


@pytest.mark.parametrize("name", CASES)
def test_a_refusal(name: str) -> None:
    errors = []
    for device in ("cpu", DEVICE):
        x = torch.arange(24.0).reshape(4, 6).to(device)
        with pytest.raises((RuntimeError, IndexError, ValueError, TypeError)) as caught:
            CASES[name](x)
        errors.append(type(caught.value))
    assert errors[0] is errors[1]
    assert (torch.ones(3, device=DEVICE) + 1).tolist() == [2, 2, 2]
