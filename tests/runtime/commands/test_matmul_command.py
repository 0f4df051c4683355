"""MATMUL commands: the fields that the arguments become, and the arguments that are refused."""

import numpy as np
import pytest

from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import ExtensionPacket, Flags, NpuCommandPacket, Opcode
from echo_npu.spec.data_types import DataType, OutType
from tests.refusals import Error, Words, refuses


def test_matmul_needs_no_extension_when_dense() -> None:
    (packet,) = matmul_packets(64, 128, 192, 2, 3, 4)
    assert packet == NpuCommandPacket(Opcode.MATMUL, 0, 64, 128, 192, m=2, k=3, n=4)
    (packet,) = matmul_packets(64, 128, 192, 2, 3, 4, trans_a=True, trans_b=True, alpha=0.5, irq=True)
    assert isinstance(packet, NpuCommandPacket)
    assert packet.flags == Flags.TRANS_A | Flags.TRANS_B | Flags.USE_ALPHA | Flags.IRQ
    assert packet.alpha == 0.5


def test_matmul_strides_and_batches_go_into_the_extension() -> None:
    command, extension = matmul_packets(
        64, 128, 192, 2, 3, 4,
        trans_a=True,
        row_strides=(8, 16, 64),
        batch=(5, 6),
        src1_batch_strides=(100, 104),
        src2_batch_strides=(0, 108),
        dst_batch_strides=(256, 512),
    )  # fmt: skip
    assert isinstance(command, NpuCommandPacket)
    assert command.flags == Flags.TRANS_A | Flags.EXT
    assert extension == ExtensionPacket(
        batch0=5, batch1=6, src1_row_stride=8, src2_row_stride=16, dst_row_stride=64, src1_batch0_stride=100,
        src1_batch1_stride=104, src2_batch0_stride=0, src2_batch1_stride=108, dst_batch0_stride=256,
        dst_batch1_stride=512,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "out", "bits"),
    [
        ("fp32", OutType.FLOAT32, 0),
        (DataType.FP32, OutType.OWN, 1 << 8),
        ("bf16", OutType.FLOAT32, 1 << 4),
        (DataType.BF16, OutType.OWN, 1 << 4 | 1 << 8),
        ("fp16", OutType.OWN, 2 << 4 | 1 << 8),
        ("int8", OutType.FLOAT32, 3 << 4),
        ("int8", OutType.OWN, 3 << 4 | 1 << 8),
        ("int8", OutType.INT32, 3 << 4 | 2 << 8),
    ],
)
def test_matmul_types_are_flags(dtype: DataType | str, out: OutType, bits: int) -> None:
    (packet,) = matmul_packets(64, 128, 192, 2, 3, 4, dtype=dtype, out=out)
    assert packet == NpuCommandPacket(Opcode.MATMUL, bits, 64, 128, 192, m=2, k=3, n=4)
    assert isinstance(packet, NpuCommandPacket)
    assert (packet.data_type, packet.out_type) == (DataType.of(dtype), out)


def test_float16_beside_float32_is_a_flag() -> None:
    (packet,) = matmul_packets(64, 130, 192, 2, 3, 4, half_b=True)
    assert packet == NpuCommandPacket(Opcode.MATMUL, 1 << 6, 64, 130, 192, m=2, k=3, n=4)
    assert isinstance(packet, NpuCommandPacket)
    assert (packet.data_type, packet.right_type) == (DataType.FP32, DataType.FP16)
    _, extension = matmul_packets(
        64, 130, 192, 2, 3, 4, half_b=True, row_strides=(12, 10, 16),
        batch=(2, 1), src2_batch_strides=(14, 0), dst_batch_strides=(32, 0),
    )  # fmt: skip
    assert isinstance(extension, ExtensionPacket)
    assert (extension.src2_row_stride, extension.src2_batch0_stride) == (10, 14)


@pytest.mark.parametrize(
    ("options", "bits", "fields"),
    [
        (
            {"dtype": "int8", "row_scales": 0, "column_vectors": 36, "column_scale": True, "bias": True,
             "relu": True},
            3 << 4 | 1 << 10 | 1 << 11 | 1 << 12 | 1 << 13,
            {"column_vectors": 36, "row_scales": 0},
        ),
        ({"row_scales": 40}, 1 << 10, {"row_scales": 40}),
        ({"column_vectors": 40, "bias": True}, 1 << 12, {"column_vectors": 40}),
    ],
    ids=["all", "rows", "bias"],
)  # fmt: skip
def test_matmul_vectors_go_into_the_extension(options: dict, bits: int, fields: dict[str, int]) -> None:
    command, extension = matmul_packets(64, 128, 192, 2, 3, 4, **options)
    assert isinstance(command, NpuCommandPacket)
    assert command.flags == bits | 1 << 31
    assert extension == ExtensionPacket(batch0=1, batch1=1, **fields)


def test_relu_needs_no_extension() -> None:
    assert len(matmul_packets(64, 128, 192, 2, 3, 4, relu=True)) == 1


