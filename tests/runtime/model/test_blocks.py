"""The functional model's products with weights in blocks are those of the definition, bit for bit."""

import random

import numpy as np
import pytest

from echo_npu import Blocks, formats
from echo_npu.formats import FORMATS
from echo_npu.model.blocks import matmul_blocks
from echo_npu.reference.blocks import block_product


def activations(rng: np.random.Generator, m: int, k: int, kind: str) -> np.ndarray:
    x = rng.standard_normal((m, k)).astype(np.float32)
    if kind == "wide":
        x *= np.exp2(rng.integers(-150, 100, (m, k))).astype(np.float32)
    elif kind == "subnormal":
        x = (x * np.float32(1e-30) * np.float32(1e-12)).astype(np.float32)
    elif kind == "special":
        x[rng.random((m, k)) < 0.5] = 0
        x[:, :32] = 0
        x[rng.random((m, k)) < 0.02] = rng.choice([np.inf, -np.inf, np.nan])
    elif kind == "limit":
        x = np.where(rng.random((m, k)) < 0.5, 1, -1) * np.float32(1 - 2.0**-24)
        x = np.ldexp(x, rng.integers(-30, 30, (m, 1))).astype(np.float32)
    return x


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", ["normal", "wide", "subnormal", "special", "limit"])
@pytest.mark.parametrize("blocks", ["any", "quantised"])
def test_bits_of_the_definition(name: str, kind: str, blocks: str) -> None:
    seed = random.getrandbits(32)
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    f = FORMATS[name]
    for _ in range(4):
        m, k, n = int(rng.integers(1, 9)), 32 * int(rng.integers(1, 9)), int(rng.integers(1, 60))
        if blocks == "any":
            stored = rng.integers(0, 256, (n, f.row_bytes(k)), np.uint8)
        else:
            stored = formats.quantize(rng.standard_normal((n, k)).astype(np.float32), name)
        packed = formats.pack(stored, name)
        parts = packed.parts()
        x = activations(rng, m, k, kind)
        got = matmul_blocks(x, packed.data, f, n)
        expected = block_product(x, parts.q, parts.d, parts.m)
        assert np.array_equal(got.view(np.uint32), expected.view(np.uint32))


def test_more_tiles_than_are_computed_at_once() -> None:
    rng = np.random.default_rng(0)
    packed = formats.pack(rng.standard_normal((700, 96)).astype(np.float32), "q4_1")
    parts, x = packed.parts(), rng.standard_normal((200, 96)).astype(np.float32)
    got = matmul_blocks(x, packed.data, packed.format, 700)
    assert np.array_equal(got[::50], block_product(x[::50], parts.q, parts.d, parts.m))


def test_the_contract_knows_the_formats() -> None:
    assert {each.label: each.tile_bytes for each in Blocks if each} == {
        name: f.tile_bytes for name, f in FORMATS.items()
    }
