"""A linear layer on several devices."""

from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu.formats import pack
from echo_npu.sharding import ShardedLinear
from tests.refusals import refuses
from tests.runtime.sharding.conftest import MakeGroup


@pytest.mark.parametrize("kind", ["float32", "float16", "q8_0"])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_bits_of_one_device(make_group: MakeGroup, count: int, kind: str) -> None:
    random = np.random.default_rng(count)
    weight: Any = random.standard_normal((30, 64), dtype=np.float32)
    x: Any = random.standard_normal((2, 3, 64), dtype=np.float32)
    bias = random.standard_normal(30, dtype=np.float32)
    if kind == "float16":
        weight, x = weight.astype(np.float16), x.astype(np.float16)
    group = make_group(count)
    layer = ShardedLinear(group, weight, name="q8_0" if kind == "q8_0" else None, bias=bias)
    assert [own.stop - own.start for own in layer.columns] == [30 // count] * count
    with echo_npu.open("cmodel") as device:
        whole = pack(weight, "q8_0") if kind == "q8_0" else weight
        expected = device.matmul(x.reshape(6, 64), whole, trans_b=kind != "q8_0", bias=bias)
    found = layer(x)
    assert found.shape == (2, 3, 30)
    assert np.array_equal(found.reshape(6, 30).view(np.uint32), expected.view(np.uint32))
    assert group.spent().traffic == 6 * 30 * 4 * (count - 1)
    assert layer(x[0, 0]).shape == (30,)


def test_what_is_no_layer_is_refused(make_group: MakeGroup) -> None:
    group = make_group(4)
    weight = np.ones((30, 8), np.float32)
    refuses(ValueError, ["30 rows", "4 devices"], ShardedLinear, group, weight)
    refuses(TypeError, ["float64"], ShardedLinear, group, np.ones((8, 8)))
    refuses(TypeError, ["list"], ShardedLinear, group, [[1.0]])
    refuses(ValueError, ["(8,)"], ShardedLinear, group, weight[0])
    refuses(TypeError, ["bias is list"], ShardedLinear, group, weight[:8], bias=[0.0] * 8)
    short = np.ones(7, np.float32)
    refuses(ValueError, ["bias has shape (7,)"], ShardedLinear, group, weight[:8], bias=short)
    refuses(TypeError, ["bias is float64"], ShardedLinear, group, weight[:8], bias=np.ones(8))
    layer = ShardedLinear(group, weight[:8])
    refuses(TypeError, ["x is float16"], layer, np.ones((1, 8), np.float16))
    refuses(TypeError, ["x is list", "float32"], layer, [[1.0] * 8])
    refuses(ValueError, ["(1, 7)"], layer, np.ones((1, 7), np.float32))
