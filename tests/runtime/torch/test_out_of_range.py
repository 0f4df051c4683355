"""An index that names nothing is an error of the CPU's kind, and the device works afterwards."""

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

DEVICE = "echo_npu"
Place = Callable[[torch.Tensor], torch.Tensor]


def table(to: Place) -> torch.Tensor:
    return to(torch.arange(12.0).reshape(3, 4))


def rows(to: Place, *numbers: int) -> torch.Tensor:
    return to(torch.tensor(numbers))


def ones(to: Place, *shape: int) -> torch.Tensor:
    return to(torch.ones(*shape))


CASES: dict[str, Callable[[Place, int], torch.Tensor]] = {
    "gather": lambda to, i: table(to).gather(0, rows(to, i, 0)[None]),
    "gather of the last axis": lambda to, i: table(to).gather(1, rows(to, i + 1, 0)[None]),
    "gather of three axes": lambda to, i: ones(to, 3, 4, 4).gather(0, rows(to, i)[None, None]),
    "scatter": lambda to, i: table(to).scatter(0, rows(to, i, 0)[None], ones(to, 1, 2)),
    "scatter of a number": lambda to, i: table(to).scatter(0, rows(to, i, 0)[None], 2.0),
    "scatter_add": lambda to, i: table(to).scatter_add(0, rows(to, i, 0)[None], ones(to, 1, 2)),
    "scatter_reduce": lambda to, i: table(to).scatter_reduce(0, rows(to, i)[None], ones(to, 1, 1), "amax"),
    "index_add": lambda to, i: table(to).index_add(0, rows(to, i, 0), ones(to, 2, 4)),
    "index_copy": lambda to, i: table(to).index_copy(0, rows(to, i, 0), ones(to, 2, 4)),
    "index_fill": lambda to, i: table(to).index_fill(0, rows(to, 2 * i), 1.0),
    "index_select": lambda to, i: table(to).index_select(0, rows(to, i, 0)),
    "index_select of rows of indices": lambda to, i: table(to).index_select(0, rows(to, 0, 0)[None]),
    "an axis that there is not": lambda to, i: table(to).index_select(i, rows(to, 0)),
    "index": lambda to, i: table(to)[rows(to, 4 * i)],
    "two indices": lambda to, i: table(to)[rows(to, 4 * i, 0), rows(to, 0, 0)],
    "two indices, the second": lambda to, i: table(to)[rows(to, 0, 0), rows(to, 5 * i, 0)],
    "index_put": lambda to, i: table(to).index_put((rows(to, 4 * i),), ones(to, 1, 4)),
    "take": lambda to, i: table(to).take(rows(to, 20 * i)),
    "one_hot": lambda to, i: functional.one_hot(rows(to, i, 0), 3),
    "embedding": lambda to, i: functional.embedding(rows(to, i), table(to)),
}


@pytest.mark.parametrize("number", [3, -4, 2**31, 2**40])
@pytest.mark.parametrize("name", CASES)
def test_an_index_out_of_range(name: str, number: int) -> None:
    errors = []
    for to in (torch.Tensor.cpu, lambda x: x.to(DEVICE)):
        with pytest.raises((IndexError, RuntimeError)) as caught:
            CASES[name](to, number).cpu()
        errors.append(type(caught.value))
    assert errors[0] is errors[1]
    assert (table(lambda x: x.to(DEVICE)) + 1).cpu().tolist() == (
        torch.arange(12.0).reshape(3, 4) + 1
    ).tolist()
