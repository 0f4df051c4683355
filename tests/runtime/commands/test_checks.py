"""Refused commands: each rule alone, each pair of rules in order, and the edges of the address map."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest

from echo_npu.commands.builders import load_program_command, memcpy_command
from echo_npu.commands.checked import PacketFault
from echo_npu.commands.checks import check_command, check_slots
from echo_npu.commands.packets import BLOCKS_SHIFT, ExtensionPacket, Flags, NpuCommandPacket, Opcode
from echo_npu.commands.vector_command import Stream, vector_command
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.spec.data_types import Blocks, DataType
from echo_npu.spec.memory_map import Region
from echo_npu.spec.status import ErrorCode
from tests.refusals import refuses

OK = ErrorCode.NONE, 0


def verdict_on(*command: Any) -> tuple[ErrorCode, int]:
    """Return what `check_command` finds in a command: error code and address; OK if the device accepts it."""
    try:
        check_command(*command)
    except PacketFault as fault:
        return fault.code, fault.address
    return OK


A, B, C = 0x0000_1000, 0x0010_0000, 0x1000_0000
V, R = 0x0020_0000, 0x0030_0000  # column vectors and row scales


@dataclasses.dataclass(frozen=True)
class CommandCase:
    """A command. `reserved_word` is the packet's last parameter, `ext` has the fields of the extension."""

    opcode: int = Opcode.MATMUL
    flags: int = 0
    src1: int = A
    src2: int = B
    dst: int = C
    m: int = 8
    k: int = 8
    n: int = 8
    reserved_word: int = 0
    ext: dict[str, int] = dataclasses.field(default_factory=dict)

    def verdict(self) -> tuple[ErrorCode, int]:
        """Return error code and address; (NONE, 0) if the device accepts it."""
        words = (0, 0, 0, 0, 0, 0, 0, self.reserved_word)
        packet = NpuCommandPacket(
            self.opcode, self.flags, self.src1, self.src2, self.dst, words, m=self.m, k=self.k, n=self.n
        )
        extension = ExtensionPacket(**self.ext) if self.flags & Flags.EXT else None
        return verdict_on(packet, extension)

    def having(self, **fields: int) -> CommandCase:
        """Return the command with other fields, of the packet or else of the extension."""
        own = {name: value for name, value in fields.items() if name in PACKET_FIELDS}
        rest = {name: value for name, value in fields.items() if name not in PACKET_FIELDS}
        return dataclasses.replace(self, **own, ext=self.ext | rest)


PACKET_FIELDS = {field.name for field in dataclasses.fields(CommandCase)}
Stage = tuple[str, dict[str, int], ErrorCode, int]
"""A rule's name, fields that break it, and the error that the device reports."""

# In the order in which the device checks. Two of different fields can be joined.
STAGES: list[Stage] = [
    ("opcode", {"opcode": 0x44}, ErrorCode.BAD_OPCODE, 0),
    ("flags", {"reserved_word": 1}, ErrorCode.BAD_FLAGS, 0),
    ("extension", {"row_scales_high": 1}, ErrorCode.BAD_EXTENSION, 0),
    ("dimension", {"k": 0}, ErrorCode.BAD_DIMENSION, 0),
    ("src1 alignment", {"src1": A + 2}, ErrorCode.MISALIGNED, A + 2),
    ("src2 alignment", {"src2": B + 1}, ErrorCode.MISALIGNED, B + 1),
    ("dst alignment", {"dst": C + 3}, ErrorCode.MISALIGNED, C + 3),
    ("stride", {"src2_row_stride": 4}, ErrorCode.BAD_EXTENSION, 0),
    ("src1 range", {"src1": 0x2000_0000}, ErrorCode.REGISTER_WINDOW, 0x2000_0000),
    ("src2 range", {"src2": 0x3000_0000}, ErrorCode.OUT_OF_RANGE, 0x3000_0000),
    ("dst range", {"dst": 0x1FFF_FFFC}, ErrorCode.OUT_OF_RANGE, 0x1FFF_FFFC),
    ("overlap", {"dst": A + 64}, ErrorCode.OVERLAP, A + 64),
]


@pytest.mark.parametrize("opcode", [7, 8, 0xFE, 0x100, 0x101, 0xFFFF_FFFF, 0x8000_0001])
def test_unknown_opcodes(opcode: int) -> None:
    assert CommandCase(opcode=opcode).verdict() == (ErrorCode.BAD_OPCODE, 0)


