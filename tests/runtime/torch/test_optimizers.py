"""Steps of the optimizers: their commands, and the same bits whichever implementation is asked for."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
import torch

import echo_npu.torch
from tests.runtime.torch.comparison import DEVICE, assert_native

SHAPES = ((7,), (16, 40), (), (3, 5, 7), (1,))
IMPLEMENTATIONS = ({"fused": True}, {"foreach": True}, {"foreach": False}, {})

Make: TypeAlias = Callable[..., torch.optim.Optimizer]

# For each the commands of a step for one parameter.
OPTIMIZERS: dict[str, tuple[Make, dict[str, Any], int]] = {
    "AdamW": (torch.optim.AdamW, {"lr": 1e-2}, 2),
    "Adam": (torch.optim.Adam, {"lr": 1e-2, "weight_decay": 0.1}, 2),
    "SGD": (torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.1}, 1),
    "SGD with momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, 2),
    "SGD by Nesterov": (
        torch.optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True},
        2,
    ),
    "AMSGrad": (torch.optim.AdamW, {"lr": 1e-2, "amsgrad": True}, 3),
    "AdamW that maximizes": (torch.optim.AdamW, {"lr": 1e-2, "maximize": True}, 2),
    "Adam that maximizes": (
        torch.optim.Adam,
        {"lr": 1e-2, "weight_decay": 0.1, "maximize": True, "amsgrad": True},
        3,
    ),
    "SGD that maximizes": (torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.1, "maximize": True}, 1),
    "SGD with momentum that maximizes": (
        torch.optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "maximize": True},
        2,
    ),
    "SGD by Nesterov that maximizes": (
        torch.optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True, "maximize": True},
        2,
    ),
    "SGD with decay that maximizes": (
        torch.optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, "maximize": True},
        2,
    ),
}

# For elements of about 1: in float32 other roundings, in the others a rounding for each of three steps.
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 2**-6, torch.float16: 2**-9}


def parameters(device: str = DEVICE, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Of several shapes, and one whose memory is in another order."""
    made = [torch.randn(shape).to(device, dtype).requires_grad_() for shape in SHAPES]
    return [*made, torch.randn(6, 4).to(device, dtype).t().requires_grad_()]


def give_gradients(params: list[torch.Tensor]) -> None:
    for each in params:
        each.grad = torch.empty_like(each).copy_(torch.randn(each.shape))


