"""The kinds of entries in the generated modules of this package."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np
from numpy.typing import DTypeLike


@dataclass(frozen=True, slots=True)
class Register:
    """One register, or an array of `count` registers `stride` bytes apart.

    `offset` and `stride` are bytes, `width` is bits. `reset` is the value after reset, in which
    bits that hardware drives count as 0.
    """

    offset: int
    width: int
    readable: bool
    writable: bool
    reset: int
    count: int = 1
    stride: int = 4


@dataclass(frozen=True, slots=True)
class Field:
    """Bit field of a word: lowest bit and width in bits."""

    shift: int
    width: int

    @property
    def mask(self) -> int:
        """Mask of the field in place."""
        return ((1 << self.width) - 1) << self.shift

    def get(self, word: int) -> int:
        """Value of the field within `word`."""
        return (word & self.mask) >> self.shift

    def put(self, value: int) -> int:
        """`value` shifted into place; ValueError if it does not fit."""
        if not 0 <= value < (1 << self.width):
            raise ValueError(f"{value} does not fit into {self.width} bits")
        return value << self.shift


@dataclass(frozen=True, slots=True)
class OpcodeFacts:
    """What is common to all commands of an opcode.

    Attributes:
        engine: "matrix", "vector", or "none" for a fence.
        flags: the bits that it understands.
        extensions: packets that follow where EXT is set.
        operands: the addresses of its packet that it uses: "src1", "src2", "dst".
        shape: a format of its sizes, from m, k, n and count.
    """

    engine: str
    flags: int
    extensions: int
    operands: tuple[str, ...]
    shape: str


@dataclass(frozen=True, slots=True)
class InstructionFacts:
    """How an opcode of the vector engine uses its fields.

    Attributes:
        form: the name of its `Form`, in lower case.
        sources: how many of a, b and c it reads.
        accumulates: how many it reads where the destination is an accumulator; 0 where it cannot be one.
    """

    form: str
    sources: int
    accumulates: int


class OperandType(IntEnum):
    """Base of the enumeration of the types that operands of a matrix product can have."""

    @property
    def label(self) -> str:
        """fp32, bf16, fp16 or int8: as the capabilities and the command line call it."""
        return self.name.lower()

    @property
    def storage(self) -> DTypeLike:
        """The numpy dtype of an element in memory; the bits in uint16 for bf16, which numpy does not have."""
        return np.dtype(self._storage_names()[self]).type

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return np.dtype(self.storage).itemsize

    @classmethod
    def of(cls, value: Self | str) -> Self:
        """A type, or the one of that label. TypeError, ValueError: `value` is neither."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise TypeError(f"dtype must be a DataType or a name, got {value!r} ({type(value).__name__})")
        for each in cls:
            if each.label == value:
                return each
        raise ValueError(f"dtype is {value!r}; it must be one of {', '.join(each.label for each in cls)}")

    @classmethod
    def _storage_names(cls) -> tuple[str, ...]:
        """The numpy dtypes, by number."""
        raise NotImplementedError


class ResultType(IntEnum):
    """Base of the enumeration of the types that the result of a matrix product can have."""

    def storage(self, operands: OperandType) -> DTypeLike:
        """The numpy dtype of a result's element in memory."""
        name = self._storage_names()[self]
        return np.dtype(name).type if name else operands.storage

    def itemsize(self, operands: OperandType) -> int:
        """Bytes of a result's element."""
        return np.dtype(self.storage(operands)).itemsize

    @classmethod
    def _storage_names(cls) -> tuple[str, ...]:
        """The numpy dtypes, by number; "" is that of the operands."""
        raise NotImplementedError


class BlockCode(IntEnum):
    """Base of the enumeration of the formats of a matrix product's right operand in packed blocks."""

    @property
    def label(self) -> str:
        """q8_0, q4_0 or q4_1, as `echo_npu.formats` and the capabilities call it; none."""
        return self.name.lower()

    @classmethod
    def of(cls, value: Self | str) -> Self:
        """A format, or the one of that label. TypeError, ValueError: `value` is neither."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise TypeError(f"blocks must be a Blocks or a name, got {value!r} ({type(value).__name__})")
        for each in cls:
            if each.label == value:
                return each
        raise ValueError(f"blocks is {value!r}; it must be one of {', '.join(each.label for each in cls)}")
