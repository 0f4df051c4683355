"""Commands of the vector engine that the device must refuse, and running programs that break a rule."""

import dataclasses
import struct
from collections.abc import Callable

import numpy as np
from cocotb.triggers import Timer

from echo_npu.commands.builders import gather_packets, load_program_packets
from echo_npu.commands.checked import PacketFault
from echo_npu.commands.checks import check_command
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import Flags, NpuCommandPacket, Opcode, Packet, packet_bytes
from echo_npu.commands.vector_command import Descriptor, VectorCommand, VectorExtension
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.spec.contract import MAX_EXTENSION_WAIT
from echo_npu.spec.status import ErrorCode, State
from echo_npu.vector.isa import ACCUMULATING, OPERAND_CODES, OPERAND_NAMES, Instruction, Op
from tb.drivers.commands import Path
from tb.drivers.registers import CLOCK_NS
from tb.testbench import NpuTestbench, npu_test
from tests.commands.outcomes import fail, give_up, refused, spoil
from tests.commands.packets import REGISTER_WINDOW, RESERVED, UNMAPPED, A, W
from tests.commands.programs import encoded

CODE = OPERAND_CODES

ENTRY = 8
ADDED = [
    Instruction(Op.CHUNKS),
    Instruction(Op.ADD, CODE["o"], CODE["s0"], CODE["s1"]),
    Instruction(Op.NEXT, imm=3),
    Instruction(Op.END),
]
NUMBERED = [
    Instruction(Op.CHUNKS),
    Instruction(Op.MOV, CODE["o"], CODE["iota"]),
    Instruction(Op.NEXT),
    Instruction(Op.END),
]
"""A program that reads no input."""

FILLER = [Instruction(Op.END)] * ENTRY  # in the words before it

ROWS, COLS = 3, 40
INPUT = Descriptor(W, COLS, row_stride=4 * COLS)
OUTPUT = Descriptor(A, COLS, row_stride=4 * COLS, passes=0)
LEGAL = VectorCommand(
    ENTRY, ROWS, COLS, (INPUT, dataclasses.replace(INPUT, address=W + 4096), None, None), OUTPUT
)

Words = list[int]
Change = Callable[[Words], None]

# Words of a command and its extensions, in one list of 64.
FLAGS, SRC1, SRC2, DST, M, K, N, LAST = 1, 2, 4, 6, 8, 10, 12, 15
MAGIC1, ENTRY_WORD, BATCH0, BATCH1, S2, S3, RESERVED_WORD = 16, 17, 18, 19, 20, 21, 29
ROW, STEP0, STEP1, SEGMENT, SEG_LEN, LAST_WORD = range(6)
OUT = 4


def descriptor(stream: int, word: int) -> int:
    """Return the place of a word of a stream's descriptor."""
    place = 6 * stream + word
    return 33 + place if place < 15 else 49 + place - 15


def put(*changes: tuple[int, int]) -> Change:
    """Set words."""

    def change(words: Words) -> None:
        for place, value in changes:
            words[place] = value

    return change


def wide(place: int, value: int) -> Change:
    """Set two words to a 64-bit value."""
    return put((place, value & 0xFFFF_FFFF), (place + 1, value >> 32 & 0xFFFF_FFFF))


def stream(number: int, **fields: object) -> Change:
    """Replace fields of a stream; this enables s2 and s3."""

    def change(words: Words) -> None:
        old = OUTPUT if number == OUT else dataclasses.replace(INPUT, address=W + 4096 * number)
        new = dataclasses.replace(old, **fields)  # type: ignore[arg-type]
        place = (SRC1, SRC2, S2, S3, DST)[number]
        words[place] = new.address & 0xFFFF_FFFF
        if number in (0, 1, OUT):
            words[place + 1] = new.address >> 32
        for word, value in enumerate(new.words()):
            words[descriptor(number, word)] = value

    return change


def both(*changes: Change) -> Change:
    """One change after another."""

    def change(words: Words) -> None:
        for each in changes:
            each(words)

    return change


def flip(number: int, mask: int) -> Change:
    """Flip bits of the last word of a stream's descriptor."""

    def change(words: Words) -> None:
        words[descriptor(number, LAST_WORD)] ^= mask

    return change


def command_words(command: VectorCommand) -> Words:
    """Return the 64 words of a command."""
    return list(struct.unpack("<64I", b"".join(packet_bytes(packet) for packet in command.packets())))


def slots(words: Words) -> list[Packet]:
    """Return the packets of 64 words."""
    return [struct.pack("<16I", *words[first : first + 16]) for first in range(0, 64, 16)]


PACK, BCAST, ENABLE = 1 << 26, 1 << 27, 1 << 28
MINUS_ONE = (1 << 64) - 1

