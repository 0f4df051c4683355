"""Packets: the bytes that they make, and the fields that they refuse."""

import struct

import numpy as np
import pytest

from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import EXTENSION_MAGIC, ExtensionPacket, NpuCommandPacket, Opcode, packet_bytes
from tests.refusals import Error, Words, refuses


def test_command_layout_is_the_documented_one() -> None:
    packet = NpuCommandPacket(
        Opcode.MATMUL, 0x8000_0005, 0x1122_3344_5566_7788, 2, 3, m=-2, k=5, n=1 << 40, alpha=1.5
    )
    raw = packet.pack()
    assert len(raw) == 64
    assert struct.unpack_from("<II", raw, 0) == (1, 0x8000_0005)
    assert struct.unpack_from("<QQQ", raw, 8) == (0x1122_3344_5566_7788, 2, 3)
    assert struct.unpack_from("<qqq", raw, 32) == (-2, 5, 1 << 40)
    assert struct.unpack_from("<fI", raw, 56) == (1.5, 0)
    assert (packet.m, packet.k, packet.n, packet.alpha) == (-2, 5, 1 << 40, 1.5)
    assert NpuCommandPacket.unpack(raw) == packet


def test_command_takes_plain_parameter_words() -> None:
    param = [7, 0, 1, 0, 2, 0, 0, 9]
    packet = NpuCommandPacket(opcode=3, flags=0, src1_addr=64, src2_addr=0, dst_addr=128, param=param)
    assert packet.m == 7
    assert packet.param == (7, 0, 1, 0, 2, 0, 0, 9)


def test_extension_layout_is_the_documented_one() -> None:
    names = [
        "batch0", "src1_row_stride", "src2_row_stride", "dst_row_stride", "rows", "src1_batch0_stride",
        "src2_batch0_stride", "dst_batch0_stride", "batch1", "src1_batch1_stride", "src2_batch1_stride",
        "dst_batch1_stride", "column_vectors", "row_scales", "row_scales_high",
    ]  # fmt: skip
    packet = ExtensionPacket(**{name: index for index, name in enumerate(names, 1)})
    assert struct.unpack("<16I", packet.pack()) == (0x31545845, *range(1, 16))
    assert EXTENSION_MAGIC.to_bytes(4, "little") == b"EXT1"
    assert ExtensionPacket.unpack(packet.pack()) == packet


@pytest.mark.parametrize("seed", range(20))
def test_any_64_bytes_survive_a_round_trip(seed: int) -> None:
    raw = np.random.default_rng(seed).bytes(64)
    assert NpuCommandPacket.unpack(raw).pack() == raw
    assert ExtensionPacket.unpack(raw).pack() == raw
    assert packet_bytes(raw) == raw


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"opcode": 1 << 32}, ValueError, ["opcode", str(1 << 32)]),
        ({"opcode": -1}, ValueError, ["opcode", "-1"]),
        ({"opcode": "MATMUL"}, TypeError, ["opcode", "'MATMUL'"]),
        ({"opcode": True}, TypeError, ["opcode", "True"]),
        ({"opcode": 1, "flags": 1 << 40}, ValueError, ["flags", str(1 << 40)]),
        ({"opcode": 1, "src1_addr": 1 << 64}, ValueError, ["src1_addr", str(1 << 64)]),
        ({"opcode": 1, "dst_addr": -4}, ValueError, ["dst_addr", "-4"]),
        ({"opcode": 1, "src2_addr": 1.5}, TypeError, ["src2_addr", "1.5"]),
        ({"opcode": 1, "param": [0] * 7}, ValueError, ["param", "7"]),
        ({"opcode": 1, "param": [0] * 7 + [1 << 32]}, ValueError, ["param[7]"]),
        ({"opcode": 1, "m": 1 << 63}, ValueError, ["m is"]),
        ({"opcode": 1, "k": 2.0}, TypeError, ["k must", "2.0"]),
        ({"opcode": 1, "alpha": 1e60}, ValueError, ["alpha", "1e+60"]),
        ({"opcode": 1, "alpha": "1"}, TypeError, ["alpha", "'1'"]),
    ],
)
def test_a_field_that_does_not_fit_is_named(arguments: dict, error: Error, words: Words) -> None:
    refuses(error, words, NpuCommandPacket, **arguments)


def test_extension_fields_are_checked() -> None:
    refuses(ValueError, "batch0 is -1", ExtensionPacket, batch0=-1)
    refuses(TypeError, "rows", ExtensionPacket, rows=1.0)
    refuses(ValueError, "column_vectors is 4294967296", ExtensionPacket, column_vectors=1 << 32)


@pytest.mark.parametrize("bad", [b"", bytes(63), bytes(65)])
def test_raw_packets_have_64_bytes(bad: bytes) -> None:
    refuses(ValueError, str(len(bad)), packet_bytes, bad)
    refuses(ValueError, str(len(bad)), NpuCommandPacket.unpack, bad)
    refuses(TypeError, "str", packet_bytes, "x" * 64)


def test_packets_describe_themselves() -> None:
    assert "MATMUL" in str(matmul_packets(64, 128, 192, 2, 3, 4)[0])
    assert "0x77" in str(NpuCommandPacket(0x77))
    assert str(ExtensionPacket(rows=3)) == "EXT rows=3"
