"""MATMUL commands: one packet, and an extension packet for strides, batches and vectors (docs/packets.md)."""

from collections.abc import Sequence

from echo_npu.commands.arguments import (
    aligned,
    batch_counts,
    batch_strides,
    check_written_batches,
    dimension,
    stride,
)
from echo_npu.commands.command import Command, as_packets
from echo_npu.commands.packets import (
    BLOCK_ROWS,
    BLOCKS_SHIFT,
    DTYPE_SHIFT,
    EPILOGUE_FLAGS,
    OUT_SHIFT,
    TILE_ALIGNMENT,
    VECTOR_OPERAND_FLAGS,
    ExtensionPacket,
    Flags,
    NpuCommandPacket,
    Opcode,
    packed_rows,
    stride_fields,
    vector_fields,
)
from echo_npu.formats import BLOCK
from echo_npu.spec.contract import Blocks, DataType, OutType


def matmul_command(
    src1: int,
    src2: int,
    dst: int,
    m: int,
    k: int,
    n: int,
    *,
    dtype: DataType | str = DataType.FP32,
    half_b: bool = False,
    blocks: Blocks | str = Blocks.NONE,
    out: OutType = OutType.FLOAT32,
    trans_a: bool = False,
    trans_b: bool = False,
    alpha: float | None = None,
    row_scales: int | None = None,
    column_vectors: int | None = None,
    column_scale: bool = False,
    bias: bool = False,
    relu: bool = False,
    row_strides: Sequence[int] = (0, 0, 0),
    batch: Sequence[int] = (1, 1),
    src1_batch_strides: Sequence[int] = (0, 0),
    src2_batch_strides: Sequence[int] = (0, 0),
    dst_batch_strides: Sequence[int] = (0, 0),
    irq: bool = False,
) -> Command:
    """Compute `dst[M, N] = op(src1)[M, K] @ op(src2)[K, N]`, row-major, for every batch.

    Each sum is multiplied by alpha, by its row's scale and by its column's scale, its column's bias is added,
    and relu is taken. Only the steps that are asked for are done, in this order, each rounded to float32.

    Args:
        src1, src2, dst: physical byte addresses, multiples of their elements' size.
        m, k, n: 1..2**24.
        dtype: type of both operands, with `half_b` of src1, or its label: fp32, bf16, fp16, int8.
        half_b: src2 is float16; dtype is float32, and there are no blocks.
        blocks: format of src2, which is then packed weights [N, K] (`echo_npu.formats`), or its label: q8_0,
            q4_0, q4_1; K is a multiple of 32, dtype is float32 or float16 and that of src1 alone, out is
            float32, and nothing is transposed.
        out: type of the result: float32, that of the operands, or int32 (of int8, without any step).
        trans_a: src1 is stored as [K, M].
        trans_b: src2 is stored as [N, K].
        alpha: multiplies the sum (None: no such step).
        row_scales: address of M float32, a multiple of 4; the same for every batch.
        column_vectors: address of N float32 for `column_scale` or for `bias`, or of 2 * N for both in this
            order; a multiple of 4; the same for every batch.
        column_scale, bias: which column vectors there are.
        relu: values below zero become zero.
        row_strides: bytes from one stored row to the next of src1, src2, dst; 0 is dense.
        batch: (inner, outer) number of products, each 1..65535.
        *_batch_strides: (inner, outer) bytes from one matrix to the next; 0 reads the same one again.
        irq: raise the command interrupt on retirement.

    Returns: the command, with an extension packet if it needs one.

    Raises:
        TypeError, ValueError: naming the argument and its value.
    """
    m, k, n = dimension("m", m), dimension("k", k), dimension("n", n)
    dtype = DataType.of(dtype)
    if not isinstance(out, OutType):
        raise TypeError(f"out must be an OutType, got {out!r} ({type(out).__name__})")
    packed = Blocks.of(blocks)
    if packed and (k % BLOCK or dtype not in BLOCK_ROWS or out != OutType.FLOAT32 or trans_a or trans_b):
        raise ValueError(
            f"blocks is {packed.label}, k is {k}, dtype is {dtype.label}, out is {out.name.lower()}, "
            f"trans_a is {trans_a}, trans_b is {trans_b}: k must be a multiple of {BLOCK}, dtype fp32 or "
            "fp16, the result float32, and nothing transposed"
        )
    if half_b and (dtype != DataType.FP32 or packed):
        raise ValueError(
            f"half_b is {half_b}, dtype is {dtype.label}, blocks is {packed.label}: a float16 src2 takes a "
            "float32 src1, and no blocks"
        )
    size, out_size = dtype.itemsize, out.itemsize(dtype)
    element2 = DataType.FP16.itemsize if half_b else size
    size2 = TILE_ALIGNMENT if packed else element2
    src1, src2 = aligned("src1", src1, size), aligned("src2", src2, size2)
    dst = aligned("dst", dst, out_size)
    flags = Flags(dtype << DTYPE_SHIFT | out << OUT_SHIFT | packed << BLOCKS_SHIFT)
    for flag, given in (
        (Flags.HALF_B, half_b),
        (Flags.TRANS_A, trans_a),
        (Flags.TRANS_B, trans_b),
        (Flags.USE_ALPHA, alpha is not None),
        (Flags.ROW_SCALE, row_scales is not None),
        (Flags.COL_SCALE, column_scale),
        (Flags.BIAS, bias),
        (Flags.RELU, relu),
        (Flags.IRQ, irq),
    ):
        if given:
            flags |= flag
    if out == OutType.INT32 and (dtype != DataType.INT8 or flags & EPILOGUE_FLAGS):
        raise ValueError(
            f"out is int32 and dtype is {dtype.label}: int32 takes int8 operands, and no alpha, scales, bias "
            "or relu"
        )
    if (column_vectors is not None) != (column_scale or bias):
        raise ValueError(
            f"column_vectors is {column_vectors}, column_scale is {column_scale} and bias is {bias}: the "
            "address goes with one of these or both"
        )
    columns = 0 if column_vectors is None else aligned("column_vectors", column_vectors)
    scales = 0 if row_scales is None else aligned("row_scales", row_scales)
    if len(row_strides) != 3:
        raise ValueError(f"row_strides has {len(row_strides)} entries; it is (src1, src2, dst) in bytes")
    row_bytes2 = packed_rows(packed, k, n)[1] if packed else element2 * (k if trans_b else n)
    row_bytes = (size * (m if trans_a else k), row_bytes2, out_size * n)
    rows = [
        stride(f"row_strides[{i}]", row_strides[i], multiple=multiple, least=row_bytes[i])
        for i, multiple in enumerate((size, size2, out_size))
    ]
    counts = batch_counts(batch)
    strides1 = batch_strides("src1_batch_strides", src1_batch_strides, multiple=size)
    strides2 = batch_strides("src2_batch_strides", src2_batch_strides, multiple=size2)
    strides_dst = batch_strides("dst_batch_strides", dst_batch_strides, multiple=out_size)
    check_written_batches("dst_batch_strides", strides_dst, counts)
    extended = any(rows) or counts != (1, 1) or bool(flags & VECTOR_OPERAND_FLAGS)
    if extended:
        flags |= Flags.EXT
    packet = NpuCommandPacket(Opcode.MATMUL, flags, src1, src2, dst, m=m, k=k, n=n, alpha=alpha)
    if not extended:
        return Command.of(packet)
    return Command.of(
        packet,
        ExtensionPacket(
            batch0=counts[0],
            batch1=counts[1],
            **stride_fields("src1", rows[0], strides1),
            **stride_fields("src2", rows[1], strides2),
            **stride_fields("dst", rows[2], strides_dst),
            **vector_fields(columns, scales),
        ),
    )


matmul_packets = as_packets(matmul_command)
