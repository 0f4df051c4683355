"""What programs on the CPU do. Run with and without the device, they must print the same."""

import json
import pickle
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._device import _device_constructors

Program = Callable[[], Any]

PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def function_of_many_calls(x: torch.Tensor) -> torch.Tensor:
    y = x + torch.tensor(1.0) + torch.as_tensor([2.0, 3.0]) + x.to("cpu")
    return torch.tensor([1.0, 2.0]).to(torch.float64) * y


def trained(make: Callable[..., torch.optim.Optimizer], **options: Any) -> list[Any]:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = make(model.parameters(), **options)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).square().sum().backward()
        optimizer.step()
    return [each.tolist() for each in model.parameters()]


@program
def constructors_below_a_device() -> list[str]:
    made = []
    with torch.device("meta"):
        for function in (torch.tensor, torch.as_tensor, torch.asarray):
            made.append(function([1.0]).device.type)
        made += [torch.zeros(2).device.type, torch.arange(3).device.type, torch.eye(2).device.type]
    assert _device_constructors() >= {torch.tensor, torch.as_tensor, torch.zeros}
    return made


@program
def default_device() -> list[str]:
    torch.set_default_device("meta")
    try:
        made = [torch.tensor([1.0]), torch.as_tensor([1.0]), torch.rand(2)]
    finally:
        torch.set_default_device(None)
    return [each.device.type for each in made]


@program
def script() -> list[float]:
    return list(torch.jit.script(function_of_many_calls)(torch.ones(2)).tolist())


@program
def trace() -> list[float]:
    return list(torch.jit.trace(function_of_many_calls, (torch.zeros(2),))(torch.ones(2)).tolist())


@program
def compiled_whole() -> list[float]:
    function = torch.compile(function_of_many_calls, backend="eager", fullgraph=True)
    return list(function(torch.ones(2)).tolist())


@program
def exported() -> int:
    class ManyCalls(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function_of_many_calls(x)

    return len(torch.export.export(ManyCalls(), (torch.ones(2),)).graph.nodes)


@program
def module_converted_below_a_graph() -> str:
    model = nn.Linear(2, 2)
    loss = model(torch.ones(1, 2)).sum()
    model.double()
    loss.backward()
    return str(model.weight.dtype)


@program
def module_with_a_weak_reference() -> bool:
    model = nn.Linear(2, 2)
    reference, tensors = weakref.ref(model.weight), torch.utils.weak.WeakTensorKeyDictionary()
    tensors[model.weight] = 1
    model.double().half()
    return reference() is model.weight and len(tensors) == 1


@program
def module_loaded() -> list[Any]:
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    kept = second.weight
    second.load_state_dict(first.state_dict())
    restored = pickle.loads(pickle.dumps(second))
    return [second.weight is kept, torch.equal(restored.weight, first.weight)]


@program
def optimizers() -> list[Any]:
    made = []
    for options in ({}, {"foreach": True}, {"fused": True}, {"amsgrad": True, "maximize": True}):
        made.append(trained(torch.optim.AdamW, lr=0.1, **options))
    made.append(trained(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True))
    return made


@program
def compiled_optimizer() -> list[Any]:
    def make(params: Any, **options: Any) -> torch.optim.Optimizer:
        optimizer = torch.optim.Adam(params, **options)
        optimizer.step = torch.compile(optimizer.step, backend="eager")  # type: ignore[method-assign]
        return optimizer

    return trained(make, lr=0.1)


@program
def generators() -> list[float]:
    generator = torch.Generator().manual_seed(7)
    return [*torch.rand(3, generator=generator).tolist(), float(isinstance(generator, torch.Generator))]


@program
def threads_of_the_engine() -> list[Any]:
    x = torch.ones(3, requires_grad=True)
    (grad,) = torch.autograd.grad((x * x).sum(), x, create_graph=True)
    return [grad.tolist(), torch.autograd.grad(grad.sum(), x)[0].tolist()]


def main() -> None:
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, function in PROGRAMS.items():
            try:
                found[name] = function()
            except Exception as error:  # the other run must have it too
                found[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))


if __name__ == "__main__":
    main()