CASES: dict[ErrorCode, dict[str, Change]] = {
    ErrorCode.BAD_FLAGS: {
        "use alpha": put((FLAGS, Flags.EXT | Flags.USE_ALPHA)),
        "transpose": put((FLAGS, Flags.EXT | Flags.TRANS_A)),
        "word 7": put((LAST, 1)),
    },
    ErrorCode.BAD_EXTENSION: {
        **{f"magic {i}": put((16 * (i + 1), 0x31584557)) for i in range(3)},
        **{f"magics {i} twice": put((32 + 16 * i, 0x31584556)) for i in range(2)},
        **{f"reserved {i}": put((RESERVED_WORD + i, 1 << (9 * i))) for i in range(3)},
        "batch0": put((BATCH0, 65536)),
        "batch1": put((BATCH1, 1 << 31)),
        **{
            f"{name} of stream {number}": stream(number, **fields)
            for number in range(5)
            for name, fields in {
                "segs 0": {"segs": 0},
                "seg_len 0": {"seg_len": 0},
                "size of a row": {"segs": 1 << 10, "seg_len": 1 << 20},
                "short of a row's size": {"segs": 1 << 19, "seg_len": 1 << 13, "size": 1},
                "odd row stride": {"row_stride": 4 * COLS + 2},
                "odd row stride of halves": {"row_stride": 4 * COLS + 1, "size": 2},
                "odd segment stride": {"segs": 2, "seg_stride": 4 * COLS + 1, "row_stride": 800},
            }.items()
        },
        **{
            f"{name} of input {number}": change
            for number in range(4)
            for name, change in {
                "no pass": stream(number, passes=0),
                "bcast of segments": stream(number, bcast=True, segs=2, seg_len=1),
                "bcast of a row": stream(number, bcast=True),
                "packed bcast": stream(number, bcast=True, pack=True, seg_len=1),
            }.items()
        },
        **{
            f"bit {bit} of stream {number}": both(stream(number), flip(number, 1 << bit))
            for number in range(5)
            for bit in (29, 30, 31)
        },
        **{f"size 3 of stream {number}": both(stream(number), flip(number, 3 << 24)) for number in range(5)},
        "output not enabled": flip(OUT, ENABLE),
        "passes of the output": flip(OUT, 1 << 20),
        "bcast output": stream(OUT, bcast=True, seg_len=1),
        "output rows in one place": stream(OUT, row_stride=0),
        "output batches in one place": put((BATCH0, 2)),
        "outer output batches in one place": both(put((BATCH1, 2)), put((descriptor(OUT, STEP0), 4096))),
        "output segments overlap": stream(OUT, segs=2, seg_stride=4 * COLS - 4, row_stride=1024),
        "output segments in one place": stream(OUT, segs=2, row_stride=1024),
        "odd batch stride": both(
            put((BATCH0, 2), (descriptor(OUT, STEP0), 4096), (descriptor(1, STEP0), 4095))
        ),
        "odd outer batch stride": both(
            put((BATCH1, 2), (descriptor(OUT, STEP1), 4096), (descriptor(0, STEP1), 2))
        ),
    },
    ErrorCode.BAD_DIMENSION: {
        "m 0": wide(M, 0),
        "m -1": wide(M, MINUS_ONE),
        "m 2**24+1": wide(M, (1 << 24) + 1),
        "m 2**32": wide(M, 1 << 32),
        "k -1": wide(K, MINUS_ONE),
        "k 2**24+1": wide(K, (1 << 24) + 1),
        "k 2**40": wide(K, 1 << 40),
        "n 0": wide(N, 0),
        "n 2**32": wide(N, 1 << 32),
        "n -1": wide(N, MINUS_ONE),
    },
    ErrorCode.BAD_PROGRAM: {
        "entry behind the last word": put((ENTRY_WORD, ENTRY + len(ADDED))),
        "entry 2**31": put((ENTRY_WORD, 1 << 31)),
        "entry 2**32-1": put((ENTRY_WORD, (1 << 32) - 1)),
    },
    ErrorCode.MISALIGNED: {
        **{f"stream {i}": stream(i, address=W + 0x8002) for i in range(4)},
        **{f"halves of stream {i}": stream(i, address=W + 0x8001, size=2) for i in range(4)},
        "output": stream(OUT, address=A + 1),
        "output halves": stream(OUT, address=A + 1, size=2),
        "s0 before s1": both(stream(0, address=W + 1), stream(1, address=W + 2)),
    },
    ErrorCode.OUT_OF_RANGE: {
        **{f"reserved {i}": stream(i, address=RESERVED) for i in range(5)},
        **{f"unmapped {i}": stream(i, address=UNMAPPED) for i in range(5)},
        **{f"above 4 GiB {i}": stream(i, address=(1 << 32) + A) for i in (0, 1, OUT)},
        **{f"end of weights {i}": stream(i, address=0x1000_0000 - 12 * COLS + 4) for i in range(5)},
        **{f"end of memory {i}": stream(i, address=0x2000_0000 - 12 * COLS + 4) for i in range(5)},
        **{f"row stride leaves {i}": stream(i, row_stride=0x0800_0000) for i in range(5)},
        **{f"segments leave {i}": stream(i, segs=4, seg_stride=0x0FFF_FFFC) for i in range(5)},
        "batches leave": put((BATCH0, 65535), (descriptor(OUT, STEP0), 0xFFFF_FFFC)),
        "outer batches leave": put(
            (BATCH1, 65535), (descriptor(OUT, STEP1), 512), (descriptor(0, STEP1), 0xFFFF_FFFC)
        ),
        "everything leaves": put(
            (M, 1 << 24),
            (BATCH0, 65535),
            (BATCH1, 65535),
            *((descriptor(i, word), 0xFFFF_FFFC) for i in (0, 1, OUT) for word in range(4)),
        ),
    },
    ErrorCode.REGISTER_WINDOW: {
        **{f"stream {i}": stream(i, address=REGISTER_WINDOW) for i in range(5)},
        "s1 before a bad output": both(stream(1, address=REGISTER_WINDOW), stream(OUT, address=UNMAPPED)),
    },
    ErrorCode.OVERLAP: {
        **{f"shifted {i}": stream(i, address=A + 4) for i in range(4)},
        **{f"last word {i}": stream(i, address=A + 12 * COLS - 4) for i in range(4)},
        **{f"behind {i}": stream(i, address=A - 12 * COLS + 4) for i in range(4)},
        "in place, another stride": stream(0, address=A, row_stride=4 * COLS + 4),
        "in place, the same row": stream(1, address=A, row_stride=0),
        "in place, another length": stream(1, address=A, seg_len=COLS - 1),
        "in place, another size": stream(0, address=A, size=2),
        "in place, two passes": stream(0, address=A, passes=2),
        "in place, segments": both(
            stream(0, address=A, seg_len=20, segs=2, seg_stride=80),
            stream(OUT, seg_len=20, segs=2, seg_stride=80),
        ),
        "in place, batches": both(
            stream(0, address=A),
            put((BATCH0, 2), (descriptor(0, STEP0), 4096), (descriptor(OUT, STEP0), 4096)),
        ),
        "in place, outer batches": both(
            put((BATCH1, 2)),
            stream(0, address=A, batch_strides=(0, 8192)),
            stream(OUT, batch_strides=(0, 4096)),
        ),
        "in place, outer batches one like the other": both(
            put((BATCH1, 2)),
            stream(0, address=A, batch_strides=(0, 4096)),
            stream(OUT, batch_strides=(0, 4096)),
        ),
        "in place, rows overlap": both(stream(0, address=A, row_stride=80), stream(OUT, row_stride=80)),
        "in place, another stream shifted": both(stream(0, address=A), stream(3, address=A + 4)),
    },
}

