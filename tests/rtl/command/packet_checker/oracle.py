"""Expected answers of packet_checker, in exact integers: the model's checks and the operands that they
find."""

import struct
from collections.abc import Mapping, Sequence

from echo_npu.commands.checked import CheckedCommand, MemoryOperand, PacketFault
from echo_npu.commands.checks import check_command, unpack_extension
from echo_npu.commands.packets import VECTOR_OPERAND_FLAGS, Flags, NpuCommandPacket, Opcode, extension_count
from echo_npu.commands.vector_command import Descriptor
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.spec.memory_map import DEFAULT_MAP, MemoryMap, Region

PROGRAM_WORDS = 4096
PACKET_WORDS = 64
CASE_WORDS = PACKET_WORDS + 4
OPERANDS, DST_OPERAND = 5, 4

# Words of an answer, as packet_checker_main.cpp has them.
(
    ERROR,
    ADDRESS_LOW,
    ADDRESS_HIGH,
    ROWS,
    COLS,
    REPEATS,
    ENTRY,
    BATCH0,
    BATCH1,
    M,
    K,
    N,
    BLOCKS,
    HALVES,
    TURNED,
    TABLE_ROWS,
) = range(16)
HEAD_WORDS = 16
USED, FIRST, LAST, ADDR, ROW_STRIDE, STRIDE0, STRIDE1 = range(7)
SEG_STRIDE, SEG_BYTES, SEG_LEN, SEGS, LENGTH, SEGMENTS, GRANULES = range(7, 14)
FIRST_HIGH, LAST_HIGH, ADDR_HIGH = range(14, 17)
HIGH = {FIRST: FIRST_HIGH, LAST: LAST_HIGH, ADDR: ADDR_HIGH}
OPERAND_WORDS = 17
ANSWER_WORDS = HEAD_WORDS + OPERANDS * OPERAND_WORDS
GRANULE = 16

_PROGRAMS = ProgramMemory(PROGRAM_WORDS)


