"""What the C library says of a wrong call: the function, the argument, the number."""

import ctypes

import numpy as np

from tests.plugins.c_library import memories, random, sizes

ARGUMENT = 5
HALF = ctypes.c_float(0.5)


def said(library: ctypes.CDLL, error: int) -> str:
    """Return the words of an error about an argument."""
    assert error == ARGUMENT
    return str(library.echoNpuGetLastErrorMessage().decode())


def test_a_host_pointer_is_named(library: ctypes.CDLL) -> None:
    x, y = memories(library, random(4), random(4))
    values = np.zeros(4, np.float32)
    for host, shown in ((ctypes.c_void_p(values.ctypes.data), hex(values.ctypes.data)), (None, "(nil)")):
        error = library.echoNpuMul(x.pointer, y.pointer, host, *sizes(4))
        assert said(library, error) == f"MUL: b, {shown}, is no device pointer"
        error = library.echoNpuMul(host, x.pointer, y.pointer, *sizes(4))
        assert said(library, error) == f"MUL: c, {shown}, is no device pointer"
        error = library.echoNpuMatMul(x.pointer, host, y.pointer, *sizes(2, 2, 2), 0)
        assert said(library, error) == f"MUL_MAT: a, {shown}, is no device pointer"
        error = library.echoNpuMemset(host, 0, ctypes.c_size_t(4))
        assert said(library, error) == f"{shown} is no device pointer"


def test_a_host_pointer_in_a_scaled_sum_is_named(library: ctypes.CDLL) -> None:
    x, y = memories(library, random(4), random(4))
    host = ctypes.c_void_p(np.zeros(4, np.float32).ctypes.data)
    for arguments, name in (
        ((host, host, y.pointer), "c"),
        ((x.pointer, host, y.pointer), "a"),
        ((x.pointer, y.pointer, None), "b"),
    ):
        words = said(library, library.echoNpuAddTensor(*arguments, HALF, *sizes(4)))
        assert words.startswith(f"ADD: {name}, ")
        assert words.endswith(" is no device pointer")
    assert np.array_equal(x.read(), x.like)


def test_weights_of_the_host_are_named_before_anything_is_written(library: ctypes.CDLL) -> None:
    x, y = memories(library, random(2, 4), random(2, 4))
    host = ctypes.c_void_p(np.ones(4, np.float32).ctypes.data)
    error = library.echoNpuRMSNorm(y.pointer, x.pointer, host, HALF, *sizes(2, 4))
    assert said(library, error).startswith("RMS_NORM: weight, 0x")
    assert np.array_equal(y.read(), y.like)


def test_operands_of_two_devices_are_named_with_theirs(library: ctypes.CDLL) -> None:
    (first,) = memories(library, random(4))
    assert not library.echoNpuSetDevice(1)
    (second,) = memories(library, random(4))
    error = library.echoNpuDiv(first.pointer, first.pointer, second.pointer, *sizes(4))
    assert said(library, error).endswith("not on one device: c is on 0, b on 1")


def test_sizes_are_named_with_their_argument(library: ctypes.CDLL) -> None:
    (x,) = memories(library, random(4))
    error = library.echoNpuAbs(x.pointer, x.pointer, *sizes(-3))
    assert "ABS: y has -3 elements along axis 0" in said(library, error)
    error = library.echoNpuAddTensor(x.pointer, x.pointer, x.pointer, HALF, *sizes(0))
    assert "ADD: c has 0 elements along axis 0" in said(library, error)
    error = library.echoNpuSoftmax(x.pointer, x.pointer, *sizes(0, 4))
    assert "SOFT_MAX: y has 0 elements along axis 1" in said(library, error)
    error = library.echoNpuSoftmax(x.pointer, x.pointer, *sizes(2, 1 << 39))
    assert said(library, error) == "SOFT_MAX: y is larger than any device memory"


def test_a_device_that_there_is_not_is_named_with_their_number(library: ctypes.CDLL) -> None:
    for number in (-1, 2, 64):
        assert said(library, library.echoNpuSetDevice(number)) == f"no device {number}: the server has 2"


def test_a_copy_that_contradicts_its_pointers_says_what_they_are(library: ctypes.CDLL) -> None:
    (x,) = memories(library, random(4))
    values = np.zeros(4, np.float32)
    host = ctypes.c_void_p(values.ctypes.data)
    words = said(library, library.echoNpuMemcpy(x.pointer, host, ctypes.c_size_t(16), 2))
    assert words.startswith("a copy of kind 2 contradicts its pointers")
    assert f"the source, {hex(values.ctypes.data)}, is a host pointer" in words
    assert words.endswith(" is a device pointer")
