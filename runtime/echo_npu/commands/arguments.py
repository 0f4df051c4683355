"""Checks of what commands are built from: each returns what it was given as plain integers.

All raise TypeError or ValueError with the argument's name and value.
"""

from collections.abc import Sequence
from typing import SupportsIndex

from echo_npu.commands.integers import checked_integer
from echo_npu.spec.contract import MAX_BATCH, MAX_DIM


def u32(name: str, value: SupportsIndex) -> int:
    """Return a word of 32 bits."""
    return checked_integer(name, value, 0, 2**32 - 1)


def address(name: str, value: SupportsIndex) -> int:
    """Return an address of 64 bits."""
    return checked_integer(name, value, 0, 2**64 - 1)


def dimension(name: str, value: SupportsIndex, high: int = MAX_DIM) -> int:
    """Return a count in 1..`high`."""
    return checked_integer(name, value, 1, high)


def stride(name: str, value: SupportsIndex, *, multiple: int = 1, least: int = 0) -> int:
    """Return a stride in bytes, a multiple of `multiple`: 0, or at least the `least` bytes of a row."""
    number = u32(name, value)
    if number % multiple:
        raise ValueError(f"{name} is {number}; it must be a multiple of {multiple}")
    if number and number < least:
        raise ValueError(f"{name} is {number}; a row has {least} bytes")
    return number


def aligned(name: str, value: SupportsIndex, multiple: int = 4) -> int:
    """Return an address that is a multiple of `multiple`."""
    number = address(name, value)
    if number % multiple:
        raise ValueError(f"{name} is 0x{number:x}; it must be a multiple of {multiple}")
    return number


def batch_strides(name: str, value: Sequence[int], *, multiple: int = 1) -> tuple[int, int]:
    """Return the (inner, outer) strides of an operand's batches, in bytes."""
    if len(value) != 2:
        raise ValueError(f"{name} has {len(value)} entries; it is (inner stride, outer stride) in bytes")
    return (
        stride(f"{name}[0]", value[0], multiple=multiple),
        stride(f"{name}[1]", value[1], multiple=multiple),
    )


def batch_counts(batch: Sequence[int]) -> tuple[int, int]:
    """Return the (inner, outer) counts of batches, each in 1..65535."""
    if len(batch) != 2:
        raise ValueError(f"batch has {len(batch)} entries; it is (inner count, outer count)")
    return dimension("batch[0]", batch[0], MAX_BATCH), dimension("batch[1]", batch[1], MAX_BATCH)


def check_written_batches(name: str, strides: tuple[int, int], batch: tuple[int, int]) -> None:
    """Refuse batches that would all write one place."""
    for level in (0, 1):
        if batch[level] > 1 and strides[level] == 0:
            raise ValueError(
                f"{name}[{level}] is 0, but batch[{level}] is {batch[level]}: all would write one place"
            )
