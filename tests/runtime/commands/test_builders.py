"""Builders of the other commands: the fields that they choose, and the arguments that they refuse."""

import pytest

from echo_npu.commands.builders import (
    add_packets,
    gather_packets,
    load_program_packets,
    memcpy_packets,
    nop_packet,
    sync_packet,
)
from echo_npu.commands.packets import ExtensionPacket, Flags, NpuCommandPacket, Opcode
from tests.refusals import refuses


def test_memcpy_builder() -> None:
    assert memcpy_packets(65, 131, 7) == [NpuCommandPacket(Opcode.MEMCPY, 0, 65, 0, 131, m=7)]
    strides = {"row_strides": (5, 9), "src_batch_strides": (0, 0), "dst_batch_strides": (27, 0)}
    command, extension = memcpy_packets(1, 1000, 7, rows=3, batch=(2, 1), **strides)
    assert isinstance(command, NpuCommandPacket)
    assert command.flags == Flags.EXT
    assert extension == ExtensionPacket(
        batch0=2, batch1=1, rows=3, src1_row_stride=5, dst_row_stride=9, dst_batch0_stride=27
    )
    refuses(ValueError, "nbytes is 0", memcpy_packets, 0, 64, 0)
    refuses(ValueError, r"row_strides\[1\] is 6", memcpy_packets, 0, 64, 7, rows=2, row_strides=(0, 6))
    refuses(TypeError, "rows", memcpy_packets, 0, 64, 7, rows="2")


def test_add_builder() -> None:
    (packet,) = add_packets(64, 128, 64, 9)
    assert packet == NpuCommandPacket(Opcode.ADD_TENSOR, 0, 64, 128, 64, m=9, alpha=1.0)
    refuses(ValueError, "src2 is 0x82", add_packets, 64, 130, 64, 9)
    refuses(ValueError, "elements is 0", add_packets, 64, 128, 64, 0)


def test_fences() -> None:
    assert nop_packet().pack() == bytes(64)
    assert sync_packet(irq=True) == NpuCommandPacket(0xFF, 1 << 30)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: gather_packets(0, 2, 0, 1, 1, 1), "indices is 0x2; it must be a multiple of 4"),
        (lambda: gather_packets(0, 0, 0, 0, 1, 1), "rows is 0"),
        (lambda: gather_packets(0, 0, 0, 1, 2**31 + 1, 1), "row_bytes is 2147483649"),
        (lambda: gather_packets(0, 0, 0, 1, 1, 0), "table_rows is 0"),
        (lambda: load_program_packets(4, 1, 0), "src is 0x4; it must be a multiple of 8"),
        (lambda: load_program_packets(8, 0, 0), "words is 0"),
        (lambda: load_program_packets(8, 1, -1), "at is -1"),
    ],
)
def test_builders_refuse(build: object, words: str) -> None:
    refuses(ValueError, words, build)


def test_builders_choose_the_fields() -> None:
    (made,) = gather_packets(1, 8, 3, 4, 5, 6, irq=True)
    same = NpuCommandPacket(Opcode.GATHER, Flags.IRQ, 1, 8, 3, m=4, k=6, n=5)
    assert (made.pack(), made.flags) == (same.pack(), Flags.IRQ)
    (made,) = load_program_packets(16, 2, 3)
    assert made.pack() == NpuCommandPacket(Opcode.LOAD_PROGRAM, 0, 16, m=2, k=3).pack()
