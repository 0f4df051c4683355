"""Tensors that callers give for results (`out=`): the same as on the CPU, or the same refusal and warning."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import echo_npu.torch
from echo_npu.torch import outputs
from tests.runtime.torch.comparison import DEVICE, assert_native

Function = Callable[..., Any]

OPERATORS: dict[str, Function] = {
    "exp": lambda x, **out: torch.exp(x, **out),
    "add": lambda x, **out: torch.add(x, x, **out),
    "comparison": lambda x, **out: torch.lt(x, 0.5, **out),
    "clamp": lambda x, **out: torch.clamp(x, 0, 1, **out),
    "maximum": lambda x, **out: torch.maximum(x, x, **out),
    "where": lambda x, **out: torch.where(x > 0, x, x, **out),
    "sum": lambda x, **out: torch.sum(x, 1, **out),
    "amax": lambda x, **out: torch.amax(x, 0, **out),
    "all": lambda x, **out: torch.all(x, 0, **out),
    "mm": lambda x, **out: torch.mm(x, x, **out),
    "cat": lambda x, **out: torch.cat([x, x], **out),
    "tril": lambda x, **out: torch.tril(x, **out),
    "cumsum": lambda x, **out: torch.cumsum(x, 0, **out),
    "softmax": lambda x, **out: torch.softmax(x, 0, **out),
    "gather": lambda x, **out: torch.gather(
        x, 0, torch.zeros(3, 3, dtype=torch.int64, device=x.device), **out
    ),
    "index_copy": lambda x, **out: torch.index_copy(
        x, 0, torch.zeros(1, dtype=torch.int64, device=x.device), x[1:2], **out
    ),
    "decomposed": lambda x, **out: torch.logaddexp(x, x, **out),
    "on the CPU": lambda x, **out: torch.nextafter(x, x, **out),
    "arange": lambda x, **out: torch.arange(9, **out),
}


def made(x: torch.Tensor, result: torch.Tensor, name: str) -> torch.Tensor:
    """Return an output of some kind, on the device of `x`, for what `result` is."""
    if name in TYPES:
        return torch.ones(result.shape, dtype=TYPES[name], device=x.device)
    whole = torch.ones(2 * result.numel() + 3, dtype=result.dtype, device=x.device)
    match name:
        case "empty":
            return whole[:0]
        case "larger":
            return whole[: 2 * result.numel()].view(*result.shape, 2)
        case "number":
            return whole[0]
        case "apart":
            return whole[1 : 1 + 2 * result.numel() : 2].view(result.shape)
        case "expanded":
            return whole[:1].expand(result.shape)
        case "itself":
            return x
        case "turned":
            return x.t()
    return torch.as_strided(x, x.shape, x.stride(), 0 if x.storage_offset() else 1)  # shifted


TYPES = {
    "float64": torch.float64,
    "float16": torch.float16,
    "int32": torch.int32,
    "complex64": torch.complex64,
}
KINDS = (*TYPES, "empty", "larger", "number", "apart")
SHARING = ("expanded", "itself", "turned", "shifted")
CHECKED = ("exp", "add", "comparison", "clamp", "maximum", "where", "gather", "decomposed", "on the CPU")
"""Operators in which PyTorch checks outputs that share memory; others read there what they have written."""


def outcome(operator: Function, x: torch.Tensor, result: torch.Tensor, kind: str) -> tuple[Any, ...]:
    """Return the classes of error and warnings, and what the output is afterwards."""
    memory = torch.arange(x.numel() + 1, device=x.device).to(x.dtype) / 8
    x = memory[: x.numel()].view(x.shape)
    out = made(x, result, kind)
    error = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            assert operator(x, out=out) is out
        except (RuntimeError, IndexError, TypeError) as found:
            error = type(found).__name__
    said = sorted({str(each.message).split(",")[0] for each in caught if each.category is UserWarning})
    shown = torch.view_as_real(out) if out.is_complex() else out
    values = None if error else [round(float(each), 2) for each in shown.flatten().tolist()]
    return error, said, values, out.dtype, out.shape, out.stride()


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("name", OPERATORS)
def test_outputs_as_on_the_cpu(name: str) -> None:
    operator = OPERATORS[name]
    x = torch.zeros(3, 3)
    result = operator(x)
    for kind in (*KINDS, *(SHARING if name in CHECKED else ())):
        expected, found = (outcome(operator, x.to(device), result, kind) for device in ("cpu", DEVICE))
        assert found == expected, kind


def test_outputs_that_fit_are_written_by_the_device() -> None:
    x = torch.rand(3, 3, device=DEVICE)
    for name in set(OPERATORS) - {"on the CPU", "arange"}:
        echo_npu.torch.reset_op_counts()
        OPERATORS[name](x, out=torch.empty_like(OPERATORS[name](x)))
        assert_native()


def test_outputs_on_the_cpu_are_refused() -> None:
    x = torch.rand(3, 3, device=DEVICE)
    operators: tuple[Function, ...] = (torch.exp, torch.lgamma, torch.neg)
    for operator in operators:
        with pytest.raises(echo_npu.torch.MixedDevicesError):
            operator(x, out=torch.empty(3, 3))
        with pytest.raises(echo_npu.torch.MixedDevicesError):
            operator(x, out=torch.empty(()))


def test_constructors_fill_outputs_of_any_shape() -> None:
    for device in ("cpu", DEVICE):
        out = torch.ones(2, 6, device=device)[:, ::2]
        assert torch.arange(6, out=out).tolist() == [[0, 1, 2], [3, 4, 5]]
        assert torch.linspace(0, 5, 6, out=out.t()).tolist() == [[0, 1], [2, 3], [4, 5]]


def test_only_what_decides_a_shape_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that an operator computes with is not; an axis is."""
    remembered: set[Any] = set()
    monkeypatch.setattr(outputs, "_fitting", remembered)
    x = torch.rand(3, 4, device=DEVICE)
    for number in range(5):
        x.add(number + 0.5)
        x.clamp(-number, number)
        torch.addcmul(x, x, x, value=number)
    before = len(remembered)
    x.add(7.25)
    assert len(remembered) == before
    x.sum(0)
    x.sum(1)
    assert len(remembered) == before + 2
    monkeypatch.setattr(outputs, "_MOST", 1)
    x.exp()
    assert len(remembered) == 1


def test_writes_over_a_part_of_an_input() -> None:
    """PyTorch refuses them where elements would be read that were written before."""
    for write in (torch.Tensor.add_, torch.Tensor.copy_, torch.Tensor.mul_):
        x = torch.arange(6.0, device=DEVICE)
        with pytest.raises(RuntimeError, match="single memory location"):
            write(x[1:], x[:-1])
        assert x.tolist() == [0, 1, 2, 3, 4, 5]
    x = torch.arange(9.0, device=DEVICE).view(3, 3)
    with pytest.raises(RuntimeError, match="single memory location"):
        x.copy_(x.t())
    x[:, :2].add_(x[:, 1:])  # with gaps between the rows it is not checked
    assert x[:, 0].tolist() == [1, 7, 13]
