"""What the tests of devices with memory above 4 GiB do on each backend."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from echo_npu import Device
from echo_npu.commands.builders import add_packets, gather_packets, memcpy_packets
from echo_npu.commands.command import Submission
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import Flags, NpuCommandPacket, Opcode
from echo_npu.commands.vector_command import RowIndices, Stream
from echo_npu.errors import NpuDeviceError
from echo_npu.formats import FORMATS
from echo_npu.model.blocks import matmul_blocks
from echo_npu.spec.data_types import Blocks
from echo_npu.vector import Builder, Program
from tb.stimulus.operands import packed_tiles

GIB = 1 << 30
M, K, N = 5, 6, 7
LENGTH = 40
TABLE_ROWS, ROW_BYTES = 30_000, 1 << 18  # 7.3 GiB
PICKED = (0, 16_384, 29_999, 16_383)  # row 16384 begins 4 GiB behind the table
MANY = 130
"""Rows of a matrix in several blocks of any configuration."""
FAR = 0x0380_0000
"""Bytes from one of these rows to the next: those of the last blocks begin 4 GiB behind the first."""


def _program() -> Program:
    b = Builder("four_streams")
    s0, s1, s2, s3 = (b.stream(index) for index in range(4))
    total = b.vector()
    with b.chunks(advance=[s0, s1, s2, s3]):
        b.fma(total, s0, s1, s2)
        b.add(b.out, total, s3)
    return b.build()


@dataclass(frozen=True)
class Borders:
    """Addresses near the ends of both regions, and around the multiples of 4 GiB inside."""

    weight: int
    weight_end: int
    activation: int
    activation_end: int

    @classmethod
    def of(cls, npu: Device) -> "Borders":
        memory = npu.capabilities.memory
        return cls(memory.weight.base, memory.weight.end, memory.activation.base, memory.activation.end)

    @property
    def seam(self) -> int:
        """A multiple of 4 GiB inside weight memory."""
        return self.weight + 4 * GIB


def write(npu: Device, address: int, array: NDArray[np.generic]) -> int:
    """Write an array of the host; return the address."""
    npu.memcpy(address, array, array.nbytes)
    return address


def read(npu: Device, address: int, like: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return an array of the same shape and type from the device."""
    found = np.empty_like(like)
    npu.memcpy(found, address, found.nbytes)
    return found


def numbers(*shape: int, seed: int) -> NDArray[np.float32]:
    """Return small whole numbers, whose sums and products are exact in any order."""
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.float32)


def product(npu: Device) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Return a product with strides of more than 1 GiB and an epilogue, and what it must be."""
    at = Borders.of(npu)
    a, b = numbers(M, K, seed=1), numbers(K, N, seed=2)
    scales, columns = numbers(M, seed=3), numbers(2, N, seed=4)
    b_stride, c_stride = 0x5000_0000, 0x6000_0000
    write(npu, at.seam - 44, a)  # lies across the seam
    for row in range(K):
        write(npu, at.weight + 4096 + row * b_stride, b[row])
    target = at.activation_end - (M - 1) * c_stride - 4 * N
    npu.execute(
        matmul_packets(
            at.seam - 44,
            at.weight + 4096,
            target,
            M,
            K,
            N,
            row_strides=(0, b_stride, c_stride),
            row_scales=write(npu, at.weight_end - 4 * M, scales),
            column_vectors=write(npu, at.activation + GIB, columns),
            column_scale=True,
            bias=True,
        )
    )
    found = np.stack([read(npu, target + row * c_stride, b[0]) for row in range(M)])
    return found, (a @ b) * scales[:, None] * columns[0] + columns[1]


def vector(npu: Device) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Return the result of a program with four inputs in rows far apart, and what it must be."""
    at = Borders.of(npu)
    npu.load_program(_program())  # it passes through the end of weight memory
    values = [numbers(2, LENGTH, seed=10 + index) for index in range(4)]
    row_stride = 0xFFFF_FF00
    starts = [
        at.weight_end - row_stride - 4 * LENGTH,
        at.seam - 4 * LENGTH,
        at.activation + 12,
        at.weight + 3 * GIB,
    ]
    for start, value in zip(starts, values, strict=True):
        for row in range(2):
            write(npu, start + row * row_stride, value[row])
    target = at.activation_end - row_stride - 4 * LENGTH
    npu.vector(
        _program(),
        rows=2,
        cols=LENGTH,
        inputs=[Stream(start, row_stride=row_stride) for start in starts],
        output=Stream(target, row_stride=row_stride),
    )
    found = np.stack([read(npu, target + row * row_stride, values[0][row]) for row in range(2)])
    return found, values[0] * values[1] + values[2] + values[3]


