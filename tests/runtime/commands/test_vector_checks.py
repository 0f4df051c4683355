"""The checks of VECTOR, GATHER and LOAD_PROGRAM: each rule, and their order."""

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
import pytest

from echo_npu.commands.packets import Flags, NpuCommandPacket, Opcode
from echo_npu.commands.vector_command import VectorExtension
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.spec.status import ErrorCode
from tests.runtime.commands.test_checks import OK, verdict_on

S0, S1, S2, S3, DST = 0x1000_0000, 0x1010_0000, 0x0000_1000, 0x0010_0000, 0x1020_0000
ROWS, COLS = 3, 8
LOADED = 10
ENABLE, BCAST, PACK = 1 << 28, 1 << 27, 1 << 26
END = 1 << 28  # bytes of a memory region


def last_word(segs: int = 1, passes: int = 1, size: int = 0, flags: int = ENABLE, reserved: int = 0) -> int:
    return segs | passes << 20 | size << 24 | flags | reserved


@dataclasses.dataclass
class SpoiledCommand:
    """A VECTOR command whose words a test changes one after another."""

    flags: int = int(Flags.EXT)
    addresses: list[int] = dataclasses.field(default_factory=lambda: [S0, S1, S2, S3, DST])
    m: int = ROWS
    k: int = 2
    n: int = COLS
    words: list[int] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        descriptors: list[int] = []
        for stream in range(5):
            descriptors += [4 * COLS, 0, 0, 0, COLS, last_word(passes=0 if stream == 4 else 1)]
        head = [0x31584556, 3, 0, 0, 0, 0, *range(7), 0, 0, 0]
        self.words = [*head, 0x32584556, *descriptors[:15], 0x33584556, *descriptors[15:]]

    def put(self, stream: int, word: int, value: int) -> None:
        """Change a word of a stream's descriptor."""
        index = 6 * stream + word
        self.words[17 + index if index < 15 else 33 + index - 15] = value

    def verdict(self, loaded: int = LOADED) -> tuple[ErrorCode, int]:
        words = [*self.words]
        words[4], words[5] = self.addresses[2], self.addresses[3]
        s0, s1, _, _, dst = self.addresses
        packet = NpuCommandPacket(Opcode.VECTOR, self.flags, s0, s1, dst, m=self.m, k=self.k, n=self.n)
        extension = VectorExtension(tuple(words)) if self.flags & Flags.EXT else None
        programs = ProgramMemory(64)
        programs.load(0, np.zeros(loaded, dtype=np.uint64))
        return verdict_on(packet, extension, programs)


Change = Callable[[SpoiledCommand], None]


def word(index: int, value: int) -> Change:
    return lambda case: case.words.__setitem__(index, value)


def descriptor(stream: int, index: int, value: int) -> Change:
    return lambda case: case.put(stream, index, value)


def address(stream: int, value: int) -> Change:
    return lambda case: case.addresses.__setitem__(stream, value)


def attribute(**values: int) -> Change:
    def change(case: SpoiledCommand) -> None:
        for name, value in values.items():
            setattr(case, name, value)

    return change


def both(*changes: Change) -> Change:
    def change(case: SpoiledCommand) -> None:
        for each in changes:
            each(case)

    return change