ACCEPTED: dict[str, Change] = {
    "streams that are not there": put(
        (S2, UNMAPPED), (S3, 3), *((descriptor(i, word), 0xEFFF_FFFF) for i in (2, 3) for word in range(6))
    ),
    "strides that are never stepped": put(
        (M, 1), *((descriptor(i, word), 0xFFFF_FFFF) for i in (0, 1, OUT) for word in range(4))
    ),
    "counts of 0": put((K, 0), (BATCH0, 0), (BATCH1, 0)),
    "the largest batch": put((M, 1), (BATCH0, 300), (descriptor(OUT, STEP0), 4 * COLS)),
    "in place": stream(0, address=A),
    "both in place": both(stream(0, address=A), stream(1, address=A)),
    "in place, one row": both(wide(M, 1), stream(0, address=A, row_stride=3), stream(OUT, row_stride=0)),
    "neighbours": both(stream(0, address=A - 12 * COLS), stream(1, address=A + 12 * COLS)),
    "end of a region": stream(0, address=0x1000_0000 - 12 * COLS),
    "passes to spare": stream(1, passes=15),
    "a longer row than is read": stream(0, seg_len=COLS + 8, row_stride=4 * COLS + 64),
    "alpha": put((14, 0x7FC0_0001)),
    "the interrupt": put((FLAGS, Flags.EXT | Flags.IRQ)),
}


async def load(tb: NpuTestbench, instructions: list[Instruction | int], at: int) -> None:
    """Load instructions, or illegal words, into program memory."""
    code = tb.place(encoded(instructions), "weight", align=0x10000, offset=0x8000)
    assert await tb.run(load_program_packets(code, len(instructions), at)) == State.DONE