@pytest.mark.parametrize("opcode", list(Opcode), ids=lambda opcode: opcode.name)
@pytest.mark.parametrize("bit", range(32))
def test_every_flag_bit_for_every_opcode(opcode: Opcode, bit: int) -> None:
    legal = {
        Opcode.NOP: {30},
        Opcode.SYNC: {30},
        Opcode.ADD_TENSOR: {30},
        Opcode.MEMCPY: {30, 31},
        Opcode.MATMUL: {0, 1, 2, 4, 5, 6, 8, 10, 11, 12, 13, 16, 17, 30, 31},
        Opcode.VECTOR: {30, 31},
        Opcode.GATHER: {30},
        Opcode.LOAD_PROGRAM: {30},
    }[opcode]
    # The next rule that a case with no vector extension and no program memory breaks.
    accepted = {Opcode.VECTOR: ErrorCode.BAD_EXTENSION, Opcode.LOAD_PROGRAM: ErrorCode.BAD_DIMENSION}
    expected = accepted.get(opcode, ErrorCode.NONE) if bit in legal else ErrorCode.BAD_FLAGS
    if opcode == Opcode.MATMUL and 1 << bit in (Flags.ROW_SCALE, Flags.COL_SCALE, Flags.BIAS):
        expected = ErrorCode.BAD_EXTENSION  # which is missing
    if opcode == Opcode.MATMUL and 1 << bit & Flags.BLOCKS:
        expected = ErrorCode.BAD_DIMENSION  # K is no multiple of 32
    assert CommandCase(opcode=opcode, flags=1 << bit).verdict()[0] == expected
    assert CommandCase(opcode=opcode, flags=1 << bit, reserved_word=1).verdict()[0] == ErrorCode.BAD_FLAGS


DTYPES = {dtype: dtype << 4 for dtype in DataType}
OUTS = {0: 0, 1: 1 << 8, 2: 2 << 8, 3: 3 << 8}
STEPS = (Flags.USE_ALPHA, Flags.ROW_SCALE, Flags.COL_SCALE, Flags.BIAS, Flags.RELU)


@pytest.mark.parametrize("dtype", DataType, ids=lambda dtype: dtype.label)
@pytest.mark.parametrize("out", OUTS)
def test_every_pair_of_types_with_every_step(dtype: DataType, out: int) -> None:
    types = DTYPES[dtype] | OUTS[out]
    legal = out in (0, 1) or (out == 2 and dtype == DataType.INT8)
    expected = ErrorCode.NONE if legal else ErrorCode.BAD_FLAGS
    assert CommandCase(flags=types).verdict() == (expected, 0)
    for count in range(1, len(STEPS) + 1):
        for steps in itertools.combinations(STEPS, count):
            flags = types | sum(steps)
            legal_steps = ErrorCode.NONE if out in (0, 1) else ErrorCode.BAD_FLAGS
            vectors = any(step in (Flags.ROW_SCALE, Flags.COL_SCALE, Flags.BIAS) for step in steps)
            bare = ErrorCode.BAD_EXTENSION if vectors and not legal_steps else legal_steps
            assert CommandCase(flags=flags).verdict() == (bare, 0)
            columns = Flags.COL_SCALE in steps or Flags.BIAS in steps
            ext = {"column_vectors": V if columns else 0, "row_scales": R if Flags.ROW_SCALE in steps else 0}
            assert CommandCase(flags=flags | Flags.EXT, ext=ext).verdict() == (legal_steps, 0)