BAD = ErrorCode.BAD_EXTENSION
RULE1: list[tuple[str, Change]] = [
    *((f"magic {i}", word(16 * i, 0x31584557)) for i in range(3)),
    *((f"reserved word {i}", word(i, 1)) for i in (13, 14, 15)),
    *((f"batch{i}", word(2 + i, 65536)) for i in (0, 1)),
    *((f"no segments, {s}", descriptor(s, 5, last_word(0, 0 if s == 4 else 1))) for s in range(5)),
    *((f"seg_len 0, {s}", descriptor(s, 4, 0)) for s in range(5)),
    *((f"size 3, {s}", descriptor(s, 5, last_word(1, 0 if s == 4 else 1, 3))) for s in range(5)),
    *(
        (f"reserved bit {bit}, {s}", descriptor(s, 5, last_word(1, 0 if s == 4 else 1, reserved=1 << bit)))
        for s in (0, 4)
        for bit in (29, 30, 31)
    ),
    *((f"no passes, {s}", descriptor(s, 5, last_word(passes=0))) for s in range(4)),
    ("passes of the output", descriptor(4, 5, last_word(passes=1))),
    ("output not enabled", descriptor(4, 5, last_word(passes=0, flags=0))),
    ("output bcast", both(descriptor(4, 5, last_word(passes=0, flags=ENABLE | BCAST)), descriptor(4, 4, 1))),
    ("bcast of a row", descriptor(1, 5, last_word(flags=ENABLE | BCAST))),
    ("bcast of segments", both(descriptor(1, 5, last_word(2, flags=ENABLE | BCAST)), descriptor(1, 4, 1))),
    ("bcast with pack", both(descriptor(1, 5, last_word(flags=ENABLE | BCAST | PACK)), descriptor(1, 4, 1))),
    ("row of 2^32 bytes", both(descriptor(2, 5, last_word(1 << 10)), descriptor(2, 4, 1 << 20))),
]

# In the order in which the device checks. Any two can be joined: the earlier one is reported.
STAGES: list[tuple[str, Change, ErrorCode, int]] = [
    ("no extension", attribute(flags=0), BAD, 0),
    ("magic", word(0, 0), BAD, 0),
    ("rows", attribute(m=0), ErrorCode.BAD_DIMENSION, 0),
    ("entry", word(1, LOADED), ErrorCode.BAD_PROGRAM, LOADED),
    ("s0 misaligned", address(0, S0 + 2), ErrorCode.MISALIGNED, S0 + 2),
    ("s3 misaligned", address(3, S3 + 1), ErrorCode.MISALIGNED, S3 + 1),
    ("stride", descriptor(1, 0, 4 * COLS + 2), BAD, 0),
    ("s1 in the registers", address(1, 0x2000_0000), ErrorCode.REGISTER_WINDOW, 0x2000_0000),
    ("s2 out of range", address(2, END - 4), ErrorCode.OUT_OF_RANGE, END - 4),
    ("overlap", address(4, S0 + 4), ErrorCode.OVERLAP, S0 + 4),
]


def test_a_right_command_passes() -> None:
    assert SpoiledCommand().verdict() == OK


RULES = [*STAGES, *((name, change, BAD, 0) for name, change in RULE1)]


@pytest.mark.parametrize(("name", "change", "code", "where"), RULES, ids=[rule[0] for rule in RULES])
def test_rules(name: str, change: Change, code: ErrorCode, where: int) -> None:
    case = SpoiledCommand()
    change(case)
    assert case.verdict() == (code, where)


def test_the_first_rule_is_reported() -> None:
    for (_, first, code, where), (_, second, _, _) in itertools.combinations(STAGES, 2):
        case = SpoiledCommand()
        # The earlier one is applied last, so that it stands where both change the same field.
        second(case)
        first(case)
        assert case.verdict() == (code, where)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (attribute(m=2**24), ErrorCode.OUT_OF_RANGE),
        (attribute(m=2**24 + 1), ErrorCode.BAD_DIMENSION),
        (attribute(m=-1), ErrorCode.BAD_DIMENSION),
        (attribute(k=0), ErrorCode.NONE),
        (attribute(k=2**24), ErrorCode.NONE),
        (attribute(k=2**24 + 1), ErrorCode.BAD_DIMENSION),
        (attribute(k=-1), ErrorCode.BAD_DIMENSION),
        (attribute(n=2**32 - 1), ErrorCode.NONE),
        (attribute(n=2**32), ErrorCode.BAD_DIMENSION),
        (attribute(n=0), ErrorCode.BAD_DIMENSION),
    ],
)
def test_dimensions(change: Change, code: ErrorCode) -> None:
    case = SpoiledCommand()
    change(case)
    assert case.verdict()[0] == code