def left(params: list[torch.Tensor], optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Parameters and state."""
    held = list(params)
    for each in params:
        held += [value for value in optimizer.state[each].values() if isinstance(value, torch.Tensor)]
    return [each.detach().cpu() for each in held]


def trained(
    make: Make, options: dict[str, Any], device: str = DEVICE, dtype: torch.dtype = torch.float32
) -> list[torch.Tensor]:
    """What three steps leave."""
    torch.manual_seed(1)
    params = parameters(device, dtype)
    optimizer = make(params, **options)
    for _ in range(3):
        give_gradients(params)
        optimizer.step()
    return left(params, optimizer)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_implementation_is_the_fused_one(name: str, dtype: torch.dtype) -> None:
    make, options, _ = OPTIMIZERS[name]
    # As here, only Adam's fused step on the CPU takes averages before they are rounded.
    fused = dtype != torch.float32 and make is not torch.optim.SGD
    expected = trained(make, {**options, "fused": fused}, "cpu", dtype)
    first = trained(make, {**options, **IMPLEMENTATIONS[0]}, dtype=dtype)
    assert len(first) == len(expected)
    for found, value in zip(first, expected, strict=True):
        assert found.dtype == value.dtype
        torch.testing.assert_close(found, value, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])
    for implementation in IMPLEMENTATIONS[1:]:
        for found, value in zip(
            trained(make, {**options, **implementation}, dtype=dtype), first, strict=True
        ):
            assert torch.equal(found, value)
    assert_native()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_commands_of_a_step(name: str, launched: dict[str, int]) -> None:
    """A command for what is averaged, one for the parameter, all of them together."""
    make, options, commands = OPTIMIZERS[name]
    params = parameters()
    optimizer = make(params, **options)
    for _ in range(2):
        give_gradients(params)
        optimizer.step()
        torch.accelerator.synchronize()
        counts, launched["commands"], launched["doorbells"] = dict(launched), 0, 0
    assert counts == {"commands": commands * len(params), "doorbells": 1}


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_autograd_sees_that_parameters_changed(name: str, implementation: dict[str, bool]) -> None:
    make, options, _ = OPTIMIZERS[name]
    params = parameters()
    optimizer = make(params, **options, **implementation)
    loss = sum((each * each).sum() for each in params)
    give_gradients(params)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_averages_anywhere() -> None:
    """The operator itself takes averages that lie apart, and gradients in another order."""
    results = []
    for apart in (False, True):
        torch.manual_seed(2)
        param, grad = torch.randn(5, 9).to(DEVICE), torch.randn(5, 9).to(DEVICE)
        both = torch.rand(2, 5, 9).to(DEVICE)
        mean, square = (each.clone() for each in both) if apart else both
        given = grad.t().contiguous().t() if apart else grad
        step = torch.tensor(3.0, device=DEVICE if apart else "cpu")
        torch._fused_adam_(
            [param],
            [given],
            [mean],
            [square],
            [],
            [step],
            lr=0.1,
            beta1=0.9,
            beta2=0.99,
            weight_decay=0.1,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )
        results.append([each.cpu() for each in (param, mean, square)])
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


def test_training_goes_on_from_loaded_state(launched: dict[str, int]) -> None:
    """State that was saved, loaded or made with another implementation: the bits of a run without a break."""
    expected = trained(*OPTIMIZERS["AdamW"][:2])
    torch.manual_seed(1)
    params = parameters()
    make, options, commands = OPTIMIZERS["AdamW"]
    optimizer = make(params, **options)
    for capturable in (False, True, False):
        give_gradients(params)
        again = make(params, **options, capturable=capturable)
        again.load_state_dict(optimizer.state_dict())
        again.param_groups[0]["capturable"] = capturable
        optimizer = again
        torch.accelerator.synchronize()
        optimizer.step()
        torch.accelerator.synchronize()
    for found, value in zip(left(params, optimizer), expected, strict=True):
        assert torch.equal(found, value)
    launched["commands"] = 0
    optimizer.step()
    torch.accelerator.synchronize()
    assert launched["commands"] == commands * len(params)


def test_a_rate_in_a_tensor() -> None:
    """It may change between steps."""
    for make in (torch.optim.AdamW, torch.optim.SGD):
        results = []
        for tensor in (False, True):
            torch.manual_seed(3)
            params = parameters()
            optimizer = make(params, lr=torch.tensor(0.5) if tensor else 0.5)
            for rate in (0.5, 0.25):
                group = optimizer.param_groups[0]
                group["lr"] = group["lr"].fill_(rate) if tensor else rate
                give_gradients(params)
                optimizer.step()
            results.append(left(params, optimizer))
        for one, other in zip(*results, strict=True):
            assert torch.equal(one, other)


def test_parameters_of_several_types() -> None:
    """Each type is a step of its own."""
    results = []
    for fused in (False, True):
        torch.manual_seed(4)
        params = [each for dtype in TOLERANCES for each in parameters(dtype=dtype)]
        optimizer = torch.optim.AdamW(params, fused=fused)
        give_gradients(params)
        optimizer.step()
        results.append(left(params, optimizer))
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)
    assert_native()


def test_rates_of_decay_in_tensors_are_steps_of_several_operators() -> None:
    options = {"betas": (torch.tensor(0.9), torch.tensor(0.99)), "foreach": False}
    expected = trained(torch.optim.AdamW, options, "cpu")
    for found, value in zip(trained(torch.optim.AdamW, options), expected, strict=True):
        torch.testing.assert_close(found, value, rtol=1e-5, atol=1e-5)
    assert not any("_fused" in name for name in echo_npu.torch.op_counts())
