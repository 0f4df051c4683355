"""What the tests of the PyTorch device share: one functional model for all of them."""

from collections.abc import Iterator

import pytest
import torch

import echo_npu.torch
from echo_npu.torch import devices

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
