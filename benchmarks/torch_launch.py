"""Measure the host's time of a launch and of a view in PyTorch."""

import time
from collections.abc import Callable
from typing import Final

import torch

DEVICE: Final = "echo_npu"


def microseconds(function: Callable[[], object], count: int = 100, rounds: int = 20) -> float:
    """Return the least processor time of one call; what was launched runs between the rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(count):
            function()
        best = min(best, time.process_time() - start)
        torch.accelerator.synchronize()
    return 1e6 * best / count


def table() -> list[str]:
    """Return the table of the page."""
    x = torch.rand(64, 64, device=DEVICE)
    measured = {
        "launch of `x + x`, [64, 64]": microseconds(lambda: x + x),
        "`x.view(-1)`": microseconds(lambda: x.view(-1)),
        "`x.t()`": microseconds(x.t),
    }
    return [
        "| host's processor time of | |",
        "| --- | ---: |",
        *(f"| {name} | {value:.1f} us |" for name, value in measured.items()),
    ]