def test_a_stream_that_is_not_there_is_not_looked_at() -> None:
    case = SpoiledCommand()
    for index in range(5):
        case.put(2, index, 0xFFFFFFFF)
    case.put(2, 5, 0xFFFFFFFF & ~ENABLE)
    case.addresses[2] = 0xFFFFFFFF
    assert case.verdict() == OK


@pytest.mark.parametrize("stream", [0, 4])
@pytest.mark.parametrize("size", [0, 1, 2])
def test_alignment_is_that_of_the_element(stream: int, size: int) -> None:
    element = 4 >> size
    case = SpoiledCommand()
    case.put(stream, 5, last_word(passes=0 if stream == 4 else 1, size=size))
    base = case.addresses[stream]
    for offset in range(1, 4):
        case.addresses[stream] = base + offset
        wrong = offset % element != 0
        assert case.verdict() == ((ErrorCode.MISALIGNED, base + offset) if wrong else OK)


def test_strides_count_where_they_are_stepped() -> None:
    for index, more in ((0, attribute(m=2)), (1, word(2, 2)), (2, word(3, 2)), (3, None)):
        case = SpoiledCommand()
        case.m = 1
        case.put(0, index, 2)  # no multiple of 4
        assert case.verdict() == OK
        if more is not None:
            more(case)
        else:
            case.put(0, 5, last_word(2))
        if index in (1, 2):
            case.put(4, index, 4096)
        assert case.verdict() == (BAD, 0)


def test_the_output_goes_on() -> None:
    for index, more in ((0, attribute(m=2)), (1, word(2, 2)), (2, word(3, 2))):
        case = SpoiledCommand()
        case.m = 1
        case.put(4, 0, 0)
        assert case.verdict() == OK
        more(case)
        case.put(4, 0, 4 * COLS if index else 0)
        assert case.verdict() == (BAD, 0)
    case = SpoiledCommand()
    case.m = 1
    case.put(4, 5, last_word(2, 0))
    for stride, code in ((0, BAD), (4 * COLS - 4, BAD), (4 * COLS, ErrorCode.NONE)):
        case.put(4, 3, stride)
        assert case.verdict()[0] == code


def test_range_is_of_rows_batches_and_segments_together() -> None:
    """The last byte decides: one more of anything is out of range."""
    case = SpoiledCommand()
    case.words[2], case.words[3] = 2, 3
    for index, value in enumerate((64, 0x1000, 0x4000, 256)):
        case.put(1, index, value)
        case.put(4, index, (256, 0x1000, 0x4000, 64)[index])
    case.put(1, 5, last_word(5))
    case.put(4, 5, last_word(4, 0))
    extent = 2 * 64 + 0x1000 + 2 * 0x4000 + 4 * 256 + 4 * COLS
    case.addresses[1] = 2 * END - extent
    assert case.verdict() == OK
    case.addresses[1] += 4
    assert case.verdict() == (ErrorCode.OUT_OF_RANGE, 2 * END - extent + 4)


IN_PLACE: list[tuple[str, Change, bool]] = [
    ("the same", both(), True),
    ("one row", both(attribute(m=1), descriptor(0, 0, 0)), True),
    ("another address", address(4, S0 + 4), False),
    ("two passes", descriptor(0, 5, last_word(passes=2)), False),
    ("batches", both(word(2, 2), descriptor(0, 1, 128), descriptor(4, 1, 128)), False),
    ("another row stride", descriptor(0, 0, 8 * COLS), False),
    ("rows over one another", both(descriptor(0, 0, 16), descriptor(4, 0, 16)), False),
    ("another length", descriptor(0, 4, COLS - 1), False),
    ("another size", descriptor(0, 5, last_word(size=1)), False),
    ("segments", both(descriptor(0, 5, last_word(2)), descriptor(0, 3, 4 * COLS)), False),
    ("pack of one segment", descriptor(0, 5, last_word(flags=ENABLE | PACK)), True),
]


