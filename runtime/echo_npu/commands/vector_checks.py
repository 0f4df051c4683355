"""Check VECTOR commands as the device does, in the device's order (docs/vector.md)."""

from echo_npu.commands.checked import CheckedCommand, MemoryOperand, PacketFault
from echo_npu.commands.packets import MAX_BATCH, MAX_ROWS, MAX_TABLE, NpuCommandPacket
from echo_npu.commands.vector_command import (
    ELEMENT_SIZES,
    INPUTS_OF_SCATTER,
    MAGICS,
    MAX_REPEATS,
    Descriptor,
    VectorCommand,
    VectorExtension,
)
from echo_npu.spec.contract import (
    DESCRIPTOR_BCAST,
    DESCRIPTOR_ENABLE,
    DESCRIPTOR_PACK,
    DESCRIPTOR_PASSES,
    DESCRIPTOR_RESERVED,
    DESCRIPTOR_SEGS,
    DESCRIPTOR_SIZE,
    PARAM_ALPHA,
)
from echo_npu.spec.entries import Field
from echo_npu.spec.instructions import INPUTS
from echo_npu.spec.status import ErrorCode

_LIMIT = 2**32
_INDEX_WORDS = 2
"""Words of the longest index, an int64."""
_LAST = 5  # the word of a descriptor that holds bit fields
_SEGS, _PASSES, _SIZE, _PACK, _BCAST, _ENABLE, _RESERVED = (
    Field(field.shift - 32 * _LAST, field.width)
    for field in (
        DESCRIPTOR_SEGS,
        DESCRIPTOR_PASSES,
        DESCRIPTOR_SIZE,
        DESCRIPTOR_PACK,
        DESCRIPTOR_BCAST,
        DESCRIPTOR_ENABLE,
        DESCRIPTOR_RESERVED,
    )
)


def vector_shape(
    packet: NpuCommandPacket, extension: VectorExtension, loaded: int, *, large: bool = False
) -> CheckedCommand:
    """Check everything that comes before the alignment of the addresses, and return the command.

    Args:
        loaded: words of program memory that can be executed.
        large: memory lies above 4 GiB, so all addresses have high words.

    Raises: PacketFault.
    """
    high, table_rows = (0, 0) if large else extension.high_words, extension.table_rows
    if extension.magics != MAGICS or any(high) or max(extension.batch) > MAX_BATCH or table_rows > MAX_TABLE:
        raise PacketFault(ErrorCode.BAD_EXTENSION)
    rows, repeats, cols = packet.m, packet.k, packet.n
    batch = (extension.batch[0] or 1, extension.batch[1] or 1)
    addresses = (packet.src1_addr, packet.src2_addr, *extension.addresses, packet.dst_addr)
    listed = [
        _descriptor(
            addresses[stream],
            extension.descriptor(stream),
            (table_rows if table_rows and stream == INPUTS else rows, *batch),
            stream == INPUTS,
        )
        for stream in range(INPUTS + 1)
    ]
    if table_rows and not _can_scatter(listed[INPUTS_OF_SCATTER], listed[INPUTS]):
        raise PacketFault(ErrorCode.BAD_EXTENSION)
    if not 1 <= rows <= MAX_ROWS or not 0 <= repeats <= MAX_REPEATS or not 1 <= cols < _LIMIT:
        raise PacketFault(ErrorCode.BAD_DIMENSION)
    if extension.entry >= loaded:
        raise PacketFault(ErrorCode.BAD_PROGRAM, extension.entry)
    s0, s1, s2, s3, output = listed
    assert output is not None
    params = (packet.param[PARAM_ALPHA], *extension.params)
    indices = s3 if table_rows else None
    command = VectorCommand(
        extension.entry,
        rows,
        cols,
        (s0, s1, s2, None if table_rows else s3),
        output,
        params,
        repeats or 1,
        batch,
        indices,
        table_rows,
    )
    sources = tuple(_operand(each, rows) for each in command.sources if each is not None)
    return CheckedCommand(packet, batch, sources, _operand(output, table_rows or rows), command)


