"""The C library in tests: how it is compiled, and arrays in its device memory."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tb.repository import ROOT

RUNTIME = ROOT / "plugins" / "runtime"
SOURCES = [str(path) for path in sorted(RUNTIME.glob("*.c"))]
FLAGS = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{RUNTIME}"]
RANDOM = np.random.default_rng()


def loaded(library_file: Path) -> ctypes.CDLL:
    """Load the library. A process has it once, however often it is loaded."""
    made = ctypes.CDLL(str(library_file))
    made.echoNpuGetLastErrorMessage.restype = ctypes.c_char_p
    made.echoNpuGetErrorString.restype = ctypes.c_char_p
    return made


class DeviceArray:
    """Device memory with the content of an array."""

    def __init__(self, library: ctypes.CDLL, values: NDArray[Any]) -> None:
        self.library, self.like = library, values
        pointer = ctypes.c_void_p()
        assert not library.echoNpuMalloc(ctypes.byref(pointer), ctypes.c_size_t(values.nbytes))
        self.pointer = pointer
        host = ctypes.c_void_p(values.ctypes.data)
        assert not library.echoNpuMemcpy(pointer, host, ctypes.c_size_t(values.nbytes), 1)

    def at(self, offset: int) -> ctypes.c_void_p:
        """Return a pointer so many bytes behind the start."""
        assert self.pointer.value is not None
        return ctypes.c_void_p(self.pointer.value + offset)

    def read(self) -> NDArray[Any]:
        got = np.empty_like(self.like)
        host = ctypes.c_void_p(got.ctypes.data)
        assert not self.library.echoNpuMemcpy(host, self.pointer, ctypes.c_size_t(got.nbytes), 2)
        return got


def memories(library: ctypes.CDLL, *values: NDArray[Any]) -> list[DeviceArray]:
    return [DeviceArray(library, np.ascontiguousarray(each)) for each in values]


def random(*shape: int) -> NDArray[np.float32]:
    return RANDOM.standard_normal(shape, dtype=np.float32)


def sizes(*values: int) -> list[ctypes.c_int64]:
    return [ctypes.c_int64(value) for value in values]