def test_alignment_and_strides_follow_the_types() -> None:
    assert len(matmul_packets(66, 130, 194, 2, 3, 4, dtype="fp16", out=OutType.OWN)) == 1
    assert len(matmul_packets(65, 131, 197, 2, 3, 4, dtype="int8", out=OutType.OWN)) == 1
    _, extension = matmul_packets(
        65, 131, 197, 2, 3, 4, dtype="int8", out=OutType.OWN, row_strides=(3, 5, 7),
        batch=(2, 1), src1_batch_strides=(7, 0), dst_batch_strides=(15, 0),
    )  # fmt: skip
    assert isinstance(extension, ExtensionPacket)
    assert (extension.src1_row_stride, extension.src2_row_stride, extension.dst_row_stride) == (3, 5, 7)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"dtype": "fp64"}, ValueError, ["dtype is 'fp64'", "fp32, bf16, fp16, int8"]),
        ({"dtype": np.float32}, TypeError, ["dtype must be", "float32"]),
        ({"out": "int32"}, TypeError, ["out must be", "'int32'"]),
        ({"dtype": "bf16", "src1": 65}, ValueError, ["src1", "0x41", "multiple of 2"]),
        ({"dtype": "bf16", "src2": 129}, ValueError, ["src2", "multiple of 2"]),
        ({"dtype": "bf16", "dst": 194}, ValueError, ["dst", "multiple of 4"]),
        ({"dtype": "fp16", "out": OutType.OWN, "dst": 193}, ValueError, ["dst", "multiple of 2"]),
        ({"dtype": "int8", "dst": 193}, ValueError, ["dst", "multiple of 4"]),
        ({"out": OutType.INT32}, ValueError, ["out is int32", "dtype is fp32"]),
        ({"half_b": True, "dtype": "bf16"}, ValueError, ["half_b is True", "dtype is bf16"]),
        ({"half_b": True, "blocks": "q8_0", "k": 32}, ValueError, ["half_b is True", "blocks is q8_0"]),
        ({"half_b": True, "src2": 129}, ValueError, ["src2", "multiple of 2"]),
        ({"half_b": True, "src1": 66}, ValueError, ["src1", "multiple of 4"]),
        ({"dtype": "int8", "out": OutType.INT32, "alpha": 1.0}, ValueError, ["out is int32", "alpha"]),
        ({"dtype": "int8", "out": OutType.INT32, "row_scales": 64}, ValueError, ["out is int32"]),
        ({"dtype": "int8", "out": OutType.INT32, "relu": True}, ValueError, ["out is int32"]),
        ({"bias": True}, ValueError, ["column_vectors is None", "bias is True"]),
        ({"column_scale": True}, ValueError, ["column_vectors is None", "column_scale is True"]),
        ({"column_vectors": 64}, ValueError, ["column_vectors is 64", "bias is False"]),
        ({"column_vectors": 66, "bias": True}, ValueError, ["column_vectors is 0x42", "multiple of 4"]),
        ({"row_scales": 65}, ValueError, ["row_scales is 0x41", "multiple of 4"]),
        ({"row_scales": 1 << 64}, ValueError, ["row_scales is 18446744073709551616"]),
        ({"dtype": "fp16", "row_strides": (5, 0, 0)}, ValueError, ["row_strides[0] is 5", "multiple of 2"]),
        ({"dtype": "fp16", "row_strides": (4, 0, 0)}, ValueError, ["row_strides[0] is 4", "6 bytes"]),
        ({"dtype": "int8", "row_strides": (0, 0, 17)}, ValueError, ["row_strides[2] is 17", "multiple of 4"]),
        (
            {"dtype": "bf16", "src2_batch_strides": (3, 0)},
            ValueError,
            ["src2_batch_strides[0] is 3", "multiple of 2"],
        ),
        ({"m": 0}, ValueError, ["m is 0"]),
        ({"k": -3}, ValueError, ["k is -3"]),
        ({"n": (1 << 24) + 1}, ValueError, ["n is 16777217"]),
        ({"src1": 2}, ValueError, ["src1", "0x2", "multiple of 4"]),
        ({"dst": 7}, ValueError, ["dst", "0x7"]),
        ({"row_strides": (8, 0, 0)}, ValueError, ["row_strides[0] is 8", "12"]),
        ({"row_strides": (0, 0, 18)}, ValueError, ["row_strides[2] is 18", "multiple of 4"]),
        ({"row_strides": (0, 0)}, ValueError, ["row_strides", "2"]),
        ({"batch": (0, 1)}, ValueError, ["batch[0] is 0"]),
        ({"batch": (1, 65536)}, ValueError, ["batch[1] is 65536"]),
        ({"batch": (2, 1)}, ValueError, ["dst_batch_strides[0] is 0", "batch[0] is 2"]),
        ({"src2_batch_strides": (2, 0)}, ValueError, ["src2_batch_strides[0] is 2"]),
    ],
)
def test_matmul_builder_names_what_it_refuses(change: dict, error: Error, words: Words) -> None:
    arguments = {"src1": 64, "src2": 128, "dst": 192, "m": 2, "k": 3, "n": 4} | change
    refuses(error, words, matmul_packets, **arguments)