def _can_scatter(indices: Descriptor | None, output: Descriptor | None) -> bool:
    """Return whether s3 is a list of indices and the output a row that goes where an index says."""
    return (
        indices is not None
        and output is not None
        and indices.size == ELEMENT_SIZES[0]
        and indices.seg_len <= _INDEX_WORDS
        and indices.segs == indices.passes == output.segs == 1
        and not (indices.pack or indices.bcast)
    )


def _descriptor(
    address: int, words: tuple[int, ...], steps: tuple[int, int, int], is_output: bool
) -> Descriptor | None:
    """Return a stream; None if it is not enabled. Strides that are never stepped are 0."""
    row_stride, batch0_stride, batch1_stride, seg_stride, seg_len, last = words
    enabled = bool(_ENABLE.get(last))
    if not enabled and not is_output:
        return None
    segs, passes, size_code = _SEGS.get(last), _PASSES.get(last), _SIZE.get(last)
    pack, bcast = bool(_PACK.get(last)), bool(_BCAST.get(last))
    bad = _RESERVED.get(last) or not enabled or not segs or not seg_len or size_code >= len(ELEMENT_SIZES)
    bad = bad or (bcast and (segs != 1 or seg_len != 1 or pack))
    bad = bad or (passes != 0 or bcast if is_output else passes == 0)
    if bad or segs * seg_len * ELEMENT_SIZES[size_code] >= _LIMIT:
        raise PacketFault(ErrorCode.BAD_EXTENSION)
    rows, batch0, batch1 = steps
    return Descriptor(
        address,
        seg_len,
        segs,
        row_stride if rows > 1 else 0,
        (batch0_stride if batch0 > 1 else 0, batch1_stride if batch1 > 1 else 0),
        seg_stride if segs > 1 else 0,
        ELEMENT_SIZES[size_code],
        pack,
        bcast,
        passes,
    )


def _operand(stream: Descriptor, rows: int) -> MemoryOperand:
    return MemoryOperand(
        stream.address,
        rows,
        stream.segment_bytes,
        stream.row_stride,
        stream.batch_strides,
        stream.segs,
        stream.seg_stride,
    )


def check_vector_alignment(command: VectorCommand) -> None:
    """Raise PacketFault unless addresses are multiples of the element size."""
    for stream in (*command.sources, command.output):
        if stream is not None and stream.address % stream.size:
            raise PacketFault(ErrorCode.MISALIGNED, stream.address)


def check_vector_strides(command: VectorCommand) -> None:
    """Raise PacketFault unless strides are multiples of the element size and the output's keep it apart."""
    for stream in (*command.sources, command.output):
        if stream is not None:
            strides = (stream.row_stride, *stream.batch_strides, stream.seg_stride)
            if any(stride % stream.size for stride in strides):
                raise PacketFault(ErrorCode.BAD_EXTENSION)
    output, counts = command.output, (command.table_rows or command.rows, *command.batch)
    stuck = any(
        count > 1 and not stride
        for count, stride in zip(counts, (output.row_stride, *output.batch_strides), strict=True)
    )
    close = command.table_rows > 1 and output.row_stride < output.segment_bytes
    if stuck or close or (output.segs > 1 and output.seg_stride < output.segment_bytes):
        raise PacketFault(ErrorCode.BAD_EXTENSION)


def in_place(command: VectorCommand, stream: Descriptor) -> bool:
    """Return whether the output may be this input: the same elements, each written after it is read."""
    output = command.output
    return (
        not command.table_rows
        and stream.address == output.address
        and command.batch == (1, 1)
        and stream.segs == output.segs == 1
        and stream.seg_len == output.seg_len
        and stream.size == output.size
        and stream.passes == 1
        and (
            command.rows == 1
            or (stream.row_stride == output.row_stride and output.row_stride >= output.segment_bytes)
        )
    )