async def prepare(tb: NpuTestbench) -> None:
    """Fill the operands, and load a program that adds two streams."""
    for start in (W, A):
        tb.memory.write(start - 512, tb.floats(0x3000 // 4))
    await load(tb, [*FILLER, *ADDED], 0)


@npu_test(code=list(CASES), via=["window", "ring"])
async def test_bad_commands(tb: NpuTestbench, code: ErrorCode, via: Path) -> None:
    """Every case gives the right code. Commands before it are done, those after it are not; the device
    recovers."""
    await prepare(tb)
    good = slots(command_words(LEGAL))
    for name, change in CASES[code].items():
        words = command_words(LEGAL)
        change(words)
        await refused(tb, [*good, *slots(words), *good], code, via=via, name=name)
    assert await tb.run(good, via) == State.DONE


@npu_test(via=["window", "ring"])
async def test_accepted_commands(tb: NpuTestbench, via: Path) -> None:
    """Commands at the limits of the rules are accepted."""
    await prepare(tb)
    for name, change in ACCEPTED.items():
        words = command_words(LEGAL)
        change(words)
        assert await tb.run(slots(words), via) == State.DONE, f"{name}: {await tb.state()}"


@npu_test(via=["window", "ring"])
async def test_what_is_not_enabled_is_ignored(tb: NpuTestbench, via: Path) -> None:
    """Address and descriptor of a stream whose bit `enable` is clear may hold anything."""
    await prepare(tb)
    await load(tb, NUMBERED, ENTRY)
    anything = (0, 0xFFFF_FFFF, 0xAAAA_AAAA, 0x5555_5555, tb.random.getrandbits(32))
    for streams in ((0,), (1,), (2,), (3,), range(4)):
        for value in (*anything, *anything[::-1]):
            words = command_words(LEGAL)
            for number in streams:
                words[(SRC1, SRC2, S2, S3)[number]] = value
                if number < 2:
                    words[(SRC1, SRC2)[number] + 1] = value
                for word in range(6):
                    words[descriptor(number, word)] = value
                words[descriptor(number, LAST_WORD)] = tb.random.choice(anything) & ~ENABLE
            assert await tb.run(slots(words), via) == State.DONE, f"{value:#x}: {await tb.state()}"


@npu_test()
async def test_missing_extension(tb: NpuTestbench) -> None:
    """The EXT flag is not set: the error takes no extension from the queue."""
    await prepare(tb)
    words = command_words(LEGAL)
    words[FLAGS] = 0
    await refused(tb, [slots(words)[0], NpuCommandPacket(Opcode.NOP)], ErrorCode.BAD_EXTENSION)
    await tb.probe()


@npu_test(present=[1, 2, 3])
async def test_extension_never_comes(tb: NpuTestbench, present: int) -> None:
    """One of the announced extensions is not submitted, which becomes an error."""
    await prepare(tb)
    await tb.commands.submit(slots(command_words(LEGAL))[:present])
    assert await tb.commands.wait(MAX_EXTENSION_WAIT + 2_000) == State.ERROR
    assert (await tb.state()).error_code == ErrorCode.BAD_EXTENSION
    tb.monitor.sync()
    tb.scoreboard.expect_no_extension()
    tb.scoreboard.check(tb.memory.shared, await tb.state())
    await tb.commands.clear_error()
    assert await tb.run(slots(command_words(LEGAL))) == State.DONE


@npu_test()
async def test_each_extension_has_its_own_time(tb: NpuTestbench) -> None:
    """Each comes at the last moment: all three together take far longer than the device waits for one."""
    await prepare(tb)
    head, *extensions = slots(command_words(LEGAL))
    await tb.commands.submit([head], "window")
    for extension in extensions:
        await Timer((MAX_EXTENSION_WAIT - 500) * CLOCK_NS, "ns")
        await tb.commands.submit([extension], "window")
    assert await tb.check() == State.DONE


# ---- programs --------------------------------------------------------------------------------------


def body(*instructions: Instruction | int) -> list[Instruction | int]:
    return [*instructions, Instruction(Op.END)]


UNKNOWN_OPERANDS = [code for code in range(64) if code not in OPERAND_NAMES]
NOT_WRITTEN = [
    name for name, code in CODE.items() if name[0] in "sp" or name in ("imm", "iota", "row", "cols")
]
MOVE = Instruction(Op.MOV, CODE["o"], CODE["s0"])
CHUNKS, REPEAT, NEXT = Instruction(Op.CHUNKS), Instruction(Op.REPEAT), Instruction(Op.NEXT)
TO_W0 = Instruction(Op.MOV, CODE["w0"], CODE["s0"])

# The program, and the number of the instruction at which it fails.
PROGRAMS: dict[str, tuple[list[Instruction | int], int]] = {
    **{f"opcode 0x{op:02x}": (body(MOVE, op), 1) for op in range(128) if op not in set(Op)},
    **{
        f"operand {code} as {field}": (
            body(
                Instruction(
                    Op.FMA,
                    **{"dst": CODE["v0"], "a": CODE["v1"], "b": CODE["v2"], "c": CODE["v3"], field: code},
                )
            ),
            0,
        )
        for code in [*UNKNOWN_OPERANDS, CODE["o"], CODE["a0"], CODE["a3"]]
        for field in (("dst", "a", "b", "c") if code in UNKNOWN_OPERANDS else ("a", "b", "c"))
    },
    **{
        f"{name} as dst": (body(MOVE, Instruction(Op.MOV, CODE[name], CODE["r0"])), 1) for name in NOT_WRITTEN
    },
    **{
        f"{op.mnemonic} into an accumulator": (body(Instruction(op, CODE["a1"], CODE["v0"], CODE["v0"])), 0)
        for op in Op
        if op <= Op.ICMPLT and op not in ACCUMULATING
    },
    **{
        f"aset of {name}": (body(Instruction(Op.ASET, CODE["a0"], CODE[name])), 0)
        for name in ("v0", "s0", "w1", "iota", "a0", "o")
    },
    "aset into v0": (body(Instruction(Op.ASET, CODE["v0"], CODE["r0"])), 0),
    "aset into r0": (body(Instruction(Op.ASET, CODE["r0"], CODE["r0"])), 0),
    **{
        f"foldmax into {name}": (body(Instruction(Op.FOLDMAX, CODE[name], CODE["a0"])), 0)
        for name in ("v0", "a0", "w0", "o", "s0")
    },
    **{
        f"foldiadd of {name}": (body(Instruction(Op.FOLDIADD, CODE["r0"], CODE[name])), 0)
        for name in ("v0", "r0", "imm", "s0")
    },
    **{
        f"swap of {name}": (body(Instruction(Op.SWAP, CODE["v0"], CODE[name])), 0)
        for name in ("r0", "imm", "iota", "p0", "row")
    },
    "next without a loop": (body(MOVE, NEXT), 1),
    "next behind a loop": (body(REPEAT, NEXT, NEXT), 2),
    "chunks in chunks": (body(CHUNKS, CHUNKS, MOVE, NEXT, NEXT), 1),
    "repeat in repeat": (body(REPEAT, REPEAT, NEXT, NEXT, MOVE), 1),
    "three loops": (body(REPEAT, CHUNKS, REPEAT, NEXT, NEXT, NEXT), 2),
    "end in chunks": (body(CHUNKS, MOVE), 2),
    "end in repeat": (body(MOVE, REPEAT), 2),
    "s2 is not there": (body(Instruction(Op.ADD, CODE["v0"], CODE["s0"], CODE["s2"])), 0),
    "s3 is not there": (body(MOVE, Instruction(Op.ADD, CODE["a0"], CODE["s3"])), 1),
    "the pass is used up": (body(CHUNKS, Instruction(Op.NEXT, imm=1), MOVE), 2),
    "s1's pass is used up": (
        body(*[Instruction(Op.ADVANCE, imm=2)] * 3, Instruction(Op.ADD, CODE["v0"], CODE["s1"], CODE["s0"])),
        3,
    ),
    "nothing written": (body(Instruction(Op.MOV, CODE["v0"], CODE["s0"])), 1),
    "one element written": (body(Instruction(Op.MOV, CODE["o"], CODE["s0"], one=True)), 1),
    "written twice": (body(MOVE, MOVE), 1),
    "one element more": (body(MOVE, Instruction(Op.MOV, CODE["o"], CODE["r0"], one=True)), 1),
    "a write from element 1 on": (body(Instruction(Op.MOV, CODE["o"], CODE["r0"], one=True), MOVE), 1),
    "a second element": (body(*[Instruction(Op.MOV, CODE["o"], CODE["r0"], one=True)] * 2), 1),
}


@npu_test(via=["window", "ring"])
async def test_bad_programs(tb: NpuTestbench, via: Path) -> None:
    """A broken rule of a running program is BAD_PROGRAM with the instruction's number; the device recovers.

    A row is one chunk here, except where it must be longer.
    """
    await prepare(tb)
    cols = min(30, tb.config.vector_length - 2)
    short = [dataclasses.replace(each, seg_len=cols) for each in (INPUT, OUTPUT)]
    command = dataclasses.replace(LEGAL, cols=cols, inputs=(short[0], short[0], None, None), output=short[1])
    places: dict[str, int] = {}
    words: list[Instruction | int] = []
    for name, (program, _) in PROGRAMS.items():
        places[name] = ENTRY + len(ADDED) + len(words)
        words += program
    await load(tb, words, ENTRY + len(ADDED))
    good = slots(command_words(LEGAL))
    for name, (_, number) in PROGRAMS.items():
        bad = dataclasses.replace(command, entry=places[name]).packets()
        place = places[name] + number
        await refused(tb, [*good, *bad, *good], ErrorCode.BAD_PROGRAM, place, via=via, name=name)
    assert await tb.run(good, via) == State.DONE


@npu_test()
async def test_bad_programs_of_long_rows(tb: NpuTestbench) -> None:
    """Rules that only a row of several chunks can break, and the end of the loaded part."""
    await prepare(tb)
    limit, vlen = tb.config.row_elements, tb.config.vector_length
    programs = [
        (
            limit + 1,
            body(CHUNKS, TO_W0, Instruction(Op.MOV, CODE["o"], CODE["w0"]), Instruction(Op.NEXT, imm=1)),
            1,
        ),
        (limit + 1, body(CHUNKS, Instruction(Op.ADD, CODE["v0"], CODE["s0"], CODE["w1"]), NEXT), 1),
        (limit + 40, body(CHUNKS, Instruction(Op.MOV, CODE["w0"], CODE["r0"], one=True), NEXT, MOVE), 1),
        (2 * vlen, body(CHUNKS, MOVE, MOVE, Instruction(Op.NEXT, imm=1)), 1),
        (vlen + 3, body(CHUNKS, Instruction(Op.MOV, CODE["o"], CODE["iota"], one=True), NEXT), 1),
        (vlen + 3, [CHUNKS, MOVE, Instruction(Op.NEXT, imm=1)], 3),
    ]
    place = ENTRY + len(ADDED)
    for cols, program, number in programs:
        # Whatever is behind the last one is not loaded.
        await load(tb, program, place)
        source = tb.place(tb.floats(cols))
        command = dataclasses.replace(
            LEGAL,
            entry=place,
            cols=cols,
            inputs=(Descriptor(source, cols), None, None, None),
            output=Descriptor(tb.destination(12 * cols), cols, row_stride=4 * cols, passes=0),
        )
        await refused(tb, command.packets(), ErrorCode.BAD_PROGRAM, place + number, name=program)
        place += len(program)


# ---- the other commands ----------------------------------------------------------------------------


def gather(**fields: int) -> NpuCommandPacket:
    """Return a legal gather with fields of the packet replaced."""
    (packet,) = gather_packets(W, W + 4096, A, 4, 24, 10)
    assert isinstance(packet, NpuCommandPacket)
    named = {"m": packet.m, "k": packet.k, "n": packet.n}
    addresses = {name: getattr(packet, name) for name in ("src1_addr", "src2_addr", "dst_addr")}
    return NpuCommandPacket(Opcode.GATHER, 0, **{**named, **addresses, **fields})


def load_packet(**fields: int) -> NpuCommandPacket:
    """Return a legal load of program words with fields of the packet replaced."""
    return NpuCommandPacket(Opcode.LOAD_PROGRAM, 0, **{"src1_addr": W, "m": 4, "k": 0, **fields})


Bad = Callable[[int], NpuCommandPacket] | NpuCommandPacket
"""A packet, or what makes one from the number of words of program memory."""

OTHERS: dict[ErrorCode, dict[str, Bad]] = {
    ErrorCode.BAD_DIMENSION: {
        "no rows": gather(m=0),
        "rows -1": gather(m=-1),
        "rows 2**24+1": gather(m=(1 << 24) + 1),
        "no table": gather(k=0),
        "table 2**31+1": gather(k=(1 << 31) + 1),
        "table -1": gather(k=-1),
        "no bytes": gather(n=0),
        "bytes 2**31+1": gather(n=(1 << 31) + 1),
        "bytes 2**40": gather(n=1 << 40),
        "no words": load_packet(m=0),
        "words -1": load_packet(m=-1),
        "more words than there are": lambda size: load_packet(m=size + 1),
        "beyond the end": lambda size: load_packet(k=size - 3),
        "far beyond": load_packet(k=1 << 40),
        "place -1": load_packet(k=-1),
        "wraps": load_packet(k=(1 << 63) - 1),
    },
    ErrorCode.MISALIGNED: {
        "indices": gather(src2_addr=W + 4098),
        **{f"words {i}": load_packet(src1_addr=W + i) for i in (1, 2, 4)},
    },
    ErrorCode.OUT_OF_RANGE: {
        "table": gather(src1_addr=UNMAPPED),
        "end of the table": gather(src1_addr=0x1000_0000 - 239),
        "table too large": gather(k=1 << 31, n=1 << 31),
        "indices": gather(src2_addr=0x2000_0000 - 12),
        "rows": gather(dst_addr=0x2000_0000 - 95),
        "reserved rows": gather(dst_addr=RESERVED),
        "words": load_packet(src1_addr=UNMAPPED),
        "end of the words": load_packet(src1_addr=0x2000_0000 - 24),
    },
    ErrorCode.REGISTER_WINDOW: {
        "table": gather(src1_addr=REGISTER_WINDOW),
        "indices": gather(src2_addr=REGISTER_WINDOW),
        "rows": gather(dst_addr=REGISTER_WINDOW),
        "words": load_packet(src1_addr=REGISTER_WINDOW),
    },
    ErrorCode.OVERLAP: {
        "table": gather(dst_addr=W + 239),
        "the whole table": gather(dst_addr=W),
        "indices": gather(dst_addr=W + 4096 + 15),
    },
}


@npu_test(code=list(OTHERS), via=["window", "ring"])
async def test_bad_gathers_and_loads(tb: NpuTestbench, code: ErrorCode, via: Path) -> None:
    """Every rule of GATHER and LOAD_PROGRAM."""
    tb.memory.write(W, np.zeros(0x2000, np.uint8))
    for name, made in OTHERS[code].items():
        packet = made if isinstance(made, NpuCommandPacket) else made(tb.config.program_words)
        await refused(tb, [gather(), packet, gather()], code, via=via, name=name)
    assert await tb.run([gather()], via) == State.DONE


# ---- memory that answers with errors, and resets -------------------------------------------------------

TOTAL = [
    Instruction(Op.CHUNKS),
    Instruction(Op.ADD, CODE["v0"], CODE["s0"], CODE["s1"]),
    Instruction(Op.FMA, CODE["v0"], CODE["s2"], CODE["s3"], CODE["v0"]),
    Instruction(Op.MOV, CODE["o"], CODE["v0"]),
    Instruction(Op.NEXT, imm=15),
    Instruction(Op.END),
]


class LongCommand:
    """A long command, its packets, and (first address, bytes) of what it reads and writes."""

    def __init__(self, tb: NpuTestbench, name: str) -> None:
        self.reads: list[tuple[int, int]] = []
        self.dst: tuple[int, int] | None = None
        self._tb = tb
        if name == "vector":
            rows, cols = 7, 2 * tb.config.vector_length + 5
            inputs = [Descriptor(self._source(4 * rows * cols), cols, row_stride=4 * cols) for _ in range(4)]
            output = Descriptor(self._room(4 * rows * cols), cols, row_stride=4 * cols, passes=0)
            command = VectorCommand(0, rows, cols, (inputs[0], inputs[1], inputs[2], inputs[3]), output)
            self.packets = command.packets()
        elif name == "gather":
            count, row_bytes, height = 300, 40, 300
            table, indices = self._source(height * row_bytes), self._source(4 * count)
            tb.memory.write(indices, tb.rng.permutation(height).astype(np.int32))
            dst = self._room(count * row_bytes)
            self.packets = list(gather_packets(table, indices, dst, count, row_bytes, height))
        else:
            count = min(2000, tb.config.program_words - 100)
            code = tb.place(np.full(count, Instruction(Op.END).encode(), dtype=np.uint64), "weight")
            self.reads.append((code, 8 * count))
            self.packets = list(load_program_packets(code, count, 100))

    def _source(self, nbytes: int) -> int:
        place = self._tb.place(self._tb.floats(nbytes // 4), "weight")
        self.reads.append((place, nbytes))
        return place

    def _room(self, nbytes: int) -> int:
        place = self._tb.destination(nbytes)
        self.dst = (place, nbytes)
        return place


@npu_test(via=["window", "ring"], name=["vector", "gather", "load"])
async def test_bus_errors(tb: NpuTestbench, via: Path, name: str) -> None:
    """An error response to any operand, at its beginning, middle or end; a later run of the same works."""
    size = tb.config.program_words
    await load(tb, [*TOTAL, *[Instruction(Op.END)] * (size - len(TOTAL))], 0)
    operation = LongCommand(tb, name)
    hits = [(ErrorCode.READ_RESPONSE, *each) for each in operation.reads]
    if operation.dst is not None:
        hits.append((ErrorCode.WRITE_RESPONSE, *operation.dst))
    for code, start, nbytes in hits:
        for at in (0, nbytes // 8 * 4, nbytes - 4):
            tb.dram.clear_statistics()
            read = code == ErrorCode.READ_RESPONSE
            tb.dram.add_fault(start + at, start + at + 4, read=read, write=not read, count=1)
            nop = NpuCommandPacket(Opcode.NOP)
            await fail(tb, [nop, *operation.packets, nop], code, via, 1)
    assert await tb.run(operation.packets, via) == State.DONE


@npu_test(first=["matmul", "vector"], broken=["matmul", "vector"])
async def test_errors_side_by_side(tb: NpuTestbench, first: str, broken: str) -> None:
    """One of two commands at work meets a bus error: the earlier one is done, the later one is not."""
    await load(tb, [*TOTAL], 0)
    size = 40
    a, b = tb.place(tb.floats(size, size)), tb.place(tb.floats(size, size), "weight")
    product = tb.destination(4 * size * size)
    operation = LongCommand(tb, "vector")
    commands: dict[str, list[Packet]] = {
        "matmul": list(matmul_packets(a, b, product, size, size, size)),
        "vector": operation.packets,
    }
    second = "vector" if first == "matmul" else "matmul"
    source, nbytes = (b, 4 * size * size) if broken == "matmul" else operation.reads[3]
    for at in (0, nbytes // 8 * 4, nbytes - 4):
        for via in ("window", "ring"):
            spoil(tb, source + at)
            packets = [*commands[first], *commands[second]]
            await fail(tb, packets, ErrorCode.READ_RESPONSE, via, int(broken == second))
    assert await tb.run([*commands[first], *commands[second]]) == State.DONE


@npu_test(name=["vector", "gather", "load"])
async def test_soft_reset_in_the_middle(tb: NpuTestbench, name: str) -> None:
    """A soft reset while the engine is at work leaves no bus traffic and no state behind."""
    size = tb.config.program_words
    await load(tb, [*TOTAL, *[Instruction(Op.END)] * (size - len(TOTAL))], 0)
    for wait in (10, 60, 150, 400, 900):
        operation = LongCommand(tb, name)
        await tb.commands.submit([*operation.packets, *operation.packets])
        await Timer(wait * CLOCK_NS, "ns")
        await give_up(tb, operation.dst or (0, 0))
        await tb.probe()
        assert await tb.run(LongCommand(tb, name).packets) == State.DONE
        await load(tb, [*TOTAL], 0)


@npu_test()
async def test_soft_reset_while_results_leave(tb: NpuTestbench) -> None:
    """After a soft reset at any clock of a stream of results, none of them reaches the next command."""
    count = 400
    a, b = tb.place(tb.floats(count)), tb.place(tb.floats(count), "weight")
    for wait in range(16):
        dst = tb.destination(4 * count)
        await tb.commands.submit(
            [NpuCommandPacket(Opcode.ADD_TENSOR, 0, a, b, dst, m=count, alpha=1.0)], "window"
        )
        await Timer((150 + wait) * CLOCK_NS, "ns")
        await give_up(tb, (dst, 4 * count))
        dst = tb.destination(4 * 21)
        packet = NpuCommandPacket(Opcode.ADD_TENSOR, 0, b, a, dst, m=21, alpha=2.0)
        assert await tb.run([packet]) == State.DONE


# ---- anything ----------------------------------------------------------------------------------------


def _work(words: Words, programs: ProgramMemory) -> int:
    """Estimate how many elements the device would process; 0 for a command that it refuses."""
    raw = [packet_bytes(packet) for packet in slots(words)]
    try:
        command = check_command(NpuCommandPacket.unpack(raw[0]), VectorExtension.unpack(raw[1:]), programs)
    except PacketFault:
        return 0
    vector = command.vector
    if vector is None:
        return 1 << 40  # another opcode
    longest = max(each.segs * each.seg_len for each in (*vector.inputs, vector.output) if each is not None)
    return vector.rows * vector.batch[0] * vector.batch[1] * (vector.cols * vector.repeats + longest)


@npu_test()
async def test_nearly_right_commands(tb: NpuTestbench) -> None:
    """Legal commands with one or two wrong words: each ends as the functional model says."""
    await prepare(tb)
    loaded = ProgramMemory(tb.config.program_words)
    loaded.load(0, encoded([*FILLER, *ADDED]))
    pick = tb.random
    for _ in range(600):
        words = command_words(LEGAL)
        if pick.random() < 0.5:
            stream(pick.choice((2, 3)))(words)
        for _ in range(pick.choice((1, 1, 2))):
            place = pick.randrange(1, 64)
            words[place] = pick.choice(
                (0, 1, words[place] ^ (1 << pick.randrange(32)), 0xFFFF_FFFF, 1 << 31, pick.getrandbits(32))
            )
        if words[FLAGS] & Flags.EXT and _work(words, loaded) > 30_000:
            continue
        packets = slots(words) if words[FLAGS] & Flags.EXT else slots(words)[:1]
        if await tb.run(packets, pick.choice(("window", "ring"))) == State.ERROR:
            await tb.commands.clear_error()
    await tb.probe()
