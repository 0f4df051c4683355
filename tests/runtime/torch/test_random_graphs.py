"""Random chains of operators, compiled and not: other ones in every run."""

import random
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import pytest
import torch

from tests.runtime.torch.comparison import DEVICE, assert_same

Step: TypeAlias = tuple[str, int, int]
"""An operator, and the numbers of its operands: inputs first, then the results of the steps."""

# None makes a small error large, or large numbers of small ones.
OPERATORS: Final[dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]] = {
    "add": lambda x, y: x * 0.5 + y * 0.5,
    "sub": lambda x, y: torch.sub(x, y, alpha=0.5),
    "mul": lambda x, y: torch.tanh(x) * y,
    "div": lambda x, y: x / (y.abs() + 1),
    "max": torch.maximum,
    "tanh": lambda x, y: torch.tanh(x),
    "relu": lambda x, y: torch.relu(x) - 0.25,
    "sum": lambda x, y: x.sum(-1, keepdim=True) * 0.02,
    "mean": lambda x, y: x.mean(-1, keepdim=True),
    "amax": lambda x, y: x.amax(-1, keepdim=True),
    "softmax": lambda x, y: x.softmax(-1),
}
SHAPES: Final = ((6, 40), (6, 40), (6, 16), (6, 1), (6, 1), (6, 1), (40,), ())


def chain(source: random.Random, shapes: Sequence[torch.Size]) -> list[Step]:
    """Return the steps of a chain whose operands broadcast."""
    known = list(shapes)
    steps: list[Step] = []
    while len(steps) < 8:
        # Mostly the last result, so that the steps hang together.
        first = len(known) - 1 if steps and source.random() < 0.7 else source.randrange(len(known))
        name, second = source.choice(list(OPERATORS)), source.randrange(len(known))
        x, y = (torch.empty(known[each], device="meta") for each in (first, second))
        if not x.dim():
            continue
        try:
            made = OPERATORS[name](x, y).shape
        except RuntimeError:
            continue  # they do not broadcast
        known.append(made)
        steps.append((name, first, second))
    return steps


def result(steps: Sequence[Step], inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    values = list(inputs)
    for name, first, second in steps:
        values.append(OPERATORS[name](values[first], values[second]))
    return values[-1]


@pytest.mark.parametrize("fuse", [False, True], ids=["unfused", "fused"])
def test_random_chains(fuse: bool) -> None:
    """Unfused they equal eager to the bit, fused the CPU; when recorded and from the record."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # of a failure
    source = random.Random(seed)
    torch.manual_seed(seed)
    chains = [chain(source, [torch.Size(each) for each in SHAPES]) for _ in range(24)]

    def all_results(*inputs: torch.Tensor) -> list[torch.Tensor]:
        return [result(steps, inputs) for steps in chains]

    torch.compiler.reset()
    fast = torch.compile(all_results, backend="echo_npu", options={"fuse": fuse}, dynamic=False)
    for _ in range(2):
        inputs = [torch.randn(shape) for shape in SHAPES]
        given = [each.to(DEVICE) for each in inputs]
        expected = all_results(*inputs) if fuse else [each.cpu() for each in all_results(*given)]
        for steps, found, value in zip(chains, fast(*given), expected, strict=True):
            print(steps)
            assert_same(found, value, 1e-3 if fuse else 0.0)
    torch.compiler.reset()