# Everything that a MATMUL can read and write, of two bytes each element but the vectors.
FULL_FLAGS = (
    Flags.EXT | DTYPES[DataType.FP16] | OUTS[1] | Flags.ROW_SCALE | Flags.COL_SCALE | Flags.BIAS | Flags.RELU
)
FULL_STAGES: list[Stage] = [
    ("flags", {"flags": FULL_FLAGS | 3 << 8}, ErrorCode.BAD_FLAGS, 0),
    ("extension", {"row_scales_high": 1}, ErrorCode.BAD_EXTENSION, 0),
    ("dimension", {"n": 0}, ErrorCode.BAD_DIMENSION, 0),
    ("src1 alignment", {"src1": A + 1}, ErrorCode.MISALIGNED, A + 1),
    ("src2 alignment", {"src2": B + 1}, ErrorCode.MISALIGNED, B + 1),
    ("columns alignment", {"column_vectors": V + 2}, ErrorCode.MISALIGNED, V + 2),
    ("rows alignment", {"row_scales": R + 1}, ErrorCode.MISALIGNED, R + 1),
    ("dst alignment", {"dst": C + 1}, ErrorCode.MISALIGNED, C + 1),
    ("stride", {"src1_row_stride": 17}, ErrorCode.BAD_EXTENSION, 0),
    ("src1 range", {"src1": 0x2000_0000}, ErrorCode.REGISTER_WINDOW, 0x2000_0000),
    ("src2 range", {"src2": 0x3000_0000}, ErrorCode.OUT_OF_RANGE, 0x3000_0000),
    ("columns range", {"column_vectors": 0x0FFF_FFE0}, ErrorCode.OUT_OF_RANGE, 0x0FFF_FFE0),
    ("rows range", {"row_scales": 0x2000_0040}, ErrorCode.REGISTER_WINDOW, 0x2000_0040),
    ("dst range", {"dst": 0x1FFF_FFFE}, ErrorCode.OUT_OF_RANGE, 0x1FFF_FFFE),
    ("overlap", {"dst": R + 2}, ErrorCode.OVERLAP, R + 2),
]
FULL = CommandCase(flags=FULL_FLAGS, ext={"column_vectors": V, "row_scales": R})
RULES = {"plain": (CommandCase(flags=Flags.EXT), STAGES), "full": (FULL, FULL_STAGES)}
EACH = [
    pytest.param(base, *stage[1:], id=f"{product}: {stage[0]}")
    for product, (base, stages) in RULES.items()
    for stage in stages
]


@pytest.mark.parametrize(("base", "change", "code", "address"), EACH)
def test_each_rule_alone(base: CommandCase, change: dict[str, int], code: ErrorCode, address: int) -> None:
    assert base.verdict() == OK
    assert base.having(**change).verdict() == (code, address)


@pytest.mark.parametrize(("base", "stages"), RULES.values(), ids=RULES)
def test_of_two_faults_the_earlier_rule_is_reported(base: CommandCase, stages: list[Stage]) -> None:
    # One field cannot have both faults.
    pairs = [(a, b) for a, b in itertools.combinations(stages, 2) if not a[1].keys() & b[1].keys()]
    assert len(pairs) > 50
    for first, second in pairs:
        verdict = base.having(**first[1], **second[1]).verdict()
        assert verdict == first[2:], f"{first[0]} before {second[0]}"


@pytest.mark.parametrize(
    ("dtype", "out"), [*itertools.product(DataType, (0, 1)), (DataType.INT8, 2)], ids=str
)
def test_alignment_and_strides_follow_the_types(dtype: DataType, out: int) -> None:
    size = {"src1": dtype.itemsize, "src2": dtype.itemsize, "dst": dtype.itemsize if out == 1 else 4}
    base = CommandCase(flags=DTYPES[dtype] | OUTS[out] | Flags.EXT)
    for name, address in (("src1", A), ("src2", B), ("dst", C)):
        for offset in range(1, 5):
            wrong = offset % size[name]
            expected = (ErrorCode.MISALIGNED, address + offset) if wrong else OK
            assert base.having(**{name: address + offset}).verdict() == expected
            stride = 8 * size[name] + offset
            code = ErrorCode.BAD_EXTENSION if wrong else ErrorCode.NONE
            for field in (f"{name}_row_stride", f"{name}_batch0_stride", f"{name}_batch1_stride"):
                assert base.having(**{field: stride}).verdict() == (code, 0)
        short = base.having(**{f"{name}_row_stride": 7 * size[name]})
        assert short.verdict() == (ErrorCode.BAD_EXTENSION, 0)


BLOCKS = {each: each << BLOCKS_SHIFT for each in Blocks if each}
each_format = pytest.mark.parametrize("blocks", BLOCKS, ids=lambda blocks: blocks.label)


def test_float16_beside_float32() -> None:
    base = CommandCase(flags=Flags.HALF_B)
    assert base.verdict() == OK
    for flags in (*list(DTYPES.values())[1:], *BLOCKS.values()):
        assert CommandCase(flags=Flags.HALF_B | flags, k=32).verdict() == (ErrorCode.BAD_FLAGS, 0)
    for flags in (Flags.TRANS_A, Flags.TRANS_B, Flags.USE_ALPHA, Flags.RELU, OUTS[1]):
        assert CommandCase(flags=Flags.HALF_B | flags).verdict() == OK


