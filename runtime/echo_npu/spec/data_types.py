"""The element types of a matrix product: how operands are stored, and what a result is stored as."""

from typing import Final

from echo_npu.spec.contract import Blocks, DataType, OutType

__all__ = ["CANONICAL_NAN", "Blocks", "DataType", "OutType"]

CANONICAL_NAN: Final = 0x7FC00000
"""The float32 that every NaN result is."""
