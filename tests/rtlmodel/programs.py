"""Random programs: commands of every kind on a few kilobytes of either region."""

import numpy as np

from echo_npu.commands.builders import add_packets, memcpy_packets, nop_packet, sync_packet
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import Flags, NpuCommandPacket, Opcode, Packet
from echo_npu.spec.data_types import DataType, OutType

WEIGHT_BYTES = 0x1_0000
ACTIVATION = 0x1000_0000
ACTIVATION_BYTES = 0x4_0000

_SPECIALS = np.array(
    [0, 1 << 31, 1, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FC00001, 0x7F812345, 0x7F7FFFFF], np.uint32
).view(np.float32)


def image(rng: np.random.Generator, nbytes: int) -> np.ndarray:
    """Draw float32 values of many magnitudes with some zeros, subnormals, infinities and NaNs, as bytes."""
    count = nbytes // 4
    values = (rng.standard_normal(count) * 10.0 ** rng.integers(-6, 7, count)).astype(np.float32)
    strewn = rng.random(count) < 0.003
    values[strewn] = rng.choice(_SPECIALS, int(strewn.sum()))
    return values.view(np.uint8)


def command(rng: np.random.Generator) -> list[Packet]:
    """Draw a legal command; its sources are in weight memory, its destination in activation memory."""

    def pick(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    kind = pick(0, 9)
    irq = pick(0, 4) == 0
    if kind == 0:
        return [nop_packet(irq=irq) if pick(0, 1) else sync_packet(irq=irq)]
    src1, src2 = 4 * pick(0, 0x7FF), 0x8000 + 4 * pick(0, 0x7FF)
    dst = ACTIVATION + 4 * pick(0, 0x1FFF)
    if kind <= 2:
        alpha = float(rng.choice([1.0, 0.0, -0.5, rng.normal()]))
        return list(add_packets(src1, src2, dst if pick(0, 1) else src1, pick(1, 700), alpha=alpha, irq=irq))
    if kind <= 5:
        size = pick(1, 40) if pick(0, 1) else pick(1, 3000)
        if size > 40:
            return list(memcpy_packets(src1 + pick(0, 3), dst + pick(0, 3), size, irq=irq))
        rows, batch = pick(1, 6), (pick(1, 3), pick(1, 3))
        stride = size + pick(0, 9)
        return list(
            memcpy_packets(
                src1 + pick(0, 3),
                dst + pick(0, 3),
                size,
                rows=rows,
                row_strides=(pick(0, 60), stride),
                batch=batch,
                src_batch_strides=(pick(0, 99), pick(0, 99)),
                dst_batch_strides=(rows * stride, rows * stride * batch[0]),
                irq=irq,
            )
        )
    return product(rng, irq)


def product(rng: np.random.Generator, irq: bool) -> list[Packet]:
    """Draw a legal MATMUL of any type, with any steps of the epilogue."""

    def pick(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    m, k, n = (pick(1, 40) for _ in range(3))
    dtype = DataType(pick(0, 3))
    asked = [pick(0, 2) == 0 for _ in range(5)]
    outs = list(OutType) if dtype == DataType.INT8 and not any(asked) else [OutType.FLOAT32, OutType.OWN]
    out = outs[pick(0, len(outs) - 1)]
    size, out_size = dtype.itemsize, out.itemsize(dtype)
    batch = (pick(1, 3), pick(1, 2)) if pick(0, 1) else (1, 1)
    trans_a, trans_b = bool(pick(0, 1)), bool(pick(0, 1))
    widths = ((m if trans_a else k, size), (k if trans_b else n, size), (n, out_size))
    strides = [unit * (width + pick(0, 3)) if pick(0, 1) else 0 for width, unit in widths]
    result = m * (strides[2] or out_size * n)
    return list(
        matmul_packets(
            size * pick(0, 0x7FF),
            0x8000 + size * pick(0, 0x7FF),
            ACTIVATION + out_size * pick(0, 0x1FFF),
            m,
            k,
            n,
            dtype=dtype,
            out=out,
            trans_a=trans_a,
            trans_b=trans_b,
            alpha=float(rng.normal()) if asked[0] else None,
            row_scales=4 * pick(0, 0x7FF) if asked[1] else None,
            column_vectors=4 * pick(0, 0x7FF) if asked[2] or asked[3] else None,
            column_scale=asked[2],
            bias=asked[3],
            relu=asked[4],
            row_strides=strides,
            batch=batch,
            src1_batch_strides=(size * pick(0, 50), size * pick(0, 50)),
            src2_batch_strides=(size * pick(0, 50), 0),
            dst_batch_strides=(result, result * batch[0]),
            irq=irq,
        )
    )


def spoiled(rng: np.random.Generator) -> list[Packet]:
    """Draw a command, mostly with an error in its first packet; none takes long."""
    while True:
        first, *rest = command(rng)
        assert isinstance(first, NpuCommandPacket)
        raw = bytearray(first.pack())
        for _ in range(rng.integers(1, 3)):
            raw[rng.integers(0, 64)] ^= 1 << int(rng.integers(0, 8))
        packet = NpuCommandPacket.unpack(raw)
        work = packet.m * max(packet.k, 1) * max(packet.n, 1)
        extended = bool(packet.flags & Flags.EXT) and packet.opcode in (Opcode.MATMUL, Opcode.MEMCPY)
        if work < 100_000 and extended == bool(rest):
            return [packet, *rest]