@each_format
def test_flags_beside_weights_in_blocks(blocks: Blocks) -> None:
    for dtype in (DataType.FP32, DataType.FP16):
        assert CommandCase(flags=BLOCKS[blocks] | DTYPES[dtype], k=32).verdict() == OK
    others = (DTYPES[DataType.BF16], DTYPES[DataType.INT8])
    for flags in (*others, *list(OUTS.values())[1:], Flags.TRANS_A, Flags.TRANS_B):
        assert CommandCase(flags=BLOCKS[blocks] | flags, k=32).verdict() == (ErrorCode.BAD_FLAGS, 0)
    for flags in (Flags.USE_ALPHA, Flags.RELU, Flags.IRQ):
        assert CommandCase(flags=BLOCKS[blocks] | flags, k=32).verdict() == OK
    for k in (1, 16, 31, 33, 48, 63):
        assert CommandCase(flags=BLOCKS[blocks], k=k).verdict() == (ErrorCode.BAD_DIMENSION, 0)
    packet = NpuCommandPacket(Opcode.MATMUL, BLOCKS[blocks], A, B, C, m=1, k=32, n=1)
    refuses(PacketFault, "BAD_FLAGS", check_command, packet, blocks=False)


@each_format
def test_tiles_have_their_places(blocks: Blocks) -> None:
    """Alignment, strides and the extent of packed weights, in whole tiles of 16 by 64."""
    full = CommandCase(flags=BLOCKS[blocks] | Flags.EXT, m=2, k=96, n=17)
    row = 2 * blocks.tile_bytes
    for offset in range(0, 65, 4):
        wrong = offset % 64
        expected = (ErrorCode.MISALIGNED, B + offset) if wrong else OK
        assert full.having(src2=B + offset).verdict() == expected
        code = ErrorCode.BAD_EXTENSION if wrong else ErrorCode.NONE
        for field, least in (("src2_row_stride", row), ("src2_batch0_stride", 0), ("src2_batch1_stride", 0)):
            assert full.having(**{field: least + offset}).verdict() == (code, 0)
        assert full.having(src1=A + offset, src1_batch0_stride=offset).verdict() == OK
    assert full.having(src2_row_stride=row - 64).verdict() == (ErrorCode.BAD_EXTENSION, 0)
    end = 0x1000_0000
    for stride, last in ((0, end - 2 * row), (3 * row, end - 4 * row)):
        assert full.having(src2=last, src2_row_stride=stride).verdict() == OK
        behind = full.having(src2=last + 64, src2_row_stride=stride)
        assert behind.verdict() == (ErrorCode.OUT_OF_RANGE, last + 64)
    # dst may touch either end of the tiles.
    size = 2 * 17 * 4
    for dst, code in (
        (B + 2 * row, 0),
        (B + 2 * row - 4, ErrorCode.OVERLAP),
        (B - size, 0),
        (B - size + 4, 7),
    ):
        assert full.having(dst=dst).verdict() == (code, dst if code else 0)


@pytest.mark.parametrize("dtype", DataType, ids=lambda dtype: dtype.label)
def test_extents_follow_the_types(dtype: DataType) -> None:
    """The last element of each operand may be the last of its region, but not one byte beyond."""
    end, operand = 0x1000_0000, 64 * dtype.itemsize
    base = CommandCase(flags=DTYPES[dtype] | OUTS[1])
    for name in ("src1", "src2", "dst"):
        last, behind = end - operand, end - operand + dtype.itemsize
        assert base.having(**{name: last}).verdict() == OK
        assert base.having(**{name: behind}).verdict() == (ErrorCode.OUT_OF_RANGE, behind)


