"""Packets of small commands, each field of which may be wrong, and addresses that are no memory."""

from echo_npu.commands.packets import NpuCommandPacket, Opcode

W, A = 0x0000_1000, 0x1000_1000  # somewhere in weight and activation memory
REGISTER_WINDOW, RESERVED, UNMAPPED = 0x2000_0040, 0x2001_0000, 0x4000_0000


def copy(src: int = W, dst: int = A, m: int = 64, k: int = 0, n: int = 0, flags: int = 0) -> NpuCommandPacket:
    return NpuCommandPacket(Opcode.MEMCPY, flags, src, 0, dst, m=m, k=k, n=n)


def add(
    a: int = W, b: int = W + 64, dst: int = A, m: int = 16, k: int = 0, n: int = 0, flags: int = 0
) -> NpuCommandPacket:
    return NpuCommandPacket(Opcode.ADD_TENSOR, flags, a, b, dst, m=m, k=k, n=n, alpha=1.0)


def matmul(
    a: int = W, b: int = W + 4096, dst: int = A, m: int = 4, k: int = 4, n: int = 4, flags: int = 0
) -> NpuCommandPacket:
    return NpuCommandPacket(Opcode.MATMUL, flags, a, b, dst, m=m, k=k, n=n)