def gathered(npu: Device) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Return rows of a table of more than 4 GiB, and what they must be."""
    at = Borders.of(npu)
    rng = np.random.default_rng(20)
    rows = rng.integers(0, 256, (len(PICKED), ROW_BYTES), np.uint8)
    for number, row in zip(PICKED, rows, strict=True):
        write(npu, at.weight + 64 + number * ROW_BYTES, row)
    indices = write(npu, at.activation_end - 4 * len(PICKED), np.array(PICKED, np.int32))
    target = at.activation + 4 * GIB - ROW_BYTES
    npu.execute(gather_packets(at.weight + 64, indices, target, len(PICKED), ROW_BYTES, TABLE_ROWS))
    return read(npu, target, rows), rows


def copied(npu: Device) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Return a copy in batches of 3 GiB from one region to the other, and what it must be."""
    at = Borders.of(npu)
    values = np.random.default_rng(30).integers(0, 256, (3, 100), np.uint8)
    stride = 3 * GIB
    source, target = at.weight + 1, at.activation_end - 2 * stride - 103
    for index in range(3):
        write(npu, source + index * stride, values[index])
    npu.execute(
        memcpy_packets(
            source, target, 100, batch=(1, 3), src_batch_strides=(0, stride), dst_batch_strides=(0, stride)
        )
    )
    return np.stack([read(npu, target + index * stride, values[0]) for index in range(3)]), values


def added(npu: Device) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Return a sum with operands across the seams, and what it must be."""
    at = Borders.of(npu)
    a, b = numbers(LENGTH, seed=40), numbers(LENGTH, seed=41)
    write(npu, at.seam - 8, a)
    write(npu, at.activation + 4 * GIB - 72, b)
    target = at.activation + 8 * GIB - 4 * LENGTH
    npu.execute(add_packets(at.seam - 8, at.activation + 4 * GIB - 72, target, LENGTH, alpha=2.0))
    return read(npu, target, a), a + 2 * b


def far_rows(npu: Device) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Return a product whose blocks of rows begin 4 GiB behind its operands, and what it must be."""
    at = Borders.of(npu)
    a, b = numbers(MANY, 3, seed=50), numbers(3, 2, seed=51)
    for row in range(MANY):
        write(npu, at.weight + 64 + row * FAR, a[row])
    right = write(npu, at.weight_end - 4096, b)
    target = at.activation + 64
    npu.execute(matmul_packets(at.weight + 64, right, target, MANY, 3, 2, row_strides=(FAR, 0, FAR)))
    return np.stack([read(npu, target + row * FAR, b[0]) for row in range(MANY)]), a @ b


def transposed(npu: Device) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Return a product of transposed operands, with blocks along K and N 4 GiB on, and what it must be."""
    at = Borders.of(npu)
    a, b = numbers(K, M, seed=52), numbers(MANY, K, seed=53)
    left, right, far = at.weight + 64, at.weight + (1 << 20), 0x5000_0000
    for row in range(K):
        write(npu, left + row * far, a[row])
    for row in range(MANY):
        write(npu, right + row * FAR, b[row])
    target = at.activation + 64
    npu.execute(
        matmul_packets(left, right, target, M, K, MANY, trans_a=True, trans_b=True, row_strides=(far, FAR, 0))
    )
    expected = a.T @ b.T
    return read(npu, target, expected), expected


def batched(npu: Device) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Return products in batches up to 7 GiB apart, inner and outer ones, and what they must be."""
    at = Borders.of(npu)
    strides = (0xC000_0000, 0xFFFF_FFC0)
    a, b = numbers(2, 2, 3, 4, seed=54), numbers(2, 2, 4, 5, seed=55)
    left, right, target = at.weight + 4096, at.weight + 8192, at.activation + 64
    places = [(outer, inner) for outer in range(2) for inner in range(2)]
    for outer, inner in places:
        moved = inner * strides[0] + outer * strides[1]
        write(npu, left + moved, a[outer, inner])
        write(npu, right + moved, b[outer, inner])
    npu.execute(
        matmul_packets(
            left,
            right,
            target,
            3,
            4,
            5,
            batch=(2, 2),
            src1_batch_strides=strides,
            src2_batch_strides=strides,
            dst_batch_strides=strides,
        )
    )
    expected = (a @ b).reshape(4, 3, 5)
    found = [
        read(npu, target + inner * strides[0] + outer * strides[1], expected[0]) for outer, inner in places
    ]
    return np.stack(found), expected