@pytest.mark.parametrize(
    ("flags", "columns", "rows"),
    [
        (Flags.COL_SCALE, 32, None),
        (Flags.BIAS, 32, None),
        (Flags.COL_SCALE | Flags.BIAS, 64, None),
        (Flags.ROW_SCALE, None, 20),
    ],
)
def test_extents_of_the_vectors(flags: Flags, columns: int | None, rows: int | None) -> None:
    field, nbytes = ("column_vectors", columns) if columns is not None else ("row_scales", rows)
    assert nbytes is not None
    end = 0x1000_0000
    base = CommandCase(flags=flags | Flags.EXT, m=5)
    for slack, code in ((0, ErrorCode.NONE), (4, ErrorCode.OUT_OF_RANGE)):
        address = end - nbytes + slack
        assert base.having(**{field: address}).verdict() == (code, address if code else 0)
    # dst may touch either end, and nothing more; batches read the vectors again
    for dst, code in ((V + nbytes, 0), (V + nbytes - 4, ErrorCode.OVERLAP), (V - 160, 0), (V - 156, 7)):
        assert base.having(dst=dst, **{field: V}).verdict() == (code, dst if code else 0)
    assert base.having(batch0=9, dst_batch0_stride=160, **{field: V}).verdict() == OK


def test_vectors_may_lie_in_one_another_and_in_the_operands() -> None:
    assert FULL.having(column_vectors=A, row_scales=A + 4).verdict() == OK


def test_vector_addresses_without_their_flags() -> None:
    for flags, ext in (
        (Flags.ROW_SCALE, {"column_vectors": V, "row_scales": R}),
        (Flags.COL_SCALE, {"column_vectors": V, "row_scales": R}),
        (Flags.BIAS | Flags.RELU, {"row_scales": 4}),
        (Flags.RELU, {"column_vectors": 4}),
    ):
        assert CommandCase(flags=flags | Flags.EXT, ext=ext).verdict() == (ErrorCode.BAD_EXTENSION, 0)


def test_nop_and_sync_ignore_everything_else() -> None:
    for opcode in (Opcode.NOP, Opcode.SYNC):
        assert (
            CommandCase(opcode=opcode, src1=3, src2=1 << 63, dst=0x2000_0000, m=-1, k=-5, n=0).verdict() == OK
        )


@pytest.mark.parametrize("name", ["m", "k", "n"])
@pytest.mark.parametrize("value", [0, -1, -(2**63), 2**24 + 1, 2**32, 2**63 - 1])
def test_matmul_dimensions(name: str, value: int) -> None:
    assert CommandCase().having(**{name: value}).verdict() == (ErrorCode.BAD_DIMENSION, 0)


@pytest.mark.parametrize("opcode", [Opcode.MEMCPY, Opcode.ADD_TENSOR])
@pytest.mark.parametrize(
    ("dims", "code"),
    [
        ((1, 0, 0), ErrorCode.NONE),
        ((3, 5, 0), ErrorCode.NONE),
        ((3, 0, 7), ErrorCode.NONE),
        ((3, 5, 7), ErrorCode.NONE),
        ((0, 5, 7), ErrorCode.BAD_DIMENSION),
        ((-1, 1, 1), ErrorCode.BAD_DIMENSION),
        ((1, -1, 1), ErrorCode.BAD_DIMENSION),
        ((1, 1, -(2**63)), ErrorCode.BAD_DIMENSION),
        ((2**32, 1, 1), ErrorCode.BAD_DIMENSION),
        ((1, 2**40, 1), ErrorCode.BAD_DIMENSION),
        ((2**16, 2**16, 1), ErrorCode.BAD_DIMENSION),
        ((2**31, 2**31, 4), ErrorCode.BAD_DIMENSION),
        ((2**16, 2**16 - 1, 1), ErrorCode.OUT_OF_RANGE),
        ((2**32 - 1, 1, 1), ErrorCode.OUT_OF_RANGE),
    ],
)
def test_linear_dimensions(opcode: Opcode, dims: tuple[int, int, int], code: ErrorCode) -> None:
    m, k, n = dims
    assert CommandCase(opcode=opcode, m=m, k=k, n=n).verdict()[0] == code


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_alignment(offset: int) -> None:
    for opcode in (Opcode.MATMUL, Opcode.ADD_TENSOR):
        for name, address in (("src1", A), ("src2", B), ("dst", C)):
            case = CommandCase(opcode=opcode, m=4, k=4, n=4).having(**{name: address + offset})
            assert case.verdict() == (ErrorCode.MISALIGNED, address + offset)
    assert CommandCase(opcode=Opcode.MEMCPY, src1=A + offset, dst=C + 3 - offset).verdict() == OK