@pytest.mark.parametrize(("name", "change", "legal"), IN_PLACE, ids=[each[0] for each in IN_PLACE])
def test_in_place(name: str, change: Change, legal: bool) -> None:
    case = SpoiledCommand()
    case.addresses[4] = S0
    change(case)
    expected = OK if legal else (ErrorCode.OVERLAP, case.addresses[4])
    assert case.verdict() == expected


def test_any_input_may_overlap_another() -> None:
    case = SpoiledCommand()
    case.addresses[:4] = [S0, S0 + 4, S0, S0 + 8]
    assert case.verdict() == OK


TABLE = 9


def scattering(*changes: Change) -> SpoiledCommand:
    """A command that scatters to a table of TABLE rows without gaps, by int32 indices in s3, with changes."""
    case = SpoiledCommand()
    both(word(15, TABLE), descriptor(3, 0, 4), descriptor(3, 4, 1), *changes)(case)
    return case


STRIDE = 4 * COLS
SCATTERS: list[tuple[str, list[Change], tuple[ErrorCode, int]]] = [
    ("int32", [], OK),
    ("int64", [descriptor(3, 4, 2)], OK),
    ("an index of three words", [descriptor(3, 4, 3)], (BAD, 0)),
    ("no list", [descriptor(3, 5, last_word(flags=0))], (BAD, 0)),
    ("indices of 2 bytes", [descriptor(3, 5, last_word(size=1))], (BAD, 0)),
    ("segments of indices", [descriptor(3, 5, last_word(2)), descriptor(3, 3, 4)], (BAD, 0)),
    ("two passes of the list", [descriptor(3, 5, last_word(passes=2))], (BAD, 0)),
    ("a list with pack", [descriptor(3, 5, last_word(flags=ENABLE | PACK))], (BAD, 0)),
    ("one index for all", [descriptor(3, 5, last_word(flags=ENABLE | BCAST))], (BAD, 0)),
    ("the same index again", [descriptor(3, 0, 0)], OK),
    ("rows of segments", [descriptor(4, 5, last_word(2, 0)), descriptor(4, 3, STRIDE)], (BAD, 0)),
    ("a table out of memory", [word(15, 2**31)], (ErrorCode.OUT_OF_RANGE, DST)),
    ("too high a table", [word(15, 2**31 + 1)], (BAD, 0)),
    ("rows closer than a row", [descriptor(4, 0, STRIDE - 4)], (BAD, 0)),
    ("two rows closer than a row", [word(15, 2), descriptor(4, 0, STRIDE - 4)], (BAD, 0)),
    ("two rows, one of them written", [word(15, 2), descriptor(4, 0, STRIDE - 4), attribute(m=1)], (BAD, 0)),
    ("two rows without a stride", [word(15, 2), descriptor(4, 0, 0), attribute(m=1)], (BAD, 0)),
    ("a table of one row", [word(15, 1), descriptor(4, 0, 2)], OK),
    ("gaps", [descriptor(4, 0, STRIDE + 4)], OK),
    ("half an element of a gap", [descriptor(4, 0, STRIDE + 2)], (BAD, 0)),
    ("the last table that fits", [address(4, 2 * END - TABLE * STRIDE)], OK),
    (
        "one that does not",
        [address(4, 2 * END - TABLE * STRIDE + 4)],
        (ErrorCode.OUT_OF_RANGE, 2 * END - TABLE * STRIDE + 4),
    ),
    ("in place", [address(4, S0)], (ErrorCode.OVERLAP, S0)),
    ("the list in the last row", [address(3, DST + TABLE * STRIDE - 4)], (ErrorCode.OVERLAP, DST)),
    ("the list behind it", [address(3, DST + TABLE * STRIDE)], OK),
]


