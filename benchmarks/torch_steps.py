"""Commands and doorbells of training steps in PyTorch, on the functional model."""

import warnings
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional

from echo_npu.torch.devices import opened

DEVICE: Final = "echo_npu"

OPTIMIZERS: Final[dict[str, Callable[[Any], torch.optim.Optimizer]]] = {
    "AdamW": lambda parameters: torch.optim.AdamW(parameters),
    "Adam": lambda parameters: torch.optim.Adam(parameters, weight_decay=0.01),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, weight_decay=0.01),
    "SGD with momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
}


def lenet() -> nn.Module:
    """Return the network, on the device."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 10),
    ).to(DEVICE)


def counted(function: Callable[[], object]) -> tuple[int, int]:
    """Return the commands and the doorbells of a call and what it launched."""
    stream = opened(0).stream
    torch.accelerator.synchronize()
    before = stream.added, stream.submissions
    function()
    torch.accelerator.synchronize()
    return stream.added - before[0], stream.submissions - before[1]


def figures(make: Callable[[Any], torch.optim.Optimizer]) -> tuple[float, int, int]:
    """Return the optimizer's commands for a parameter, and the doorbells of a step, eager and compiled."""
    x, y = torch.rand(8, 1, 8, 8, device=DEVICE), torch.arange(8, device=DEVICE)
    model = lenet()
    optimizer = make(model.parameters())

    def step(model: Any, optimize: Callable[[], object]) -> None:
        functional.cross_entropy(model(x), y).backward()
        optimize()

    for _ in range(2):
        _, doorbells = counted(lambda: step(model, optimizer.step))
    commands, _ = counted(optimizer.step)
    fast, fast_step = (torch.compile(each, backend=DEVICE) for each in (model, optimizer.step))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            _, compiled = counted(lambda: step(fast, fast_step))
    torch.compiler.reset()
    return commands / len(list(model.parameters())), doorbells, compiled


def table() -> list[str]:
    """Return the table of the page: commands of an optimizer's step, doorbells of whole steps, eager and
    compiled."""
    lines = [
        "| step of a LeNet with | commands of the optimizer, a parameter | doorbells | compiled |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, make in OPTIMIZERS.items():
        commands, doorbells, compiled = figures(make)
        lines.append(f"| {name} | {commands:.1f} | {doorbells} | {compiled} |")
    return lines