@pytest.mark.parametrize(
    ("src", "nbytes", "code"),
    [
        (0, 1, ErrorCode.NONE),
        (0, 0x1000_0000, ErrorCode.NONE),
        (0, 0x1000_0001, ErrorCode.OUT_OF_RANGE),
        (0x0FFF_FFFF, 1, ErrorCode.NONE),
        (0x0FFF_FFFF, 2, ErrorCode.OUT_OF_RANGE),
        (0x1FFF_FFFF, 1, ErrorCode.NONE),
        (0x1FFF_FFFF, 2, ErrorCode.OUT_OF_RANGE),
        (0x2000_0000, 1, ErrorCode.REGISTER_WINDOW),
        (0x2000_FFFF, 1, ErrorCode.REGISTER_WINDOW),
        (0x2001_0000, 1, ErrorCode.OUT_OF_RANGE),
        (0x3FFF_FFFF, 1, ErrorCode.OUT_OF_RANGE),
        (0x4000_0000, 1, ErrorCode.OUT_OF_RANGE),
        (0x1_0000_0000, 1, ErrorCode.OUT_OF_RANGE),
        (0x1_2000_0000, 1, ErrorCode.OUT_OF_RANGE),
        (0xFFFF_FFFF_FFFF_FFFF, 1, ErrorCode.OUT_OF_RANGE),
        (0xFFFF_FFFF_FFFF_FFFF, 2, ErrorCode.OUT_OF_RANGE),
    ],
)
def test_the_edges_of_the_address_map(src: int, nbytes: int, code: ErrorCode) -> None:
    dst = 0x1000_0000 if src < 0x1000_0000 else 0
    case = CommandCase(opcode=Opcode.MEMCPY, src1=src, dst=dst, m=nbytes, k=0, n=0)
    assert case.verdict() == (code, src if code else 0)
    # A destination is judged like a source. A MEMCPY has no src2. The source is judged first.
    swapped = case.having(src1=dst, src2=0x2000_0000, dst=src)
    longer = nbytes > 0x1000_0000  # than a region: the other operand does not fit either
    assert swapped.verdict() == (code, (dst if longer else src) if code else 0)


def test_strides_and_batches_count_towards_the_range() -> None:
    region_end = 0x1000_0000
    base = CommandCase(flags=Flags.EXT, src1=region_end - 4096, m=8, k=8, n=8)
    for ext, extent in (
        ({"src1_row_stride": 64}, 7 * 64 + 32),
        ({"batch0": 3, "src1_batch0_stride": 512, "dst_batch0_stride": 512}, 2 * 512 + 256),
        ({"batch1": 4, "src1_batch1_stride": 1024, "dst_batch1_stride": 512}, 3 * 1024 + 256),
        (
            {"batch0": 2, "batch1": 2, "src1_batch0_stride": 256, "src1_batch1_stride": 1000,
             "dst_batch0_stride": 256, "dst_batch1_stride": 512, "src1_row_stride": 40},
            256 + 1000 + 7 * 40 + 32,
        ),
    ):  # fmt: skip
        for slack, code in ((0, ErrorCode.NONE), (-4, ErrorCode.OUT_OF_RANGE)):
            assert base.having(src1=region_end - extent - slack, **ext).verdict()[0] == code


@pytest.mark.parametrize(
    "ext",
    [
        {"magic": 0},
        {"magic": 0x31545844},
        {"column_vectors": 1},
        {"row_scales": 1 << 31},
        {"row_scales_high": 64},
        {"batch0": 65536},
        {"batch1": 0xFFFF_FFFF},
        {"rows": 1},
        {"src1_row_stride": 28},
        {"src1_row_stride": 34},
        {"dst_row_stride": 4},
        {"src2_batch0_stride": 2},
        {"dst_batch1_stride": 1},
        {"batch0": 2},
        {"batch1": 2, "dst_batch0_stride": 4096},
    ],
    ids=str,
)
def test_bad_extensions_of_matmul(ext: dict) -> None:
    assert CommandCase(flags=Flags.EXT, ext=ext).verdict() == (ErrorCode.BAD_EXTENSION, 0)