@pytest.mark.parametrize(("name", "changes", "verdict"), SCATTERS, ids=[each[0] for each in SCATTERS])
def test_scatters(name: str, changes: list[Change], verdict: tuple[ErrorCode, int]) -> None:
    assert scattering(*changes).verdict() == verdict


def linear(
    opcode: Opcode, src1: int = S0, src2: int = S1, dst: int = DST, m: int = 4, k: int = 8, n: int = 6
) -> tuple[ErrorCode, int]:
    packet = NpuCommandPacket(opcode, 0, src1, src2, dst, m=m, k=k, n=n)
    return verdict_on(packet, None, ProgramMemory(64))


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({}, OK),
        ({"src1": S0 + 1, "dst": DST + 3}, OK),
        ({"src2": S1 + 2}, (ErrorCode.MISALIGNED, S1 + 2)),
        ({"m": 0}, (ErrorCode.BAD_DIMENSION, 0)),
        ({"m": 2**24 + 1}, (ErrorCode.BAD_DIMENSION, 0)),
        ({"k": 0}, (ErrorCode.BAD_DIMENSION, 0)),
        ({"k": 2**31 + 1}, (ErrorCode.BAD_DIMENSION, 0)),
        ({"k": 2**31}, (ErrorCode.OUT_OF_RANGE, S0)),
        ({"n": 0}, (ErrorCode.BAD_DIMENSION, 0)),
        ({"n": -1}, (ErrorCode.BAD_DIMENSION, 0)),
        ({"n": 2**31 + 1}, (ErrorCode.BAD_DIMENSION, 0)),
        ({"src1": 2 * END - 48}, OK),
        ({"src1": 2 * END - 47}, (ErrorCode.OUT_OF_RANGE, 2 * END - 47)),
        ({"src2": END - 12}, (ErrorCode.OUT_OF_RANGE, END - 12)),
        ({"dst": 2 * END - 23}, (ErrorCode.OUT_OF_RANGE, 2 * END - 23)),
        ({"dst": 0x2000_0010}, (ErrorCode.REGISTER_WINDOW, 0x2000_0010)),
        ({"dst": S0 + 47}, (ErrorCode.OVERLAP, S0 + 47)),
        ({"dst": S0 + 48}, OK),
        ({"dst": S1 + 15}, (ErrorCode.OVERLAP, S1 + 15)),
        ({"dst": S1 - 24}, OK),
    ],
)
def test_gather(fields: dict[str, int], verdict: tuple[ErrorCode, int]) -> None:
    assert linear(Opcode.GATHER, **fields) == verdict


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"m": 64, "k": 0}, OK),
        ({"m": 1, "k": 63}, OK),
        ({"m": 65, "k": 0}, (ErrorCode.BAD_DIMENSION, 0)),
        ({"m": 1, "k": 64}, (ErrorCode.BAD_DIMENSION, 0)),
        ({"m": 2, "k": -1}, (ErrorCode.BAD_DIMENSION, 0)),
        ({"m": 0, "k": 0}, (ErrorCode.BAD_DIMENSION, 0)),
        ({"m": 2**63 - 1, "k": 2**63 - 1}, (ErrorCode.BAD_DIMENSION, 0)),
        ({"src1": S0 + 4}, (ErrorCode.MISALIGNED, S0 + 4)),
        ({"src1": END - 24}, (ErrorCode.OUT_OF_RANGE, END - 24)),
        ({"src1": 0x2000_0000}, (ErrorCode.REGISTER_WINDOW, 0x2000_0000)),
        ({"src2": 3, "dst": 5, "n": -1}, OK),  # not looked at
    ],
)
def test_load_program(fields: dict[str, int], verdict: tuple[ErrorCode, int]) -> None:
    assert linear(Opcode.LOAD_PROGRAM, **fields) == verdict
