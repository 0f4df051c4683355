"""Random operators on random views, in place and not: other ones in every run."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
import torch

from tests.runtime.torch.comparison import DEVICE, assert_same

DTYPES: Final = (torch.float32, torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.bool)
TOLERANCES: Final = {torch.float32: 1e-4, torch.bfloat16: 4e-2}


def made(source: random.Random, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    count = torch.Size(shape).numel()
    numbers = torch.tensor([source.randint(-6, 6) for _ in range(count)], dtype=torch.int64).reshape(shape)
    return (numbers / 3).to(dtype) if dtype.is_floating_point else numbers.to(dtype)


def sliced(source: random.Random, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    axis = source.randrange(x.dim())
    start = source.randrange(x.shape[axis])
    end = source.randint(start + 1, x.shape[axis])
    index = (*(slice(None),) * axis, slice(start, end, source.choice((1, 1, 2))))
    return lambda x: x[index]


def permuted(source: random.Random, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    order = source.sample(range(x.dim()), x.dim())
    return lambda x: x.permute(order)


def selected(source: random.Random, x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    axis = source.randrange(x.dim())
    place = source.randrange(x.shape[axis])
    return (lambda x: x.select(axis, place)) if x.dim() > 1 else (lambda x: x.unsqueeze(0))


VIEWS: Final = (sliced, sliced, permuted, selected)
REDUCTIONS: Final = (
    "sum",
    "mean",
    "amax",
    "amin",
    "any",
    "all",
    "std",
    "var",
    "argmax",
    "argmin",
    "logsumexp",
    "norm",
)
PAIRS: Final = (
    "add",
    "sub",
    "mul",
    "maximum",
    "lt",
    "eq",
    "bitwise_xor",
    "div",
    "where",
    "matmul",
    "cat",
    "lerp",
    "numbers",
)
COMPARISONS: Final = (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge)
ALONG: Final = ("softmax", "cumsum", "flip", "log_softmax", "sort")
IN_PLACE: Final = (
    "add_",
    "mul_",
    "copy_",
    "neg_",
    "fill_",
    "masked_fill_",
    "index_put",
    "index_add_",
    "clamp_",
    "relu_",
)


def chosen(source: random.Random, x: torch.Tensor) -> tuple[str, Callable[..., Any], list[torch.Tensor]]:
    """Return an operator's name, a function of `x` and other tensors, and these."""
    axis, keepdim = source.randrange(-x.dim(), x.dim()), source.random() < 0.5
    kind = source.choice((REDUCTIONS, PAIRS, ALONG, IN_PLACE, IN_PLACE))
    name = source.choice(kind)
    other = made(source, [n if source.random() < 0.8 else 1 for n in x.shape], x.dtype)
    if kind is REDUCTIONS:
        return f"{name} {axis} {keepdim}", lambda x: getattr(torch, name)(x, dim=axis, keepdim=keepdim), []
    if kind is ALONG:
        function = torch.Tensor.flip if name == "flip" else getattr(torch, name)
        return f"{name} {axis}", (lambda x: function(x, axis)), []
    if kind is PAIRS:
        if name == "where":
            return name, lambda x, y: torch.where(x > 0, x, y), [other]
        if name == "matmul":
            return name, torch.matmul, [made(source, (x.shape[-1], 3), x.dtype)]
        if name == "cat":
            return name, lambda x, y: torch.cat([x, y, x], axis), [made(source, x.shape, x.dtype)]
        if name == "numbers":
            number = source.randint(-6, 6) / 3  # often what an element was rounded from
            return name, lambda x: [compare(x, number) for compare in COMPARISONS], []
        if name == "lerp":
            return name, lambda x, y: torch.lerp(x, y, 0.3), [other]
        return name, getattr(torch, name), [other]
    if name in ("neg_", "relu_"):
        return name, lambda x: getattr(x, name)(), []
    if name == "fill_":
        return name, lambda x: x.fill_(2), []
    if name == "clamp_":
        return name, lambda x: x.clamp_(-1, 1), []
    if name == "masked_fill_":
        return name, lambda x, y: x.masked_fill_(y > 0, 1), [other]
    rows = torch.tensor([source.randrange(x.shape[0]) for _ in range(2)])
    if name == "index_put":
        values = made(source, (1, *x.shape[1:]), x.dtype)
        return name, lambda x, i, y: x.index_put_((i[:1],), y), [rows, values]
    if name == "index_add_":
        return name, lambda x, i, y: x.index_add_(0, i, y), [rows, made(source, (2, *x.shape[1:]), x.dtype)]
    return name, lambda x, y: getattr(x, name)(y), [other]


def tensors(value: Any) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else list(value)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0")
def test_random_operators_on_views() -> None:
    """The results, and all of the memory that the views lie in."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # of a failure
    source = random.Random(seed)
    done = 0
    while done < 300:
        dtype = source.choice(DTYPES)
        shape = [source.randint(1, 5) for _ in range(source.randint(1, 4))]
        offset = source.choice((0, 0, 1, 3))
        memory = made(source, (offset + torch.Size(shape).numel(),), dtype)
        places = [memory, memory.to(DEVICE)]
        pair = [each[offset:].view(shape) for each in places]
        for _ in range(source.randint(0, 3)):
            view = source.choice(VIEWS)(source, pair[0])
            pair = [view(each) for each in pair]
        name, function, others = chosen(source, pair[0])
        print(name, dtype, tuple(pair[0].shape), pair[0].stride(), pair[0].storage_offset())
        try:
            expected = function(pair[0], *others)
        except (RuntimeError, IndexError):
            continue  # not of this type or shape
        found = function(pair[1], *(each.to(DEVICE) for each in others))
        tolerance = TOLERANCES.get(dtype, 1e-5)
        assert_same(tensors(found), tensors(expected), tolerance)
        assert_same(places[1], places[0], tolerance)
        done += 1