@pytest.mark.parametrize(
    ("ext", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"rows": 1 << 24}, ErrorCode.OUT_OF_RANGE),
        ({"rows": (1 << 24) + 1}, ErrorCode.BAD_EXTENSION),
        ({"src2_row_stride": 1}, ErrorCode.BAD_EXTENSION),
        ({"src2_batch0_stride": 1}, ErrorCode.BAD_EXTENSION),
        ({"src2_batch1_stride": 1}, ErrorCode.BAD_EXTENSION),
        ({"rows": 2, "dst_row_stride": 511}, ErrorCode.BAD_EXTENSION),
        ({"rows": 1, "dst_row_stride": 511}, ErrorCode.NONE),
        ({"rows": 2, "dst_row_stride": 512, "src1_row_stride": 1}, ErrorCode.NONE),
        ({"batch0": 2}, ErrorCode.BAD_EXTENSION),
        ({"batch0": 2, "dst_batch0_stride": 1}, ErrorCode.NONE),
        ({"column_vectors": 64}, ErrorCode.BAD_EXTENSION),
        ({"row_scales": 64}, ErrorCode.BAD_EXTENSION),
        ({"row_scales_high": 64}, ErrorCode.BAD_EXTENSION),
    ],
    ids=str,
)
def test_extensions_of_memcpy(ext: dict, code: ErrorCode) -> None:
    assert CommandCase(opcode=Opcode.MEMCPY, flags=Flags.EXT, ext=ext).verdict()[0] == code


def test_zero_counts_mean_one() -> None:
    assert CommandCase(flags=Flags.EXT, ext={"batch0": 0, "batch1": 0}).verdict() == OK
    assert CommandCase(opcode=Opcode.MEMCPY, flags=Flags.EXT, ext={"rows": 0}).verdict() == OK


@pytest.mark.parametrize("opcode", [Opcode.MATMUL, Opcode.MEMCPY])
def test_overlap_by_one_element_is_seen_and_touching_is_not(opcode: Opcode) -> None:
    size = 256 if opcode == Opcode.MATMUL else 512
    step = 4 if opcode == Opcode.MATMUL else 1
    for distance, code in (
        (0, ErrorCode.OVERLAP),
        (size - step, ErrorCode.OVERLAP),
        (size, ErrorCode.NONE),
        (step - size, ErrorCode.OVERLAP),
        (-size, ErrorCode.NONE),
    ):
        dst = A + distance
        assert CommandCase(opcode=opcode, dst=dst).verdict() == (code, dst if code else 0)


def test_add_may_work_in_place_but_not_shifted() -> None:
    case = CommandCase(opcode=Opcode.ADD_TENSOR, m=64, k=0, n=0)
    for dst, src2 in ((A, B), (B, B), (A, A)):
        assert case.having(src2=src2, dst=dst).verdict() == OK
    # The last one is in place for one source and shifted against the other.
    for dst, src2 in ((A + 4, B), (B - 4, B), (A, A + 4)):
        assert case.having(src2=src2, dst=dst).verdict() == (ErrorCode.OVERLAP, dst)


def test_a_known_command_is_checked_for_the_device_as_it_is() -> None:
    """A check that was kept counts for the same program memory, protected range and formats only."""
    copy = memcpy_command(A, C, 64).slots
    refused = Region("guard", C, 64)
    small, large = ProgramMemory(16), ProgramMemory(64)
    for _ in range(2):
        assert check_slots(copy, small).dst == check_command(NpuCommandPacket.unpack(copy[0])).dst
        with pytest.raises(PacketFault) as fault:
            check_slots(copy, small, refused)
        assert fault.value.code == ErrorCode.PROTECTED
        load = load_program_command(A, 32, 0).slots
        assert check_slots(load, large).sources
        with pytest.raises(PacketFault) as fault:
            check_slots(load, small)
        assert fault.value.code == ErrorCode.BAD_DIMENSION
    run = vector_command(3, rows=1, cols=4, output=Stream(C)).command().slots
    for loaded, good in ((0, False), (4, True), (3, False), (16, True)):
        small.loaded = loaded
        if good:
            assert check_slots(run, small).vector is not None
        else:
            with pytest.raises(PacketFault) as fault:
                check_slots(run, small)
            assert fault.value.code == ErrorCode.BAD_PROGRAM
    blocks = NpuCommandPacket(Opcode.MATMUL, 1 << BLOCKS_SHIFT, A, B, C, m=8, k=32, n=16).pack()
    for _ in range(2):
        assert check_slots((blocks,), small).sources
        with pytest.raises(PacketFault) as fault:
            check_slots((blocks,), small, blocks=False)
        assert fault.value.code == ErrorCode.BAD_FLAGS
