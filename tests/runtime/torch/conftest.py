"""What the tests of the PyTorch device share: one functional model for all of them."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import echo_npu.torch
from echo_npu.driver.queues import Ring
from echo_npu.torch import devices
from echo_npu.torch.stream import CommandStream

torch.set_num_threads(1)
if not devices.all_open():
    echo_npu.torch.configure(backend="cmodel", config="default")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same numbers in every run, no counts, nothing asked of the environment."""
    for name in ("ECHO_NPU_FALLBACK", "ECHO_NPU_DEBUG_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    torch.manual_seed(7)
    echo_npu.torch.reset_op_counts()
    yield
    torch.accelerator.synchronize()


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Counts of the commands that were launched and of the doorbells."""
    counts = {"commands": 0, "doorbells": 0}
    add, write = CommandStream.add, Ring._write

    def counted_add(self: CommandStream, commands: Any, slots: int) -> None:
        counts["commands"] += len(commands)
        add(self, commands, slots)

    def counted_write(self: Ring, part: Any) -> None:
        counts["doorbells"] += bool(part)
        write(self, part)

    monkeypatch.setattr(CommandStream, "add", counted_add)
    monkeypatch.setattr(Ring, "_write", counted_write)
    return counts
