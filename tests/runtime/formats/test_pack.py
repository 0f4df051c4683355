"""Packing moves every byte to its place and back, whatever the shape; the values are those of gguf."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echo_npu import formats
from echo_npu.formats import FORMATS, BlockFormat, PackedMatrix
from tests.refusals import Error, Words, refuses

SHAPES = [(1, 32), (1, 64), (3, 96), (15, 64), (16, 64), (17, 32), (16, 128), (33, 160), (40, 576)]
each_format = pytest.mark.parametrize("name", FORMATS)
each_shape = pytest.mark.parametrize("shape", SHAPES)


def random_blocks(f: BlockFormat, columns: int, depth: int, seed: int = 0) -> np.ndarray:
    """Blocks of any bits, NaN scales among them."""
    return np.random.default_rng(seed).integers(0, 256, (columns, f.row_bytes(depth)), np.uint8)


def quant(f: BlockFormat, block: np.ndarray, index: int) -> int:
    """The value of one quant, from the bytes of its block."""
    quants = block[f.head_bytes :]
    if f.bits == 8:
        return int(quants[index].view(np.int8))
    byte = int(quants[index % 16])
    return (byte >> 4 if index >= 16 else byte & 15) - f.offset


@each_format
@each_shape
def test_there_and_back(name: str, shape: tuple[int, int]) -> None:
    f = FORMATS[name]
    blocks = random_blocks(f, *shape)
    packed = formats.pack(blocks, name)
    assert packed.shape == shape
    assert packed.nbytes == f.packed_bytes(*shape) == packed.data.size
    assert np.array_equal(formats.unpack(packed), blocks)
    again = PackedMatrix.from_bytes(packed.data.reshape(-1), f, *shape)
    assert np.array_equal(formats.unpack(again), blocks)


@each_format
@pytest.mark.parametrize("shape", [(1, 32), (17, 96), (33, 160)])
def test_every_byte_is_in_its_place(name: str, shape: tuple[int, int]) -> None:
    f = FORMATS[name]
    blocks = random_blocks(f, *shape, seed=1)
    columns, depth = shape
    packed = formats.pack(blocks, name)
    flat, along = packed.data.reshape(-1), -(-depth // 64)
    used = np.zeros(flat.size, bool)
    for n in range(columns):
        for b in range(depth // 32):
            block = blocks[n, b * f.block_bytes : (b + 1) * f.block_bytes]
            tile = ((n // 16) * along + b // 2) * f.tile_bytes
            places = [(tile + 32 * (b % 2) + 2 * (n % 16), block[:2])]
            if f.minimum:
                places.append((tile + 64 + 32 * (b % 2) + 2 * (n % 16), block[2:4]))
            row = f.quants_at + (n % 16) * 2 * f.quant_bytes + (b % 2) * f.quant_bytes
            places.append((tile + row, block[f.head_bytes :]))
            for start, expected in places:
                assert np.array_equal(flat[start : start + expected.size], expected)
                used[start : start + expected.size] = True
    assert not flat[~used].any()
    assert (f.tile_bytes, f.quants_at) == {"q8_0": (1088, 64), "q4_0": (576, 64), "q4_1": (640, 128)}[name]


@each_format
@each_shape
def test_parts_are_the_numbers_of_the_blocks(name: str, shape: tuple[int, int]) -> None:
    f = FORMATS[name]
    blocks = random_blocks(f, *shape, seed=2)
    parts = formats.block_parts(blocks, name)
    heads = blocks.reshape(shape[0], -1, f.block_bytes)[..., : f.head_bytes]
    stored = np.ascontiguousarray(heads).view(np.float16)
    assert np.array_equal(parts.d.view(np.uint16), stored[..., 0].view(np.uint16))
    assert (parts.m is not None) == f.minimum
    if parts.m is not None:
        assert np.array_equal(parts.m.view(np.uint16), stored[..., 1].view(np.uint16))
    random = np.random.default_rng(3)
    for n, k in zip(random.integers(0, shape[0], 50), random.integers(0, shape[1], 50), strict=True):
        block = blocks[n, k // 32 * f.block_bytes :][: f.block_bytes]
        assert parts.q[n, k] == quant(f, block, k % 32)


@each_format
def test_values_of_the_parts_are_the_dequantised_ones(name: str) -> None:
    weights = np.random.default_rng(4).standard_normal((19, 96)).astype(np.float32)
    blocks = formats.quantize(weights, name)
    parts = formats.block_parts(blocks, name)
    values = np.repeat(parts.d.astype(np.float32), 32, axis=1) * parts.q
    if parts.m is not None:
        values = values + np.repeat(parts.m.astype(np.float32), 32, axis=1)
    assert np.array_equal(values, formats.dequantize(blocks, name))


@each_format
def test_quantised_blocks_are_those_of_gguf(name: str) -> None:
    gguf = pytest.importorskip("gguf")
    kind = gguf.GGMLQuantizationType[name.upper()]
    random = np.random.default_rng(5)
    weights = random.standard_normal((24, 320)).astype(np.float32)
    weights *= np.exp2(random.integers(-20, 12, (24, 1))).astype(np.float32)
    weights[3] = 0
    weights[4] = -1.5
    weights[5] = np.round(weights[5] * 4) / 4  # ties
    with np.errstate(all="ignore"):
        expected = gguf.quants.quantize(weights, kind)
        values = gguf.quants.dequantize(expected, kind)
    blocks = formats.quantize(weights, name)
    assert np.array_equal(blocks, expected)
    assert np.array_equal(formats.dequantize(blocks, name), values)
    assert np.array_equal(formats.unpack(formats.pack(weights, name)), expected)
    assert np.array_equal(
        formats.unpack(formats.pack(weights.astype(np.float16), name)),
        formats.quantize(weights.astype(np.float16).astype(np.float32), name),
    )


@each_format
def test_the_error_of_quantising(name: str) -> None:
    weights = np.random.default_rng(6).standard_normal((8, 256)).astype(np.float32)
    values = formats.dequantize(formats.quantize(weights, name), name)
    blocks = weights.reshape(8, -1, 32)
    greatest = np.abs(blocks).max(axis=2)
    step = {"q8_0": greatest / 127, "q4_0": greatest / 8, "q4_1": np.ptp(blocks, axis=2) / 15}[name]
    # Of q4_0 only the end opposite of the extreme value is cut off, by a whole step.
    allowed = (1.01 if name == "q4_0" else 0.51) * step + greatest * 2.0**-10
    assert (np.abs(values - weights).reshape(8, -1, 32).max(axis=2) <= allowed).all()


def test_tensors_of_a_file(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    weights = np.random.default_rng(7).standard_normal((20, 96)).astype(np.float32)
    types = gguf.GGMLQuantizationType
    writer = gguf.GGUFWriter(str(tmp_path / "weights.gguf"), "llama")
    for name in FORMATS:
        kind = types[name.upper()]
        writer.add_tensor(name, gguf.quants.quantize(weights, kind), raw_dtype=kind)
    writer.add_tensor("plain", weights)
    writer.add_tensor("q5_0", gguf.quants.quantize(weights, types.Q5_0), raw_dtype=types.Q5_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    tensors = {each.name: each for each in gguf.GGUFReader(str(tmp_path / "weights.gguf")).tensors}
    for name in FORMATS:
        for given in (None, name, name.upper()):
            packed = formats.pack(tensors[name], given)
            assert packed.format.name == name
            assert np.array_equal(formats.unpack(packed), tensors[name].data)
    assert np.array_equal(formats.pack(tensors["plain"], "q4_1").data, formats.pack(weights, "q4_1").data)
    refuses(ValueError, ["needs the name"], formats.pack, tensors["plain"])
    refuses(ValueError, ["q4_0", "not q8_0"], formats.pack, tensors["q4_0"], "q8_0")
    refuses(ValueError, ["'q5_0'", "q8_0, q4_0, q4_1"], formats.pack, tensors["q5_0"])


BLOCKS = np.zeros((4, 40), np.uint8)
ONES = np.ones((4, 64), np.float32)


@pytest.mark.parametrize(
    ("source", "name", "error", "words"),
    [
        (ONES, "q6_k", ValueError, ["'q6_k'"]),
        (ONES, None, ValueError, ["needs the name"]),
        (ONES.tolist(), "q4_1", TypeError, ["list"]),
        (ONES.astype(np.float64), "q4_1", TypeError, ["float64"]),
        (ONES[0], "q4_1", ValueError, ["(64,)"]),
        (ONES[:, :48], "q4_1", ValueError, ["(4, 48)", "32"]),
        (ONES[:0], "q4_1", ValueError, ["(0, 64)"]),
        (ONES * np.float32(np.inf), "q8_0", ValueError, ["infinite"]),
        (ONES * np.float32(1e30), "q4_0", ValueError, ["float16"]),
        (BLOCKS[:, :39], "q4_1", ValueError, ["(4, 39)", "20"]),
        (BLOCKS[:, :0], "q4_1", ValueError, ["4 x 0"]),
        (BLOCKS[:0], "q4_1", ValueError, ["0 x 64"]),
        (BLOCKS[0], "q4_1", ValueError, ["(40,)"]),
    ],
)
def test_what_is_refused(source: Any, name: str | None, error: Error, words: Words) -> None:
    refuses(error, words, formats.pack, source, name)


def test_wrong_bytes_are_refused() -> None:
    f = FORMATS["q4_1"]
    tiles = np.zeros(f.tile_bytes, np.uint8)
    assert PackedMatrix.from_bytes(tiles, f, 16, 64).nbytes == 640
    refuses(ValueError, ["640 bytes", "639"], PackedMatrix.from_bytes, tiles[1:], f, 16, 64)
    refuses(ValueError, ["640 bytes", "1280"], PackedMatrix.from_bytes, np.tile(tiles, 2), f, 16, 64)
    refuses(ValueError, ["16 x 33"], PackedMatrix.from_bytes, tiles, f, 16, 33)
    refuses(ValueError, ["[N, a multiple of 20]"], formats.dequantize, np.zeros((2, 21), np.uint8), "q4_1")
    refuses(TypeError, ["float64"], formats.quantize, np.ones((1, 32)), "q4_1")


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("first", "stop"), [(0, 40), (16, 32), (32, 40), (5, 21), (0, 7), (39, 40)])
def test_a_part_has_the_blocks_of_its_columns(name: str, first: int, stop: int) -> None:
    values = np.random.default_rng(first).standard_normal((40, 96), dtype=np.float32)
    whole = formats.pack(values, name)
    part = whole.part(first, stop)
    assert part.shape == (stop - first, 96)
    assert np.array_equal(formats.unpack(part), formats.unpack(whole)[first:stop])
    assert np.array_equal(part.data, formats.pack(values[first:stop], name).data)
    for wrong in ((0, 41), (-1, 3), (4, 4)):
        refuses(ValueError, [f"columns {wrong[0]} to {wrong[1]} of 40"], whole.part, *wrong)
