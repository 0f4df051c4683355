"""Pinned memory of the host."""

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch

from echo_npu.torch import pinning

DEVICE = "echo_npu"

CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "empty": lambda **given: torch.empty(3, **given),
    "empty, nothing in it": lambda **given: torch.empty(0, **given),
    "empty, channels last": lambda **given: torch.empty(
        1, 2, 3, 4, memory_format=torch.channels_last, **given
    ),
    "empty_strided": lambda **given: torch.empty_strided((2, 2), (1, 2), **given),
    "empty_permuted": lambda **given: torch.empty_permuted((2, 3), (1, 0), **given),
    "empty_like": lambda **given: torch.empty_like(torch.ones(3), **given),
    "zeros": lambda **given: torch.zeros(3, **given),
    "ones": lambda **given: torch.ones(3, dtype=torch.bool, **given),
    "full": lambda **given: torch.full((3,), 2, **given),
    "tensor": lambda **given: torch.tensor([1, 2, 3], **given),
    "new_zeros": lambda **given: torch.ones(1).new_zeros(3, **given),
    "ones_like": lambda **given: torch.ones_like(torch.ones(3), **given),
    "scalar_tensor": lambda **given: torch.scalar_tensor(2.5, **given),
    "arange": lambda **given: torch.arange(3, **given),
    "linspace": lambda **given: torch.linspace(0, 1, 3, **given),
    "eye": lambda **given: torch.eye(3, **given),
    "tril_indices": lambda **given: torch.tril_indices(3, 3, **given),
    "rand": lambda **given: torch.rand(3, **given),
    "randn": lambda **given: torch.randn(3, **given),
    "randint": lambda **given: torch.randint(3, (3,), **given),
    "randperm": lambda **given: torch.randperm(3, **given),
}


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_constructors(name: str) -> None:
    pinned, plain = CONSTRUCTORS[name](pin_memory=True), CONSTRUCTORS[name]()
    assert pinned.device.type == "cpu"
    assert pinned.is_pinned()
    assert not plain.is_pinned()
    assert (pinned.shape, pinned.dtype, pinned.stride()) == (plain.shape, plain.dtype, plain.stride())
    if not name.startswith(("empty", "rand")):
        assert torch.equal(pinned, plain)


def test_pin_memory() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    pinned = x.pin_memory()
    assert pinned.is_pinned()
    assert not x.is_pinned()
    assert torch.equal(pinned, x)
    assert pinned.pin_memory() is pinned
    assert pinned[1:].is_pinned()
    assert pinned.untyped_storage().is_pinned()
    assert not pinned.clone().is_pinned()
    y = pinned.to(DEVICE, non_blocking=True)
    assert torch.equal(y.cpu(), x)
    assert not y.is_pinned()
    back = y.to("cpu", non_blocking=True)
    assert back.is_pinned()
    assert torch.equal(back, x)
    assert torch.equal(y.to("cpu", torch.int32, non_blocking=True), x.int())


def test_a_mark_ends_with_its_memory() -> None:
    gc.collect()
    before = len(pinning._marks)
    for _ in range(5):
        x = torch.empty(100, pin_memory=True)
        view = x[3:]
        del x
        assert view.is_pinned()
        del view
        assert not torch.empty(100).is_pinned()
    assert len(pinning._marks) == before
    held = [torch.empty(1, pin_memory=True) for _ in range(500)]  # each at a place of its own
    assert len(pinning._marks) == before + len(held)
    held.clear()
    assert len(pinning._marks) == before


def test_tensors_of_the_device_are_not_pinned() -> None:
    for function in (
        lambda: torch.empty(3, device=DEVICE, pin_memory=True),
        lambda: torch.zeros(3, device=DEVICE, pin_memory=True),
        lambda: torch.empty(3, device=DEVICE).pin_memory(),
    ):
        with pytest.raises(RuntimeError, match="nly dense CPU tensors can be pinned"):
            function()


def test_a_data_loader_pins() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(8.0), torch.arange(8))
    for x, y in torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True):
        assert x.is_pinned()
        assert y.is_pinned()
        assert torch.equal(x.to(DEVICE, non_blocking=True).cpu(), y.float())
