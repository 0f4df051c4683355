"""The bytes of blocks as a file has them: the numbers in them, and how they are written."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from echo_npu.ops.broadcast import compute
from echo_npu.server.operations.base import Emitter
from echo_npu.server.operations.constants import constant
from echo_npu.server.operations.device_numbers import DeviceNumbers
from echo_npu.tensor import DeviceTensor
from echo_npu.vector.kernels import codes

BITS: Final = np.arange(8)
"""Shifts to the bits of a byte."""

NIBBLES: Final = np.array([[0], [4]])
"""Shifts to the numbers of four bits in bytes: of all bytes of a run the low ones, then the high ones."""

PAIRS: Final = np.array([[0], [2], [4], [6]])
"""Shifts to the numbers of two bits: of all bytes of a run the lowest ones come first."""


class FileBlocks:
    """A list of blocks on the device.

    Attributes:
        emitter: where commands go.
        tensor: uint8 [blocks, bytes of a block], without gaps.
    """

    def __init__(self, emitter: Emitter, tensor: DeviceTensor) -> None:
        self.emitter = emitter
        self.tensor = tensor

    def _view(self, first: int, shape: Sequence[int], dtype: DTypeLike) -> DeviceTensor:
        (count, size), kind = self.tensor.shape, np.dtype(dtype)
        steps = [kind.itemsize * int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
        return DeviceTensor.borrow(
            self.emitter.device, self.tensor.ptr + first, (count, *shape), (size, *steps), kind
        )

    def _single(self, view: DeviceTensor) -> DeviceNumbers:
        return DeviceNumbers(self.emitter, self.emitter.device.cast(view, "float32"))

    # --- what is read ---------------------------------------------------------------------------------------

    def octets(self, first: int, *shape: int) -> DeviceTensor:
        """Return bytes of each block from one on, uint8 [blocks, *shape]."""
        return self._view(first, shape, np.uint8)

    def words(self, first: int, *shape: int) -> DeviceTensor:
        """Return words of 16 bits, uint16 [blocks, *shape]."""
        return self._view(first, shape, np.uint16)

    def unsigned(self, first: int, *shape: int) -> DeviceNumbers:
        """Return bytes as numbers, [blocks, *shape]."""
        return self._single(self.octets(first, *shape))

    def signed(self, first: int, *shape: int) -> DeviceNumbers:
        """Return bytes as numbers with a sign, [blocks, *shape]."""
        return self._single(self._view(first, shape, np.int8))

    def halves(self, first: int, *shape: int) -> DeviceNumbers:
        """Return float16 as numbers, [blocks, *shape]."""
        return self._single(self._view(first, shape, np.float16))

    def fields(self, words: DeviceTensor, shifts: Any, bits: int) -> DeviceNumbers:
        """Return numbers of so many bits of octets or words, of the shape that both broadcast to.

        Args:
            words: uint8 or uint16.
            shifts: whole numbers, of any shape: how far the number is from the low end.
            bits: of the number; none is above the highest bit of a word.
        """
        streams = {"words": words, "shifts": constant(self.emitter, np.asarray(shifts, np.int8))}
        mask = np.int32((1 << bits) - 1)
        found = compute(self.emitter.device, "bits", codes.bit_field(), streams, None, params=[mask])
        return DeviceNumbers(self.emitter, found)

    def nibbles(self, first: int, runs: int, size: int) -> DeviceNumbers:
        """Return numbers of four bits, [blocks, runs * 2 * size].

        The low ones of a run of `size` bytes come before its high ones.
        """
        return self.fields(self.octets(first, runs, 1, size), NIBBLES, 4).reshape(-1, 2 * runs * size)

    # --- what is written ------------------------------------------------------------------------------------

    def write(self, place: DeviceTensor, values: DeviceNumbers) -> None:
        """Write the low bits of whole numbers to octets."""
        self.emitter.device.cast(values.tensor, "uint8", out=place)

    def write_halves(self, first: int, values: DeviceNumbers) -> None:
        """Write numbers [blocks, ...] as float16."""
        place = self._view(first, values.shape[1:], np.float16)
        self.emitter.device.cast(values.tensor, "float16", out=place)


def looked_up(table: NDArray[Any], numbers: DeviceNumbers) -> DeviceNumbers:
    """Return rows of a table of float32 by their numbers: [*numbers.shape, *table.shape[1:]]."""
    emitter = numbers.emitter
    places = emitter.device.cast(numbers.tensor, "int32")
    rows = constant(emitter, table.astype(np.float32))
    return DeviceNumbers(emitter, emitter.device.embedding(rows, places))