def expected(case: Sequence[int], memory: MemoryMap = DEFAULT_MAP) -> dict[int, int]:
    """Return the words of the answer that are defined, on a device with this memory."""
    raw = struct.pack(f"<{PACKET_WORDS}I", *case[:PACKET_WORDS])
    packet = NpuCommandPacket.unpack(raw[:64])
    count = extension_count(packet.opcode, packet.flags)
    extension = unpack_extension([raw[64 * i : 64 * (i + 1)] for i in range(1, count + 1)])
    _PROGRAMS.loaded, base, size, high = case[PACKET_WORDS:]
    guard = Region("protected", high << 32 | base, size) if size else None
    try:
        command = check_command(packet, extension, _PROGRAMS, guard, memory=memory)
    except PacketFault as fault:
        high, low = divmod(fault.address, 1 << 32)
        return {ERROR: fault.code, ADDRESS_LOW: low, ADDRESS_HIGH: high}
    answer = {ERROR: 0, ADDRESS_LOW: 0, ADDRESS_HIGH: 0}
    if packet.opcode in (Opcode.NOP, Opcode.SYNC):
        return answer
    _operands(command, answer)
    if packet.opcode == Opcode.VECTOR:
        _vector(command, answer)
    elif packet.opcode == Opcode.MEMCPY:
        assert command.dst is not None
        for place, operand in ((0, command.sources[0]), (DST_OPERAND, command.dst)):
            _copied(answer, place, operand, command.batch)
        answer |= {BATCH0: command.batch[0], BATCH1: command.batch[1]}
    elif packet.opcode == Opcode.ADD_TENSOR:
        assert command.dst is not None
        answer[COLS] = command.dst.row_bytes // 4
        for place in (0, 1, DST_OPERAND):
            answer[operand_word(place, LENGTH)] = answer[operand_word(place, SEG_LEN)] = answer[COLS]
            answer[operand_word(place, GRANULES)] = -(-answer[COLS] // GRANULE)
    elif packet.opcode == Opcode.LOAD_PROGRAM:
        answer |= {ENTRY: packet.k, operand_word(0, SEG_BYTES): 8 * packet.m}
    elif packet.opcode == Opcode.GATHER:
        answer |= {
            COLS: packet.k,
            operand_word(DST_OPERAND, SEGS): packet.m,
            operand_word(0, SEG_BYTES): packet.n,
        }
    elif packet.opcode == Opcode.MATMUL:
        answer |= {
            K: packet.k,
            HALVES: 2 if packet.flags & Flags.HALF_B else 0,
            BATCH0: command.batch[0],
            BATCH1: command.batch[1],
        }
        turned = _is_turned(command)
        answer |= {TURNED: turned, M: 1 if turned else packet.m, N: packet.m if turned else packet.n}
        if packet.blocks:
            answer[BLOCKS] = packet.blocks
        # The matrix engine walks a product's batches itself.
        del answer[BATCH0], answer[BATCH1]
    else:
        raise NotImplementedError(f"what the engine gets for {packet.opcode!r}")
    return answer


def _is_turned(command: CheckedCommand) -> bool:
    """Whether the engine computes the transpose of a product: dense columns, and nothing but the product."""
    packet, right, dst = command.packet, command.sources[1], command.dst
    assert dst is not None
    if packet.n != 1 or packet.m == 1 or packet.blocks or packet.flags & VECTOR_OPERAND_FLAGS:
        return False
    dense = bool(packet.flags & Flags.TRANS_B) or right.row_stride == right.row_bytes
    return dense and dst.row_stride == dst.row_bytes


def operand_word(operand: int, word: int) -> int:
    """Return the place of a word of an operand in an answer."""
    return HEAD_WORDS + operand * OPERAND_WORDS + word


def _operands(command: CheckedCommand, answer: dict[int, int]) -> None:
    """Return the operands that exist, from their first to their last byte."""
    places: dict[int, MemoryOperand] = {}
    sources = list(command.sources)
    if command.vector is not None:
        places = {i: sources.pop(0) for i, stream in enumerate(command.vector.sources) if stream is not None}
    elif command.packet.opcode == Opcode.MATMUL:
        places = {0: sources[0], 1: sources[1]}
        if command.column_vectors is not None:
            places[2] = command.column_vectors
        if command.row_scales is not None:
            places[3] = command.row_scales
    else:
        places = dict(enumerate(sources))
    if command.dst is not None:
        places[DST_OPERAND] = command.dst
    for i in range(OPERANDS):
        answer[operand_word(i, USED)] = int(i in places)
    for i, operand in places.items():
        batch = (1, 1) if operand in (command.column_vectors, command.row_scales) else command.batch
        answer |= _places(i, {FIRST: operand.address, LAST: operand.address + operand.extent(batch) - 1})


def _places(operand: int, addresses: Mapping[int, int]) -> dict[int, int]:
    """Return both words of each address."""
    found = {}
    for word, address in addresses.items():
        high, low = divmod(address, 1 << 32)
        found |= {operand_word(operand, word): low, operand_word(operand, HIGH[word]): high}
    return found


def _vector(command: CheckedCommand, answer: dict[int, int]) -> None:
    vector = command.vector
    assert vector is not None
    answer |= {ROWS: vector.rows, COLS: vector.cols, REPEATS: vector.repeats, ENTRY: vector.entry}
    answer |= {BATCH0: vector.batch[0], BATCH1: vector.batch[1], TABLE_ROWS: vector.table_rows}
    for i, stream in enumerate((*vector.sources, vector.output)):
        if stream is not None:
            _stream(answer, i, stream)


def _stream(answer: dict[int, int], place: int, stream: Descriptor) -> None:
    words = {
        ROW_STRIDE: stream.row_stride,
        STRIDE0: stream.batch_strides[0],
        STRIDE1: stream.batch_strides[1],
        SEG_STRIDE: stream.seg_stride,
        SEG_BYTES: stream.segment_bytes,
        SEG_LEN: stream.seg_len,
        SEGS: stream.segs,
        LENGTH: stream.length,
        SEGMENTS: stream.segments,
        GRANULES: stream.segments * -(-stream.length // GRANULE),
    }
    answer |= {operand_word(place, word): value for word, value in words.items()}
    answer |= _places(place, {ADDR: stream.address})


def _copied(answer: dict[int, int], place: int, operand: MemoryOperand, batch: tuple[int, int]) -> None:
    words = {
        SEG_BYTES: operand.row_bytes,
        SEGS: operand.rows,
        SEG_STRIDE: operand.row_stride if operand.rows > 1 else 0,
        STRIDE0: operand.batch_strides[0] if batch[0] > 1 else 0,
        STRIDE1: operand.batch_strides[1] if batch[1] > 1 else 0,
    }
    answer |= {operand_word(place, word): value for word, value in words.items()}
    answer |= _places(place, {ADDR: operand.address})
