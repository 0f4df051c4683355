"""Native operators: equal to the CPU's, and nothing of them on the CPU."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.runtime.torch.comparison import DEVICE, assert_same, check, check_gradients

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}

FUNCTIONS = (torch.neg, torch.abs, torch.exp, torch.sin, torch.cos, torch.tanh, torch.sigmoid, torch.relu)
ROUNDINGS = (torch.floor, torch.ceil, torch.trunc, torch.round, torch.sign)
UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    function.__name__: function
    for function in (*FUNCTIONS, *ROUNDINGS, torch.isnan, torch.reciprocal, torch.square)
} | {
    "sqrt": lambda x: x.abs().sqrt(),
    "rsqrt": lambda x: (x.abs() + 1).rsqrt(),
    "log": lambda x: (x.abs() + 1).log(),
    "log1p": lambda x: torch.cat([x.abs(), x.abs() * 1e-3, x.abs() * -0.25]).log1p(),
    "softplus": functional.softplus,
    "logsigmoid": functional.logsigmoid,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu, tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "pow 1.7": lambda x: x.abs().pow(1.7),
    "pow 3": lambda x: x.pow(3),
    "pow 0": lambda x: x.pow(0),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "clamp_min": lambda x: x.clamp_min(0.25),
    "masked_fill": lambda x: x.masked_fill(x > 0, -1.5),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "tril": lambda x: x.tril(1),
    "softmax": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(-1),
    "sum": lambda x: x.sum(),
    "sum of rows": lambda x: x.sum(1),
    "mean of columns": lambda x: x.mean(0, keepdim=True),
    "amax": lambda x: x.amax(1),
    "norm": lambda x: x.norm(),
    "norm of sums": lambda x: torch.linalg.vector_norm(x, 1, 0),
    "norm of extremes": lambda x: torch.linalg.vector_norm(x, math.inf, 1, keepdim=True),
    "cumsum": lambda x: x.cumsum(0),
    "pad": lambda x: functional.pad(x, (1, 2), value=3.0),
    "cat": lambda x: torch.cat([x, x.t().contiguous().t()], 1),
    "stack": lambda x: torch.stack([x, x], 1),
    "flip": lambda x: x.flip(0, 1),
    "roll": lambda x: x.roll((1, -2), (0, 1)) + x.roll(3),
    "var": lambda x: x.var(0),
    "std": lambda x: x.std(1, correction=0),
    "eye": lambda x: torch.eye(3, 4, device=x.device),
    "batch_norm": lambda x: functional.batch_norm(x, None, None, training=True),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_tensor(name: str, dtype: torch.dtype) -> None:
    check(UNARY[name], torch.randn(9, 17).to(dtype), tolerance=TOLERANCE[dtype])


@pytest.mark.parametrize(
    "name", ["relu", "sigmoid", "tanh", "silu", "gelu", "gelu, tanh", "softmax", "log_softmax"]
)
def test_their_gradients(name: str) -> None:
    check_gradients(UNARY[name], torch.randn(6, 11))


BINARY: dict[str, Callable[..., torch.Tensor]] = {
    "add": lambda x, y: x + y,
    "add, scaled": lambda x, y: torch.add(x, y, alpha=2.5),
    "add a number": lambda x, y: x + 2,
    "rsub": lambda x, y: 1 - y,
    "sub": lambda x, y: torch.sub(x, y, alpha=3),
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (y.abs() + 1),
    "maximum": torch.maximum,
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.5),
    "addcdiv": lambda x, y: torch.addcdiv(x, x, y.abs() + 1, value=0.5),
    "compare": lambda x, y: (x < y) & (x != y) | (x >= y),
    "broadcast": lambda x, y: x[:, :1] + y[:1],
    "transposed": lambda x, y: x.t() * y.t(),
    "in place": lambda x, y: x.clone().mul_(3).add_(y, alpha=2),
    "of a mask": lambda x, y: x * (y > 0),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_tensors(name: str, dtype: torch.dtype) -> None:
    x, y = torch.randn(2, 9, 17).to(dtype)
    check(BINARY[name], x, y, tolerance=TOLERANCE[dtype])


COMPARISONS = (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_numbers_are_compared_as_elements(dtype: torch.dtype) -> None:
    """0.1 equals the element that it rounds to; a number too large for float16 is infinity."""
    numbers = (0.1, 0.3, -0.7, 1e-3, 1e30, torch.tensor(0.1, dtype=torch.float64))
    x = torch.tensor([0.1, 0.3, -0.7, 1e-3, math.inf, math.nan]).to(dtype)
    check(lambda x: [compare(x, number) for compare in COMPARISONS for number in numbers], x)


def test_floats_have_no_bits_to_combine() -> None:
    x = torch.ones(3, device=DEVICE)
    for function in (lambda: x & 1, lambda: x | x, lambda: x ^ 2.0, x.bitwise_not):
        with pytest.raises(NotImplementedError, match="not implemented for 'Float'"):
            function()


INTEGER: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "add a number": lambda x, y: x + 5,
    "neg": lambda x, y: -x,
    "extremes": lambda x, y: (x.long().max(), x.long().min(), y[:3].long().max(), y[:1].long().min()),
    "compare": lambda x, y: ((x < y), (x <= y), (x > y), (x >= y), (x == x), (x != y), (x == 3)),
    "bitwise": lambda x, y: (x & y) | (x ^ ~y),
    "where": lambda x, y: torch.where(x < y, x, y),
    "fill": lambda x, y: x.masked_fill(x > y, 7),
    "full": lambda x, y: torch.full_like(x, 9),
    "cat": lambda x, y: torch.cat([x, y]),
    "clamp": lambda x, y: (x.clamp(-3, 2**30), x.clamp(min=y)),
    "minimum": lambda x, y: (torch.minimum(x, y), torch.maximum(x, y)),
    "any and all": lambda x, y: (x.any(), x.all(), (x * 0 if x.dtype == torch.int32 else x & 0).any()),
    "isin": lambda x, y: torch.isin(x, y[:30]),
    "flip and roll": lambda x, y: (x.flip(0), x.roll(7)),
    "to float": lambda x, y: x.float(),
    "to bool": lambda x, y: x.bool(),
    "to int32": lambda x, y: (x + 1).int(),
    "pad": lambda x, y: functional.pad(x, (2, 1), value=4),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("name", INTEGER)
def test_integers_are_exact(name: str, dtype: torch.dtype) -> None:
    limits = torch.iinfo(dtype)
    corners = torch.tensor(
        [0, 1, -1, 3, limits.min, limits.max, 2**24 + 1, -(2**24) - 1, 2**31 - 1, 2**30], dtype=dtype
    )
    x, y = (torch.randint(limits.min, limits.max, (40,), dtype=dtype) for _ in range(2))
    x, y = torch.cat([x, corners, corners]), torch.cat([y, corners, corners.flip(0)])
    check(INTEGER[name], x, y, tolerance=0.0)


def test_small_integers() -> None:
    x = torch.randint(-100, 100, (50,))
    y = torch.randint(-(2**31), 2**31 - 1, (50,), dtype=torch.int32)
    check(lambda y: y * y.flip(0), y, native=False)
    check(lambda x: (x * x, x.abs(), torch.minimum(x, x.neg())), x.int())
    for dtype in (torch.int8, torch.uint8, torch.int16):
        check(lambda x: (x + x, x > 3, x.float(), x.long()), x.to(dtype))
    check(lambda x: ((x > 0).sum(), (x > 0).any(), (x > -200).all(), (x > 0).cumsum(0), ~(x > 0)), x)
    check(lambda x: (x.cumsum(0), x.long().cumsum(0)), x * 2**40)


def test_floats_become_int64() -> None:
    """Toward zero; the corners that other types do not have."""
    corners = [0.0, -0.0, 0.9, -0.9, 65535.0, 65536.5, -65536.5, 2.0**31, -(2.0**31), 2.0**32, -(2.0**32)]
    corners += [2.0**40 + 2**20, -(2.0**40) - 2**17, 2.0**62, -(2.0**62), -(2.0**63), 16777217.0, 1e-30]
    x = torch.cat([torch.tensor(corners), torch.randn(200) * torch.exp(torch.randn(200) * 10)])
    x = x.clamp(-(2.0**63), 2.0**62)
    for dtype in FLOATS:
        check(lambda x: x.long(), x.to(dtype).nan_to_num(posinf=1.0, neginf=1.0))


ROUNDED_ONCE: dict[str, Callable[..., torch.Tensor]] = {
    "sum": lambda x, y: x.sum(1),
    "mean": lambda x, y: x.mean(0),
    "cumsum": lambda x, y: x.cumsum(1),
    "std": lambda x, y: x.std(1),
    "norm": lambda x, y: x.norm(dim=0),
    "softmax": lambda x, y: x.softmax(1),
    "log_softmax": lambda x, y: x.log_softmax(0),
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.3),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "scaled add": lambda x, y: torch.add(x, y, alpha=0.3),
    "gelu": lambda x, y: functional.gelu(x),
    "mm": lambda x, y: x @ y.t(),
    "linear": lambda x, y: functional.linear(x, y, y[:, 0]),
    "addmm": lambda x, y: torch.addmm(x[:, :9], x, y.t()),
    "addmm, scaled": lambda x, y: torch.addmm(x[:, :9], x, y.t(), alpha=0.3, beta=0.7),
    "layer_norm": lambda x, y: functional.layer_norm(x, (17,), y[0], y[1]),
    "rms_norm": lambda x, y: functional.rms_norm(x, (17,), y[0]),
    "index_add": lambda x, y: x.index_add(0, torch.tensor([0, 0, 0], device=x.device), y[:3]),
    "attention": lambda x, y: functional.scaled_dot_product_attention(
        x[None, None], y[None, None], y[None, None]
    ),
    "conv": lambda x, y: functional.conv1d(x[None], y[:3, :, None].expand(3, 17, 2)[:, :9], y[:3, 0]),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ROUNDED_ONCE)
def test_results_are_rounded_once(name: str, dtype: torch.dtype) -> None:
    """As near to the exact result as its rounding, but for the errors of float32."""
    x, y = torch.randn(2, 9, 17).to(dtype)
    exact = ROUNDED_ONCE[name](x.double(), y.double())
    found = ROUNDED_ONCE[name](x.to("echo_npu"), y.to("echo_npu")).cpu()
    assert found.dtype == dtype
    excess = (found.double() - exact).abs() - (exact.to(dtype).double() - exact).abs()
    assert excess.max() < 3e-5


@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions_keep_axes(keepdim: bool) -> None:
    for function in (torch.var, torch.std, torch.var_mean, torch.sum, torch.amax, torch.any, torch.argmax):
        check(lambda x, f=function: f(x, dim=1, keepdim=keepdim), torch.randn(3, 4, 2))
    for function in (torch.var, torch.std_mean, torch.mean, torch.logsumexp, torch.linalg.vector_norm):
        check(lambda x, f=function: f(x, dim=(0, 2), keepdim=keepdim), torch.randn(3, 4, 2))


def test_without_dimensions() -> None:
    for function in (torch.flip, torch.sum, torch.softmax, torch.argmax, torch.cumsum):
        dims = () if function is torch.flip else 0
        check(lambda x, function=function, dims=dims: function(x, dims), torch.tensor(2.5), native=False)


@pytest.mark.parametrize(
    "limits",
    [
        (1.3, 8.5, 1.2),
        (-41.0, -44.0, -0.3),
        (2.6, 0.08, -0.12),
        (0.0, 0.7, 0.1),
        (0, 7, 2),
        (7, 0, -3),
        (3, 3),
    ],
)
def test_ranges_have_as_many_numbers_as_on_the_cpu(limits: tuple[float, ...]) -> None:
    check(lambda x: x[0] + torch.arange(*limits, device=x.device), torch.zeros(1))


def test_lines_to_infinity() -> None:
    for start, end in ((0.0, float("inf")), (float("nan"), 1.0), (float("-inf"), 0.0)):
        line = torch.linspace(start, end, 3, device=DEVICE)
        assert_same(line, torch.linspace(start, end, 3), 0.0)


def test_positions() -> None:
    x = torch.randn(7, 30)
    x[2, 5] = x[2, 9] = 9.0
    check(lambda x: (x.argmax(1), x.argmax(), x.argmax(0, keepdim=True), *x.max(0)), x)
    check(lambda x: (x.argmin(1), x.argmin(), x.argmin(0, keepdim=True)), x)
    check(lambda x: torch.arange(3, 40, 4, device=x.device), x)
    check(lambda x: torch.arange(-3.0, 1.0, 0.25, device=x.device), x)
    for steps in (0, 1, 2, 7):
        check(lambda x, n: torch.linspace(-1.5, 4.0, n, device=x.device), x, steps, native=False)


PRODUCTS: dict[str, Callable[..., torch.Tensor]] = {
    "mm": lambda x, y: x @ y.t(),
    "mv": lambda x, y: x @ y[0],
    "bmm": lambda x, y: torch.bmm(x.expand(3, 5, 8), y.expand(3, 5, 8).mT),
    "addmm": lambda x, y: torch.addmm(y[:, 0], x, y.t()),
    "addmm, scaled": lambda x, y: torch.addmm(x @ y.t(), x, y.t(), alpha=0.5, beta=2.0),
    "linear": lambda x, y: functional.linear(x, y, y[:, 1]),
    "strided": lambda x, y: x[:, ::2] @ y[:, ::2].t(),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str, dtype: torch.dtype) -> None:
    x, y = torch.randn(2, 5, 8).to(dtype)
    check(PRODUCTS[name], x, y, tolerance=max(TOLERANCE[dtype], 1e-4) * 2)


def test_a_bias_times_0_is_not_read() -> None:
    x, bias = torch.randn(3, 5), torch.full((3, 3), torch.nan)
    for alpha in (1, 0.5):
        check(lambda b, x, a=alpha: torch.addmm(b, x, x.t(), beta=0, alpha=a), bias, x, native=alpha == 1)


def test_sums_of_small_integers_are_exact() -> None:
    for dtype, count in ((torch.int16, 1025), (torch.int16, 511), (torch.uint8, 70_001), (torch.bool, 300)):
        x = torch.full((count,), torch.iinfo(dtype).max if dtype != torch.bool else 1).to(dtype)
        assert x.to("echo_npu").sum().item() == x.sum().item()


def test_indexing() -> None:
    x = torch.randn(8, 9)
    ids = torch.randint(0, 8, (3, 5))
    check_gradients(lambda w: functional.embedding(ids.to(w.device), w), x)
    check_gradients(lambda w: functional.embedding(ids.to(w.device), w, padding_idx=2), x)
    check_gradients(
        lambda w: functional.embedding(ids.to(w.device), w, scale_grad_by_freq=True), x, native=False
    )
    check(lambda x, i: x[i - 4], x, ids)
    check(lambda x, i: x.index_select(1, i[0]), x, ids.int())
    check(lambda x, i: x[:, i], x, ids)
    check(lambda x, i: x[i, i - 7], x, ids)
    check(lambda x, i: x.index_select(1, i[0]), x, ids)
    check(lambda x, i: x.gather(1, i), x, ids)
    check(lambda x, i: x.gather(0, i), x.to(torch.int64), ids)
    with pytest.raises(RuntimeError):
        x.to("echo_npu").gather(1, torch.tensor([[9]], device="echo_npu"))


@pytest.mark.parametrize(
    "where",
    [
        lambda i, j: (slice(None), i, j),
        lambda i, j: (slice(None), slice(None), i, j[:, :1]),
        lambda i, j: (i, slice(None), j),
        lambda i, j: (slice(1, 3), i, slice(None), j),
        lambda i, j: (slice(None), i[0], j, slice(1, 4, 2)),
        lambda i, j: (i, j, slice(None), i[:, :1]),
    ],
)
def test_indexing_by_several_tensors_of_any_axes(where: Callable[..., tuple[Any, ...]]) -> None:
    x = torch.randn(4, 4, 4, 4)
    i, j = torch.randint(-4, 4, (2, 2, 3))
    check(lambda x, i, j: x[where(i, j)], x, i, j)
    check(lambda x, i, j: x.transpose(0, 3)[where(i, j)], x.to(torch.int64), i, j)
    values = torch.randn(x[where(i, j)].shape)

    def put_in_place(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        changed = x.clone()
        changed[where(i, j)] = v
        return changed

    columns = torch.arange(6).reshape(2, 3) % 4  # no element twice
    check(put_in_place, x, torch.tensor([[0, 1, 2], [3, 0, 1]]), columns, values)
    check(lambda x, i, j: put_in_place(x, i, j, torch.ones((), device=x.device)), x, i, j)
    check_gradients(lambda x: x[where(i.to(x.device), j.to(x.device))], x)


PAIRS = (torch.tensor([1, 3, 1]), torch.tensor([4, 0, -2]))


def put(
    x: torch.Tensor, indices: tuple[torch.Tensor, ...], values: torch.Tensor, accumulate: bool = False
) -> torch.Tensor:
    given = tuple(each.to(x.device) for each in indices)
    return x.clone().index_put_(given, values, accumulate=accumulate)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int16, torch.bool, torch.float64], ids=str)
def test_scattering_moves_elements_of_every_type(dtype: torch.dtype) -> None:
    x, values = ((torch.randn(shape) * 9).to(dtype) for shape in ((4, 6), (3, 5)))
    columns = torch.stack([torch.randperm(6)[:5] for _ in range(3)])
    rows = torch.stack([torch.randperm(4)[:3] for _ in range(5)], 1)
    check(lambda x, i, v: x.scatter(1, i, v), x, columns, values)
    check(lambda x, i, v: x.scatter(0, i, v), x, rows, values)
    check(lambda x, v: x.index_copy(1, torch.tensor([5, 0, 2], device=x.device), v[:, :3]), x[:3], values)
    check(lambda x, v: put(x, (torch.tensor([2, -1, 0]),), v), x[:, :5], values)
    check(lambda x, v: put(x, (torch.tensor([0, 3, 1]), torch.tensor([5, -2, 1])), v[:, 0]), x, values)


def test_scattered_sums() -> None:
    for dtype in FLOATS:
        x, values = torch.randn(4, 6).to(dtype), torch.randn(3, 5).to(dtype)
        ids, bound = torch.randint(0, 4, (3, 5)), 2 * TOLERANCE[dtype]
        check(lambda x, i, v: x.scatter_add(1, i, v), x, ids, values, tolerance=bound)
        check(lambda x, i, v: x.scatter_add(0, i, v), x, ids, values, tolerance=bound)
        check(lambda x, i, v: x.index_add(1, i[0], v[:, :5]), x[:3], ids, values, tolerance=bound)
        check(lambda x, v: put(x, (torch.tensor([2, 2, 0]),), v, True), x[:, :5], values, tolerance=bound)
        check(
            lambda x, v: x.index_add(0, torch.tensor([1, 1, 3], device=x.device), v[:, :5], alpha=-2.5),
            x[:, :5],
            values,
            tolerance=bound,
        )
        check(lambda x, v: put(x, PAIRS, v[:, 0], True), x, values, tolerance=bound)
    x = torch.randn(5, 6)
    check_gradients(lambda x: x[torch.tensor([0, 2, 2], device=x.device)], x)
    check_gradients(lambda x: x.gather(1, torch.tensor([[0, 2, 2]], device=x.device)), x)
    check_gradients(lambda x: x.index_select(1, torch.tensor([0, 2, 2], device=x.device)), x)


def test_writing_by_masks_and_wrong_indices() -> None:
    x = torch.randn(4, 6)
    number = torch.tensor(3.0)
    check(lambda x: put(x, (x > 0,), number.to(x.device)), x)
    check(lambda x: put(x, (x[:, 0] > 0,), number.to(x.device)), x)
    y = x.to("echo_npu")
    for wrong in (6, -1):
        with pytest.raises(RuntimeError):
            y.scatter(1, torch.tensor([[wrong]], device="echo_npu"), 1.0)
    with pytest.raises(IndexError):
        put(y, (torch.tensor([-5]),), y[:1])
    for shape in ((1, 6), (5, 6), (1,)):
        with pytest.raises(IndexError, match="The shape of the mask"):
            put(y, (torch.ones(shape, dtype=torch.bool, device="echo_npu"),), number)
    assert torch.equal(y.cpu(), x)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy(reduction: str, weighted: bool) -> None:
    targets = torch.randint(0, 11, (6,))
    targets[2] = -100
    weight = torch.rand(11) + 0.1 if weighted else None

    def loss(x: torch.Tensor) -> torch.Tensor:
        given = None if weight is None else weight.to(x.device)
        return functional.cross_entropy(x, targets.to(x.device), weight=given, reduction=reduction)

    check_gradients(loss, torch.randn(6, 11))


@pytest.mark.parametrize("ignored", [3, 0, -1])
def test_a_class_is_ignored(ignored: int) -> None:
    targets = torch.tensor([0, ignored, 5, 3, ignored, 2])
    for reduction in ("mean", "sum", "none"):
        check_gradients(
            lambda x, how=reduction: functional.cross_entropy(
                x, targets.to(x.device), ignore_index=ignored, reduction=how
            ),
            torch.randn(6, 11),
        )


def test_a_class_that_there_is_not_makes_the_loss_nan() -> None:
    x = torch.randn(4, 6)
    for wrong in (6, -1, 2**40):
        targets = torch.tensor([0, wrong, 5, -100])
        losses = functional.cross_entropy(x.to("echo_npu"), targets.to("echo_npu"), reduction="none")
        assert losses.isnan().tolist() == [False, True, False, False]
        assert functional.cross_entropy(x.to("echo_npu"), targets.to("echo_npu")).isnan()


def test_joining_different_types() -> None:
    x = torch.randn(2, 3)
    check(lambda x: torch.cat([x, x.bfloat16(), x.half()], 1), x)
    check(lambda x: torch.cat([x.bfloat16(), (x > 0), x.bfloat16()]), x)


def test_norms() -> None:
    x, weight, bias = torch.randn(4, 3, 16), torch.randn(16), torch.randn(16)
    check_gradients(lambda x, w, b: functional.layer_norm(x, (16,), w, b), x, weight, bias)
    check_gradients(lambda x: functional.layer_norm(x, (3, 16)), x)
    check_gradients(lambda x, w: functional.rms_norm(x, (16,), w), x, weight)
    check_gradients(lambda x: functional.rms_norm(x, (3, 16), eps=1e-3), x)
    low = (x.bfloat16(), weight.bfloat16())
    check_gradients(lambda x, w: functional.rms_norm(x, (16,), w), *low, tolerance=5e-2)


CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "stride and padding": {"stride": 2, "padding": 1},
    "dilation": {"dilation": 2, "padding": (2, 1)},
    "groups": {"groups": 2},
    "uneven": {"stride": (1, 3), "padding": (0, 2)},
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str) -> None:
    options = CONVOLUTIONS[name]
    x, bias = torch.randn(2, 4, 9, 8), torch.randn(6)
    weight = torch.randn(6, 4 // options.get("groups", 1), 3, 2)
    check_gradients(lambda x, w, b: functional.conv2d(x, w, b, **options), x, weight, bias)


def test_other_convolutions() -> None:
    x, weight = torch.randn(2, 4, 9), torch.randn(6, 4, 3)
    check_gradients(lambda x, w: functional.conv1d(x, w, padding=1), x, weight)
    check_gradients(
        lambda x, w: functional.conv_transpose1d(x, w), x, weight.transpose(0, 1).contiguous(), native=False
    )


def test_pooling() -> None:
    x = torch.randn(2, 4, 9, 8)
    check_gradients(lambda x: functional.max_pool2d(x, 2), x)
    check_gradients(lambda x: functional.max_pool2d(x, 3, padding=1), x)
    check_gradients(lambda x: functional.max_pool2d(x, 3, stride=2), x)
    check_gradients(lambda x: functional.max_pool2d(x, 3, stride=1, padding=1, dilation=2), x)
    check_gradients(lambda x: functional.max_pool2d(x, 2, stride=3, dilation=3), torch.randn(2, 3, 11, 13))
    check_gradients(lambda x: functional.max_pool2d(x, (3, 2), 2, (1, 0), ceil_mode=True), x)
    check(lambda x: functional.max_pool2d(x, 3, 2, 1, return_indices=True), x)
    check(lambda x: functional.max_pool2d(x.round(), 2, return_indices=True), x)  # the first of equal ones
    check(lambda x: functional.avg_pool2d(x, 2), x)
    for share in (0.5, 0.9, 1.0):  # windows of nothing but -infinity, as the padding
        empty = x.masked_fill(torch.rand_like(x) < share, -torch.inf)
        check(lambda x: functional.max_pool2d(x, 2, 2, 1, return_indices=True), empty[:, :, :-1])
        check(lambda x: functional.max_pool2d(x, (3, 2), (2, 1), 1, return_indices=True), empty)
        for apart, ceil in ((2, False), ((3, 1), False), (1, True), (2, True)):
            check(
                lambda x, apart=apart, ceil=ceil: functional.max_pool2d(
                    x, 3, 2, 1, apart, ceil_mode=ceil, return_indices=True
                ),
                empty,
            )


ATTENTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "plain": functional.scaled_dot_product_attention,
    "causal": lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
    "scaled": lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, scale=0.1),
    "bool mask": lambda q, k, v: functional.scaled_dot_product_attention(
        q, k, v, attn_mask=(torch.arange(35).reshape(5, 7) % 3 != 1).to(q.device)
    ),
    "mask of each head": lambda q, k, v: functional.scaled_dot_product_attention(
        q, k, v, attn_mask=(torch.arange(140.0).reshape(4, 5, 7).cos()).to(q.device)
    ),
    "mask of each row": lambda q, k, v: functional.scaled_dot_product_attention(
        q, k, v, attn_mask=(torch.arange(14).reshape(2, 1, 1, 7) % 5 != 1).to(q.device)
    ),
    "float mask": lambda q, k, v: functional.scaled_dot_product_attention(
        q, k, v, attn_mask=(torch.arange(35.0).reshape(1, 1, 5, 7) / 10).to(q.device)
    ),
}


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention(name: str) -> None:
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 6)
    check_gradients(ATTENTIONS[name], q, k, v)


def test_grouped_attention() -> None:
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 8)
    check_gradients(
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, enable_gqa=True, is_causal=True),
        q,
        k,
        v,
    )
    x = torch.randn(1, 5, 4, 8).transpose(1, 2).bfloat16()
    check(lambda x: functional.scaled_dot_product_attention(x, x, x), x, tolerance=2e-2)
