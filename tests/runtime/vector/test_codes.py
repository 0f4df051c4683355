"""Programs for numbers of a few bits and for the codes of blocks, against numpy."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import echo_npu
from echo_npu.device import Device
from echo_npu.ops.broadcast import compute
from echo_npu.vector import Program
from echo_npu.vector.kernels import codes
from echo_npu.vector.kernels.pointwise import pointwise

RANDOM = np.random.default_rng(23)
VALUES = (-4.0, -1.0, 0.0, 2.0, 3.0)


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with echo_npu.open("cmodel") as made:
        yield made


def run(device: Device, program: Program, *streams: NDArray[Any], params: tuple[Any, ...] = ()) -> Any:
    operands = {f"s{index}": each for index, each in enumerate(streams)}
    return compute(device, program.name, program, operands, None, params=params)


@pytest.mark.parametrize(("dtype", "width"), [(np.uint8, 8), (np.uint16, 16)])
def test_fields_are_the_bits_between_shift_and_mask(device: Device, dtype: Any, width: int) -> None:
    words = np.arange(0, 1 << width, 1 if width == 8 else 37).astype(dtype)
    for bits in range(1, width + 1):
        shifts = np.arange(width - bits + 1, dtype=np.int8)
        got = run(device, codes.bit_field(), words[:, None], shifts, params=(np.int32((1 << bits) - 1),))
        assert np.array_equal(got, words[:, None] >> shifts & (1 << bits) - 1)


def test_integers_are_the_nearest_ones(device: Device) -> None:
    whole = np.arange(-300, 300, dtype=np.float32)
    x = np.concatenate([whole, whole + 0.5, whole + np.float32(0.49), [4194303.0, -4194304.0]])
    assert np.array_equal(
        run(device, pointwise("nearest_integer", "s", ("float32",), "float32"), x.astype(np.float32)),
        np.rint(x),
    )
    # Further out it is what the low bits of the sum are.
    large = np.float32([1e9, -3e30, np.inf, np.nan])
    bits = (large + np.float32(1.5 * 2**23)).view(np.int32) & 0x7FFFFF
    bits[3] = 0x400000  # of the one NaN of the device
    assert np.array_equal(
        run(device, pointwise("nearest_integer", "s", ("float32",), "float32"), large), bits - 0x400000
    )


def test_exponents_and_mantissas_are_those_of_the_numbers(device: Device) -> None:
    x = np.concatenate([RANDOM.normal(size=500), 2.0 ** np.arange(-148, 128), -(2.0 ** np.arange(-5, 5))])
    x = x.astype(np.float32)
    mantissa, exponent = np.frexp(x.astype(np.float64))
    assert np.array_equal(run(device, pointwise("exponent", "s", ("float32",), "float32"), x), exponent - 1)
    got = run(device, pointwise("mantissa", "s", ("float32",), "float32"), x)
    assert np.array_equal(abs(got), abs(mantissa * 2))
    zeros = np.zeros(1, np.float32)
    assert run(device, pointwise("exponent", "s", ("float32",), "float32"), zeros) == -512
    assert run(device, pointwise("mantissa", "s", ("float32",), "float32"), zeros) == 0


def test_powers_of_two_are_exact(device: Device) -> None:
    x = np.arange(-149, 128, dtype=np.float32)
    assert np.array_equal(
        run(device, pointwise("power_of_two", "s", ("float32",), "float32"), x), np.float32(2.0) ** x
    )


def test_the_closest_code_is_the_first_of_equal_ones(device: Device) -> None:
    x = np.concatenate([np.arange(-12, 12, 0.25), RANDOM.normal(size=200) * 4]).astype(np.float32)
    scale = RANDOM.choice(np.float32([0.5, 1, 2, 0]), x.shape)
    errors = abs(np.float32(VALUES)[:, None] * scale - x)
    assert np.array_equal(run(device, codes.closest_code(VALUES), x, scale), errors.argmin(axis=0))


def test_the_nearest_code_is_the_upper_one_halfway(device: Device) -> None:
    x = np.concatenate([np.arange(-8, 8, 0.25), RANDOM.normal(size=200) * 4]).astype(np.float32)
    errors = abs(np.float32(VALUES)[:, None] - x)
    wanted = len(VALUES) - 1 - errors[::-1].argmin(axis=0)
    assert np.array_equal(run(device, codes.nearest_code(VALUES), x), wanted)
