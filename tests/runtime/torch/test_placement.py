"""Operands on different devices."""

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from echo_npu.torch import MixedDevicesError
from tests.runtime.torch.comparison import DEVICE

INDICES = torch.tensor([0, 2, 1])
COLUMN = INDICES[:, None]

MIXED: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "add": lambda a, b: a + b,
    "add_": lambda a, b: b.add_(a),
    "sub": lambda a, b: b - a,
    "mul_": lambda a, b: a.mul_(b),
    "eq": lambda a, b: a == b,
    "maximum": torch.maximum,
    "pow": torch.pow,
    "addcmul": lambda a, b: torch.addcmul(b, b, a),
    "lerp": lambda a, b: torch.lerp(b, a, 0.5),
    "clamp": lambda a, b: b.clamp(a),
    "mm": lambda a, b: a @ b,
    "addmm": lambda a, b: torch.addmm(a[0], b, b),
    "cat": lambda a, b: torch.cat([a, b]),
    "where": lambda a, b: torch.where(a > 0, b, b),
    "convolution_overrideable": lambda a, b: functional.conv2d(b[None, None], a[None, None]),
    "embedding": lambda a, b: functional.embedding(INDICES, b),
    "index_select": lambda a, b: b.index_select(0, INDICES),
    "gather": lambda a, b: b.gather(1, COLUMN),
    "scatter": lambda a, b: b.scatter(1, COLUMN.to(DEVICE), a),
    "index_add": lambda a, b: b.index_add(0, INDICES.to(DEVICE), a),
    "index": lambda a, b: a[INDICES.to(DEVICE)],
    "mean": lambda a, b: torch.mean(b, 0, out=a[0]),
    "native_layer_norm": lambda a, b: functional.layer_norm(b, (3,), a[0], a[1]),
    "nll_loss_forward": lambda a, b: functional.nll_loss(b, INDICES),
    # On the CPU:
    "atan2": torch.atan2,
    "take": lambda a, b: torch.take(b, INDICES),
    "lgamma": lambda a, b: torch.lgamma(a, out=b),
    "lgamma, the other way": lambda a, b: torch.lgamma(b, out=a),
    "sort": lambda a, b: torch.sort(b, out=(a, COLUMN)),
    "bucketize": lambda a, b: torch.bucketize(a, b[0]),
    "_linalg_solve_ex": lambda a, b: torch.linalg.solve(b, a),
}
"""Functions of a CPU tensor and one of the device, by the operator that the error names."""


@pytest.mark.parametrize("name", MIXED)
def test_operands_on_two_devices_are_refused(name: str) -> None:
    a = torch.rand(3, 3) + 1
    b, before = a.to(DEVICE), a.clone()
    operator = name.partition(",")[0]
    wanted = rf"^aten::{operator}: Expected all tensors to be on the same device, .* cpu and echo_npu:0!"
    with pytest.raises(MixedDevicesError, match=wanted):
        MIXED[name](a, b)
    assert torch.equal(b.cpu(), before)
    assert torch.equal(a, before)
    assert torch.equal((b + b).cpu(), a + a)


def test_results_and_lists_count() -> None:
    b = torch.ones((), device=DEVICE)
    for function in (
        lambda: torch.ones(()).add_(b),
        lambda: torch.add(b, b, out=torch.ones(())),
        lambda: torch.ones(3) + b,
        lambda: torch.stack([b[None], torch.ones(1)]),
    ):
        with pytest.raises(MixedDevicesError, match="cpu and echo_npu:0"):
            function()


def test_cpu_tensors_without_dimensions_are_numbers() -> None:
    x, two = torch.rand(3, 4) + 1, torch.tensor(2.0)
    y = x.to(DEVICE)
    for function in (
        torch.add,
        torch.mul,
        torch.eq,
        torch.maximum,
        torch.atan2,
        torch.hypot,
        lambda a, b: b - a,
        lambda a, b: torch.where(a > 1.5, a, b),
        lambda a, b: torch.addcmul(a, b, a),
        lambda a, b: a.masked_fill(a > 1.5, b),
        lambda a, b: a.clone().fill_(b),
    ):
        torch.testing.assert_close(function(y, two).cpu(), function(x, two))


def test_indices_and_lengths_of_the_cpu() -> None:
    x = torch.rand(3, 4)
    y = x.to(DEVICE)
    assert torch.equal(y[INDICES].cpu(), x[INDICES])
    y[INDICES] = 1.0
    assert torch.equal(y.cpu(), torch.ones(3, 4))
    packed = torch.nn.utils.rnn.pack_padded_sequence(x.to(DEVICE), torch.tensor([4, 2, 1]), batch_first=True)
    padded, _ = torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    expected = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([4, 2, 1]), batch_first=True)
    assert torch.equal(packed.data.cpu(), expected.data)
    assert padded.device.type == DEVICE


def test_numbers_beside_half_precision_are_exact() -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for shape in ((), (3,)):
            x = torch.full(shape, 3.0).to(dtype)
            for function in (torch.add, torch.mul, torch.sub, torch.div):
                found = function(x.to(DEVICE), 0.1)
                exact = function(x.double(), torch.tensor(0.1, dtype=torch.float32).double()).to(dtype)
                assert found.dtype == dtype
                torch.testing.assert_close(found.cpu(), exact, rtol=1e-6, atol=0)
                changed = x.to(DEVICE)
                getattr(changed, f"{function.__name__}_")(0.1)
                assert torch.equal(changed.cpu(), found.cpu())