def packed(npu: Device) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Return a product with weights in blocks, whose rows of tiles are 2 GiB apart, and what it must be."""
    at = Borders.of(npu)
    m, k, n, stride = 33, 64, 48, 2 * GIB
    generator = np.random.default_rng(56)
    tiles = packed_tiles(generator, Blocks.Q4_0, n, k)
    a = generator.standard_normal((m, k)).astype(np.float32)
    for row, each in enumerate(tiles):
        write(npu, at.weight + 64 + row * stride, np.ascontiguousarray(each.reshape(-1)))
    source, target = write(npu, at.activation + 7 * GIB, a), at.activation + 64
    npu.execute(
        matmul_packets(
            source, at.weight + 64, target, m, k, n, blocks=Blocks.Q4_0, row_strides=(0, stride, 0)
        )
    )
    expected = matmul_blocks(a, tiles, FORMATS[Blocks.Q4_0.label], n)
    return read(npu, target, expected), expected


def scattered(npu: Device) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Return the rows of a table of more than 4 GiB that a scatter has written, and what they must be."""
    at = Borders.of(npu)
    b = Builder("rows")
    x = b.stream(0)
    with b.chunks(advance=[x]):
        b.mov(b.out, x)
    program = b.build()
    rows = numbers(len(PICKED), 8, seed=57)
    source, target = write(npu, at.weight + 64, rows), at.activation + 64
    listed = write(npu, at.seam - 12, np.array(PICKED, np.int64))
    npu.vector(
        program,
        rows=len(PICKED),
        cols=8,
        inputs=[Stream(source, row_stride=32)],
        output=Stream(target, row_stride=ROW_BYTES),
        indices=RowIndices(listed, table_rows=TABLE_ROWS, wide=True),
    )
    return np.stack([read(npu, target + number * ROW_BYTES, rows[0]) for number in PICKED]), rows


def _summed_behind_a_copy(
    npu: Device, written: int, first: int, before: NDArray[np.float32]
) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Copy to `written` and sum 2 * LENGTH elements from `first`, of which `before` are not the copy's."""
    at = Borders.of(npu)
    values, ones = numbers(1 << 14, seed=58), np.ones((2 * LENGTH, 1), np.float32)
    source, right = write(npu, at.activation, values), write(npu, at.activation + GIB, ones)
    target = at.activation + 2 * GIB
    write(npu, first, np.concatenate([before, np.zeros(2 * LENGTH - before.size, np.float32)]))
    npu.submit_batch(
        [
            *memcpy_packets(source, written, values.nbytes),
            *matmul_packets(first, right, target, 1, 2 * LENGTH, 1),
        ]
    )
    npu.wait()
    begin = (first + before.nbytes - written) // 4
    expected = np.concatenate([before, values[begin : begin + 2 * LENGTH - before.size]]) @ ones
    return read(npu, target, expected), expected


def chained(npu: Device) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Return the sum of the last elements that a copy writes across the seam, and what it must be."""
    half = 1 << 15
    seam = Borders.of(npu).seam
    return _summed_behind_a_copy(npu, seam - half, seam + half - 8 * LENGTH, np.empty(0, np.float32))


def overwritten(npu: Device) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Return the sum of elements before the seam and behind it, the latter by a copy, and what it must be."""
    seam = Borders.of(npu).seam
    return _summed_behind_a_copy(npu, seam, seam - 4 * LENGTH, numbers(LENGTH, seed=60))


WORK = (
    product,
    vector,
    gathered,
    copied,
    added,
    far_rows,
    transposed,
    batched,
    packed,
    scattered,
    chained,
    overwritten,
)


def refused(npu: Device, commands: Submission) -> tuple[int, int]:
    """Return the error code and address of commands that the device refuses; it works afterwards."""
    try:
        npu.execute(commands)
    except NpuDeviceError as error:
        npu.clear_error()
        return error.code, error.address
    return 0, 0


def refusals(npu: Device) -> list[tuple[int, int]]:
    """Return the errors of commands whose operands lie outside of memory, at every border of it.

    The index of the last one lies outside of its table.
    """
    at = Borders.of(npu)

    def copy(source: int, target: int, nbytes: int = 8) -> Submission:
        return [NpuCommandPacket(Opcode.MEMCPY, Flags.NONE, source, 0, target, m=nbytes)]

    good = at.weight + 4 * GIB
    commands = [
        copy(at.weight - 8, at.activation),
        copy(at.weight - 1, at.activation),
        copy(at.weight_end - 7, at.activation),
        copy(good, at.weight_end - 7),
        copy(good, at.activation - 1),
        copy(good, at.activation_end - 7),
        copy(good, at.activation_end),
        copy(good, at.activation + (1 << 35)),
        copy(good + (1 << 63), at.activation),
        copy(0x1000, at.activation),
        copy(good, 0x1000_0000),
        copy(good, 0x2000_0000),
        copy(good + 64, good, 128),
        *(
            [NpuCommandPacket(Opcode.ADD_TENSOR, Flags.NONE, source, source, at.activation, m=1 << 30)]
            for source in (at.weight, at.activation)
        ),
        gather_packets(at.weight, write(npu, good, np.full(1, -1, np.int32)), at.activation, 1, 8, 4),
    ]
    return [refused(npu, command) for command in commands]
