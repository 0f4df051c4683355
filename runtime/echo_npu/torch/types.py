"""Element types, as PyTorch names them, by what the device does with them."""

from typing import Final

import torch

FLOATS: Final = frozenset((torch.float32, torch.bfloat16, torch.float16))
"""Floats that the device computes with, in float32."""

SMALL_INTEGERS: Final = frozenset((torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool))
"""Integers of up to 32 bits, which the device adds, compares and combines bit by bit exactly."""

HALVES: Final = frozenset((torch.bfloat16, torch.float16))
"""Floats of 16 bits."""

INDICES: Final = frozenset((torch.int64, torch.int32))
"""Numbers of elements."""

CAST_FROM: Final = FLOATS | SMALL_INTEGERS
CAST_TO: Final = FLOATS | SMALL_INTEGERS
"""What `echo_npu.ops.cast` converts from and to."""

WORDS: Final = {
    torch.float32: "float32",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
    torch.int32: "int32",
    torch.int16: "int16",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.bool: "bool",
}
"""The names that programs and `echo_npu.ops` use."""

CONVERTIBLE: Final = CAST_FROM | frozenset(
    (
        torch.float64,
        torch.complex32,
        torch.complex64,
        torch.complex128,
        torch.int64,
        torch.uint16,
        torch.uint32,
        torch.uint64,
        torch.float8_e4m3fn,
        torch.float8_e4m3fnuz,
        torch.float8_e5m2,
        torch.float8_e5m2fnuz,
        torch.float8_e8m0fnu,
    )
)
"""What tensors can hold and PyTorch converts from and to, on the device or on the CPU."""

WITHOUT_NUMBERS: Final = frozenset(
    (
        torch.bits1x8,
        torch.bits2x4,
        torch.bits4x2,
        torch.bits8,
        torch.bits16,
        torch.float4_e2m1fn_x2,
        *(getattr(torch, f"{sign}int{bits}") for sign in ("", "u") for bits in range(1, 8)),
    )
)
"""Bits that tensors can hold and PyTorch converts to nothing else."""

BITS: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers by their bytes, as which the bits of other types are read."""
