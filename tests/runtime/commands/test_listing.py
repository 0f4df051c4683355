"""Commands in words."""

from collections.abc import Sequence
from typing import Any

import pytest

from echo_npu import Flags, NpuCommandPacket, Opcode, matmul_packets, memcpy_packets, nop_packet
from echo_npu.commands.builders import add_packets, gather_packets, load_program_packets
from echo_npu.commands.command import Command
from echo_npu.commands.listing import list_command
from echo_npu.commands.packets import Packet
from echo_npu.commands.vector_command import RowIndices, Stream, vector_command
from echo_npu.spec.data_types import DataType, OutType

A, B, C = 0x1000, 0x2000, 0x1000_0000
FROM_TO = "src1=0x00001000 dst=0x10000000"
WHERE = "src1=0x00001000 src2=0x00002000 dst=0x10000000"
VECTOR = vector_command(
    7, rows=3, cols=9, inputs=[Stream(A), None, Stream(B)], output=Stream(C, row_stride=36), repeats=2
).packets()


def product(**options: Any) -> Sequence[Packet]:
    return matmul_packets(A, B, C, 4, 5, 6, **options)


@pytest.mark.parametrize(
    ("packets", "text"),
    [
        ([nop_packet()], "NOP"),
        (product(), f"MATMUL 4x5x6 {WHERE}"),
        (
            product(trans_b=True, batch=(3, 2), dst_batch_strides=(96, 288)),
            f"MATMUL 4x5x6 flags=TRANS_B {WHERE} batch=3x2",
        ),
        (product(dtype=DataType.INT8, out=OutType.INT32), f"MATMUL 4x5x6 int8 to int32 {WHERE}"),
        (product(dtype=DataType.BF16), f"MATMUL 4x5x6 bf16 to fp32 {WHERE}"),
        (product(dtype=DataType.FP16, out=OutType.OWN), f"MATMUL 4x5x6 fp16 {WHERE}"),
        (product(half_b=True), f"MATMUL 4x5x6 fp32 by fp16 {WHERE}"),
        (add_packets(A, B, C, 77), f"ADD_TENSOR 77 elements {WHERE}"),
        (memcpy_packets(A, C, 12, rows=5, row_strides=(16, 12)), f"MEMCPY 5x12 bytes {FROM_TO}"),
        (gather_packets(A, B, C, 2, 8, 30), f"GATHER 2x30x8 {WHERE}"),
        (load_program_packets(A, 40, 3), "LOAD_PROGRAM 40 words at 3 src1=0x00001000"),
        (VECTOR, "VECTOR program at 7 3x9 s0=0x00001000 s2=0x00002000 dst=0x10000000 repeats=2"),
        ([NpuCommandPacket(0x99, Flags.IRQ)], "opcode 0x99 0x0x0 src1=0x00000000 dst=0x00000000"),
        ([NpuCommandPacket(Opcode.NOP, 1 << 20)], "NOP flags=0x100000"),
    ],
)
def test_a_command(packets: Sequence[Packet], text: str) -> None:
    assert str(list_command(Command.of(*packets))) == text


def test_the_name_of_a_vector_program() -> None:
    listed = list_command(Command.of(*VECTOR), "softmax")
    assert (listed.opcode, listed.name, listed.shape) == ("VECTOR", "softmax", "3x9")
    assert str(listed).startswith("VECTOR softmax 3x9 s0=")


def test_a_scatter() -> None:
    made = vector_command(
        7, rows=3, cols=9, inputs=[Stream(A)], output=Stream(C, row_stride=36), indices=RowIndices(B, 50)
    )
    text = "VECTOR program at 7 3x9 s0=0x00001000 s3=0x00002000 dst=0x10000000 table_rows=50"
    assert str(list_command(made.command())) == text
