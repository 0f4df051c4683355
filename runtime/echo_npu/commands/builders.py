"""Builders of all commands but MATMUL and VECTOR: they refuse what the device would refuse.

An error names the argument and its value. Each `..._command` has a `..._packets` that returns the packets.
"""

from collections.abc import Sequence

from echo_npu.commands.arguments import (
    address,
    aligned,
    batch_counts,
    batch_strides,
    check_written_batches,
    dimension,
    stride,
)
from echo_npu.commands.command import Command, as_packets
from echo_npu.commands.integers import checked_integer
from echo_npu.commands.packets import (
    MAX_COUNT,
    MAX_ROWS,
    MAX_TABLE,
    ExtensionPacket,
    Flags,
    NpuCommandPacket,
    Opcode,
    stride_fields,
)
from echo_npu.spec.contract import MAX_DIM


def memcpy_command(
    src: int,
    dst: int,
    nbytes: int,
    *,
    rows: int = 1,
    row_strides: Sequence[int] = (0, 0),
    batch: Sequence[int] = (1, 1),
    src_batch_strides: Sequence[int] = (0, 0),
    dst_batch_strides: Sequence[int] = (0, 0),
    irq: bool = False,
) -> Command:
    """Copy `rows` rows of `nbytes` bytes from `src` to `dst`, for every batch, with any alignment.

    Args:
        src, dst: physical byte addresses.
        nbytes: bytes of a row, at least 1.
        rows: 1..2**24.
        row_strides: bytes from one row to the next of src, dst; 0 is dense.
        batch: (inner, outer) number of repetitions, each 1..65535.
        *_batch_strides: (inner, outer) bytes from one block to the next; 0 reads the same one again.
        irq: raise the command interrupt on retirement.

    Returns: the command, with an extension packet if it needs one.

    Raises:
        TypeError, ValueError: naming the argument and its value.
    """
    src, dst = address("src", src), address("dst", dst)
    nbytes = dimension("nbytes", nbytes, MAX_COUNT)
    rows = dimension("rows", rows, MAX_ROWS)
    if len(row_strides) != 2:
        raise ValueError(f"row_strides has {len(row_strides)} entries; it is (src, dst) in bytes")
    src_stride = stride("row_strides[0]", row_strides[0])
    dst_stride = stride("row_strides[1]", row_strides[1], least=nbytes if rows > 1 else 0)
    counts = batch_counts(batch)
    strides_src = batch_strides("src_batch_strides", src_batch_strides)
    strides_dst = batch_strides("dst_batch_strides", dst_batch_strides)
    check_written_batches("dst_batch_strides", strides_dst, counts)
    flags = Flags.IRQ if irq else Flags.NONE
    extended = rows > 1 or counts != (1, 1)
    if extended:
        flags |= Flags.EXT
    packet = NpuCommandPacket(Opcode.MEMCPY, flags, src, 0, dst, m=nbytes)
    if not extended:
        return Command.of(packet)
    return Command.of(
        packet,
        ExtensionPacket(
            rows=rows,
            batch0=counts[0],
            batch1=counts[1],
            **stride_fields("src1", src_stride, strides_src),
            **stride_fields("dst", dst_stride, strides_dst),
        ),
    )


def add_command(
    src1: int, src2: int, dst: int, elements: int, *, alpha: float = 1.0, irq: bool = False
) -> Command:
    """Compute `dst = src1 + alpha * src2` over consecutive float32 values; dst may be one of the sources.

    Args:
        src1, src2, dst: physical byte addresses, multiples of 4.
        elements: 1..2**30 - 1.
        alpha: rounded to float32.
        irq: raise the command interrupt on retirement.

    Raises:
        TypeError, ValueError: naming the argument and its value.
    """
    src1, src2, dst = aligned("src1", src1), aligned("src2", src2), aligned("dst", dst)
    elements = dimension("elements", elements, 2**30 - 1)
    flags = Flags.IRQ if irq else Flags.NONE
    return Command.of(NpuCommandPacket(Opcode.ADD_TENSOR, flags, src1, src2, dst, m=elements, alpha=alpha))


def gather_command(
    table: int, indices: int, dst: int, rows: int, row_bytes: int, table_rows: int, *, irq: bool = False
) -> Command:
    """Copy row `indices[i]` of a table to row i of dst, all dense.

    Args:
        table: address of `table_rows` rows of `row_bytes` bytes, each 1..2**31.
        indices: address of `rows` int32 values, a multiple of 4.
        dst: address of `rows` rows, 1..2**24.

    Raises:
        TypeError, ValueError: naming the argument and its value.
    """
    table, indices, dst = address("table", table), aligned("indices", indices), address("dst", dst)
    rows = dimension("rows", rows, MAX_ROWS)
    row_bytes, table_rows = (
        dimension("row_bytes", row_bytes, MAX_TABLE),
        dimension("table_rows", table_rows, MAX_TABLE),
    )
    flags = Flags.IRQ if irq else Flags.NONE
    return Command.of(
        NpuCommandPacket(Opcode.GATHER, flags, table, indices, dst, m=rows, k=table_rows, n=row_bytes)
    )


def load_program_command(src: int, words: int, at: int, *, irq: bool = False) -> Command:
    """Load `words` instructions of 64 bits from `src`, a multiple of 8, into program memory from word `at`
    on.

    Raises:
        TypeError, ValueError: naming the argument and its value.
    """
    src = aligned("src", src, 8)
    words, at = dimension("words", words), checked_integer("at", at, 0, MAX_DIM)
    flags = Flags.IRQ if irq else Flags.NONE
    return Command.of(NpuCommandPacket(Opcode.LOAD_PROGRAM, flags, src, m=words, k=at))


def nop_packet(*, irq: bool = False) -> NpuCommandPacket:
    """Return a command that only retires."""
    return NpuCommandPacket(Opcode.NOP, Flags.IRQ if irq else Flags.NONE)


def sync_packet(*, irq: bool = False) -> NpuCommandPacket:
    """Return a full fence: it retires after everything before it, and nothing after it starts earlier."""
    return NpuCommandPacket(Opcode.SYNC, Flags.IRQ if irq else Flags.NONE)


memcpy_packets = as_packets(memcpy_command)
add_packets = as_packets(add_command)
gather_packets = as_packets(gather_command)
load_program_packets = as_packets(load_program_command)
