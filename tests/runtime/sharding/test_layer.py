"""A layer on several devices: the bits of one device, what is gathered, what is refused."""

import dataclasses

import numpy as np
import pytest

import echo_npu
from echo_npu.models.layer_types import LayerConfig
from echo_npu.sharding import ShardedLayer
from echo_npu.sharding.layer import SingleLayer
from echo_npu.sharding.report import random_layer
from tests.refusals import refuses
from tests.runtime.sharding.conftest import MakeGroup

CONFIG = LayerConfig(hidden=96, heads=6, kv_heads=3, head_dim=16, ffn=192)
CONTEXT = 40


@pytest.mark.parametrize("block_format", [None, "q4_1"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_bits_of_one_device(make_group: MakeGroup, count: int, block_format: str | None) -> None:
    """Two devices have 1 and 2 of 3 key heads. One token goes through other commands than several."""
    weights = random_layer(CONFIG, 1)
    random = np.random.default_rng(2)
    group = make_group(count)
    sharded = ShardedLayer(group, CONFIG, weights, context=CONTEXT, block_format=block_format)
    with echo_npu.open("cmodel") as device:
        single = SingleLayer(device, CONFIG, weights, context=CONTEXT, block_format=block_format)
        position = 0
        for tokens in (1, 7, 1):
            hidden = random.standard_normal((tokens, CONFIG.hidden), dtype=np.float32)
            expected, found = single(hidden, position), sharded(hidden, position)
            assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))
            assert not np.array_equal(found, hidden)
            position += tokens
        # The cache is divided by key heads.
        for name in ("keys", "values"):
            parts = [each[name].to_numpy() for each in sharded.tensors]
            joined = np.concatenate(parts, axis=1)
            assert np.array_equal(joined, single.tensors[name].to_numpy())
    # Every device receives what it has not computed: mixed values, swish, and twice the stream.
    columns = CONFIG.q_width + CONFIG.ffn + 2 * CONFIG.hidden
    assert group.spent().traffic == 9 * 4 * columns * (count - 1)
    assert group.spent().phases == (0 if count == 1 else 3 * 4)


@pytest.mark.parametrize(
    ("change", "count", "words"),
    [
        ({"hidden": 98}, 3, ["hidden is 98", "3 devices"]),
        ({"ffn": 193}, 2, ["ffn is 193", "2 devices"]),
        ({"heads": 4, "kv_heads": 2}, 3, ["kv_heads is 2", "3 devices"]),
    ],
)
def test_what_cannot_be_divided_is_refused(
    make_group: MakeGroup, change: dict[str, int], count: int, words: list[str]
) -> None:
    config = dataclasses.replace(CONFIG, **change)
    weights = random_layer(config, 1)
    refuses(ValueError, words, ShardedLayer, make_group(count), config, weights, context=CONTEXT)


def test_wrong_tokens_are_refused(make_group: MakeGroup) -> None:
    weights = random_layer(CONFIG, 1)
    layer = ShardedLayer(make_group(2), CONFIG, weights, context=CONTEXT)
    refuses(TypeError, ["float64"], layer, np.zeros((1, 96)))
    refuses(TypeError, ["list"], layer, [[0.0] * 96])
    refuses(ValueError, ["(1, 95)", "[tokens, 96]"], layer, np.zeros((1, 95), np.float32))
    refuses(ValueError, ["2 tokens from position 39"], layer, np.zeros((2, 96), np.float32), 39)
    group = make_group(1)
    refuses(ValueError, ["'q5_0'"], ShardedLayer, group, CONFIG, weights, context=9, block_format="q5_0")
    refuses(ValueError, ["context is 0"], ShardedLayer, group, CONFIG, weights, context=0)
