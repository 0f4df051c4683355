"""Compare a function of tensors on the device with the same on the CPU."""

from collections.abc import Callable
from typing import Any

import torch

import echo_npu.torch

DEVICE = "echo_npu"


def moved(value: Any, device: str) -> Any:
    return value.to(device) if isinstance(value, torch.Tensor) else value


def assert_same(found: Any, expected: Any, tolerance: float) -> None:
    """Shapes, dtypes and values; any NaN equals any NaN."""
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other, tolerance)
        return
    assert found.device.type == DEVICE
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    exact = not expected.dtype.is_floating_point
    bound = 0.0 if exact else tolerance
    torch.testing.assert_close(found.cpu(), expected, rtol=bound, atol=bound, equal_nan=True)


def check(function: Callable[..., Any], *args: Any, tolerance: float = 1e-5, native: bool = True) -> None:
    """Assert equal results; and with `native` that no operator ran on the CPU."""
    expected = function(*args)
    given = [moved(each, DEVICE) for each in args]
    echo_npu.torch.reset_op_counts()
    assert_same(function(*given), expected, tolerance)
    if native:
        assert_native()


def check_gradients(
    function: Callable[..., torch.Tensor], *args: Any, tolerance: float = 1e-4, native: bool = True
) -> None:
    """Assert equal results and equal gradients of all floating-point arguments."""
    weights: torch.Tensor | None = None
    results = []
    for device in ("cpu", DEVICE):
        given = [
            each.detach().to(device).requires_grad_(each.is_floating_point())
            if isinstance(each, torch.Tensor)
            else each
            for each in args
        ]
        echo_npu.torch.reset_op_counts()
        made = function(*given)
        if weights is None:
            weights = torch.randn(made.shape).to(made.dtype)
        (made * weights.to(device)).sum().backward()
        leaves = [each for each in given if isinstance(each, torch.Tensor) and each.requires_grad]
        results.append([made.detach(), *(each.grad for each in leaves)])
    assert_same(results[1], results[0], tolerance)
    if native:
        assert_native()


def assert_native() -> None:
    """Assert that no operator ran on the CPU since the counts were reset, and that some ran on the NPU."""
    counts = echo_npu.torch.op_counts()
    assert not {name for name, each in counts.items() if each["cpu"]}
    assert any(each["npu"] for each in counts.values())
