"""Blocks as a file has them: values and bytes are those of ggml's own code, for all types."""

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

import echo_npu
from echo_npu.device import Device
from echo_npu.server.operations.file_blocks.blocks import FileBlocks
from echo_npu.server.operations.file_blocks.formats import FILE_FORMATS
from echo_npu.server.operations.file_blocks.tensors import quantised_blocks
from scripts.llama_build import build_ggml, sources
from tests.runtime.server.direct_emitter import DirectEmitter

WRITTEN = [name for name, form in FILE_FORMATS.items() if form.quantise is not None]
SCALES = {
    "q1_0": [0], "q2_0": [0], "q5_0": [0], "q5_1": [0, 2], "iq4_nl": [0], "iq4_xs": [0], "tq1_0": [52],
    "tq2_0": [64], "q2_K": [80, 82], "q3_K": [108], "q4_K": [0, 2], "q5_K": [0, 2], "q6_K": [208],
    "iq1_s": [0], "iq2_xxs": [0], "iq2_xs": [0], "iq2_s": [0], "iq3_xxs": [0], "iq3_s": [0],
}  # fmt: skip
"""Where float16 numbers lie in a block. Random ones would overflow in sums, or be NaN."""


@pytest.fixture(scope="module")
def ggml() -> ctypes.CDLL:
    return ctypes.CDLL(str(build_ggml(sources(), 2) / "libggml.so"))


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with echo_npu.open("cmodel") as made:
        yield made


def values_of(ggml: ctypes.CDLL, name: str, raw: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return what ggml makes of blocks."""
    target = np.zeros((len(raw), FILE_FORMATS[name].elements), np.float32)
    pointers = (ctypes.c_void_p(each.ctypes.data) for each in (raw, target))
    getattr(ggml, f"dequantize_row_{name}")(*pointers, ctypes.c_int64(target.size))
    return target


def blocks_of(ggml: ctypes.CDLL, name: str, values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return the blocks that ggml's reference makes of numbers."""
    target = np.zeros((len(values), FILE_FORMATS[name].size), np.uint8)
    pointers = (ctypes.c_void_p(each.ctypes.data) for each in (values, target))
    getattr(ggml, f"quantize_row_{name}_ref")(*pointers, ctypes.c_int64(values.size))
    return target


def quantised(device: Device, name: str, values: NDArray[np.float32]) -> NDArray[np.uint8]:
    return quantised_blocks(DirectEmitter(device), device.tensor(values), FILE_FORMATS[name]).to_numpy()


def awkward(random: np.random.Generator, elements: int) -> NDArray[np.float32]:
    """Return blocks of equal, large, positive, negative and half-way numbers, and of parts of zeros.

    Most are ordinary: a search that ends a trial early differs in one of a hundred.
    """
    x = random.uniform(-1, 1, (1000, elements)).astype(np.float32)
    x[1], x[2], x[3, : elements // 2], x[4, 5:] = 1, -3.5, 0, 0
    x[5] *= 3e2
    x[6] *= 1e4
    x[7], x[8] = abs(x[7]), -abs(x[8])
    x[9] = random.integers(-3, 4, elements)
    x[10] = np.round(x[10] * 8) / 8
    x[11] = random.normal(size=elements)
    x[12] = x[12].astype(np.float16)
    x[13, ::2] = 0
    x[14] = 2.0 ** random.integers(-12, 12, elements)
    x[15:18] *= np.float32([[1e10], [3e-12], [2e-14]])
    x[18:40] = random.uniform(-0.093, 0.093, (22, elements))
    x[40:80] = random.integers(-31, 32, (40, elements)) / 2
    # Halves of the greatest number, and what is just below.
    x[80:120] = random.choice(np.float32([0.5, -0.5, 0.49999997, -0.49999997, 1]), (40, elements))
    x[80:120] *= random.uniform(1, 2, (40, 1)).astype(np.float32)
    x[500:] = random.normal(size=(500, elements))
    return x


@pytest.mark.parametrize("name", FILE_FORMATS)
def test_values_are_those_of_ggml_to_the_bit(ggml: ctypes.CDLL, device: Device, name: str) -> None:
    random = np.random.default_rng(31)
    raw = random.integers(0, 256, (130, FILE_FORMATS[name].size)).astype(np.uint8)
    for first in SCALES.get(name, ()):
        scales = random.uniform(-2, 2, (len(raw), 1)).astype(np.float16)
        raw[:, first : first + 2] = scales.view(np.uint8)
    if name == "mxfp4":
        raw[:, 0] &= 0x7F  # an exponent
    if name == "iq1_m":
        raw[:, 55] &= 0xBF  # the float16 has its bits in four words, the highest ones here
    wanted = values_of(ggml, name, raw)
    blocks = FileBlocks(DirectEmitter(device), device.tensor(raw))
    got = FILE_FORMATS[name].values(blocks).tensor.to_numpy()
    assert np.isfinite(wanted).all()
    assert np.array_equal(got.view(np.uint32), wanted.view(np.uint32))


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("seed", [1, 2])
def test_bytes_are_those_of_ggml(ggml: ctypes.CDLL, device: Device, name: str, seed: int) -> None:
    values = awkward(np.random.default_rng(seed), FILE_FORMATS[name].elements)
    assert np.array_equal(quantised(device, name, values), blocks_of(ggml, name, values))


@pytest.mark.parametrize("name", WRITTEN)
def test_zeros_have_the_values_of_ggml(ggml: ctypes.CDLL, device: Device, name: str) -> None:
    """The codes of such a block in iq4_nl, and of one of tiny numbers, are what ggml had in memory before."""
    values = np.zeros((4, FILE_FORMATS[name].elements), np.float32)
    values[1] = 1
    values[3] = np.linspace(-1e-20, 2e-20, values.shape[1])
    got, wanted = quantised(device, name, values), blocks_of(ggml, name, values)
    assert np.array_equal(values_of(ggml, name, got), values_of(ggml, name, wanted))
    if name == "iq4_nl":
        got, wanted = np.delete(got, [0, 2, 3], 0), np.delete(wanted, [0, 2, 3], 0)
        assert not quantised(device, name, values)[[0, 2, 3]].any()
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize("factor", [1e10, 1e12, 1e15, 1e19, 1e30])
@pytest.mark.parametrize("name", ["q2_K", "q3_K", "q4_K", "q5_K", "q6_K"])
def test_sums_that_overflow_end_as_those_of_ggml(
    ggml: ctypes.CDLL, device: Device, name: str, factor: float
) -> None:
    values = np.random.default_rng(8).normal(size=(60, 256)).astype(np.float32)
    values[:20, ::3] *= np.float32(factor)
    values[20:40, 64:128] *= np.float32(factor)  # some groups alone
    values[40:] *= np.float32(factor)
    with np.errstate(over="ignore"):
        got, wanted = quantised(device, name, values), blocks_of(ggml, name, values)
    assert np.array_equal(got, wanted)
