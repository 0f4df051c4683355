"""VECTOR commands: the four packets, and arguments that no command can have."""

import struct
from typing import Any

import numpy as np
import pytest

from echo_npu.commands.checked import CheckedCommand, PacketFault
from echo_npu.commands.checks import check_command
from echo_npu.commands.packets import Flags, NpuCommandPacket, Opcode, packet_bytes
from echo_npu.commands.vector_command import (
    RowIndices,
    Stream,
    VectorCommand,
    VectorExtension,
    vector_command,
)
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.spec.status import ErrorCode
from tb.stimulus.vector_programs import generate
from tests.refusals import Error, Words, refuses

A, B, DST = 0x1000_0000, 0x1010_0000, 0x1020_0000


def test_every_field_has_its_place() -> None:
    command = vector_command(
        7,
        rows=3,
        cols=20,
        inputs=[
            Stream(A, row_stride=80, batch_strides=(240, 480)),
            None,
            Stream(0x40, bcast=True, passes=15),
            Stream(0x82, seg_len=1, segs=20, seg_stride=6, size=2, pack=True),
        ],
        output=Stream(DST, seg_len=10, segs=2, seg_stride=10, row_stride=20, batch_strides=(60, 120), size=1),
        params=[1.0, -1, 0xFFFFFFFF, np.float64(0.5), np.int32(3)],
        repeats=4,
        batch=(2, 5),
        passes=(2, 9, 9, 3),
    )
    main, *extensions = command.packets(irq=True)
    param = (3, 0, 4, 0, 20, 0, 0x3F800000, 0)
    assert main == NpuCommandPacket(
        Opcode.VECTOR, Flags.EXT | Flags.IRQ, A, 0, DST, m=3, k=4, n=20, param=param
    )
    words = [struct.unpack("<16I", packet_bytes(each)) for each in extensions]
    params = (0xFFFFFFFF, 0xFFFFFFFF, 0x3F000000, 3, 0, 0, 0)
    assert words[0] == (0x31584556, 7, 2, 5, 0x40, 0x82, *params, 0, 0, 0)
    enable = 1 << 28
    s0 = (80, 240, 480, 0, 20, 1 | 2 << 20 | enable)
    s2 = (0, 0, 0, 0, 1, 1 | 15 << 20 | 1 << 27 | enable)
    s3 = (0, 0, 0, 6, 1, 20 | 3 << 20 | 1 << 24 | 1 << 26 | enable)
    out = (20, 60, 120, 10, 10, 2 | 2 << 24 | enable)
    listed = (*s0, *(0,) * 6, *s2, *s3, *out)
    assert words[1] == (0x32584556, *listed[:15])
    assert words[2] == (0x33584556, *listed[15:])


@pytest.mark.parametrize(("wide", "words"), [(False, 1), (True, 2)])
def test_fields_of_a_scatter(wide: bool, words: int) -> None:
    """The list of indices is s3; the table's rows are word 15, and its stride counts for one row too."""
    command = vector_command(
        7,
        rows=1,
        cols=20,
        inputs=[Stream(A, row_stride=80)],
        output=Stream(DST, row_stride=96, size=2),
        indices=RowIndices(B, 2**31, wide),
    )
    extensions = [struct.unpack("<16I", packet_bytes(each)) for each in command.packets()[1:]]
    assert (extensions[0][5], extensions[0][15]) == (B, 2**31)
    listed = (*extensions[1][1:], *extensions[2][1:])
    assert listed[18:24] == (0, 0, 0, 0, words, 1 | 1 << 20 | 1 << 28)
    assert listed[24:30] == (96, 0, 0, 0, 20, 1 | 1 << 24 | 1 << 28)
    many = vector_command(
        7, rows=5, cols=20, output=Stream(DST, row_stride=80), indices=RowIndices(B, 9, wide)
    )
    assert many.indices is not None
    assert many.indices.row_stride == 4 * words
    assert many.inputs == (None,) * 4
    assert many.sources == (None, None, None, many.indices)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"indices": RowIndices(B, 0)}, "indices.table_rows"),
        ({"indices": RowIndices(B, 2**31 + 1)}, "indices.table_rows"),
        ({"indices": RowIndices(B + 2, 4)}, "indices.address"),
        ({"indices": RowIndices(B, 4, row_stride=6)}, "indices.row_stride"),
        ({"inputs": [None] * 4}, "there are 3 input streams"),
        ({"output": Stream(DST, 10, 2, row_stride=80, seg_stride=40)}, "one segment"),
        ({"output": Stream(DST, row_stride=76)}, "a row of the table has 80 bytes"),
        ({"output": Stream(DST)}, "row_stride is 0"),
    ],
)
def test_scatters_that_no_command_can_make(fields: dict[str, Any], words: str) -> None:
    whole = {"indices": RowIndices(B, 4), "output": Stream(DST, row_stride=80)} | fields
    with pytest.raises(ValueError, match=words):
        vector_command(7, rows=2, cols=20, **whole)


def programs() -> ProgramMemory:
    memory = ProgramMemory(256)
    memory.load(0, np.zeros(9, np.uint64))
    return memory


def checked(command: VectorCommand) -> CheckedCommand:
    main, *extensions = command.packets()
    assert isinstance(main, NpuCommandPacket)
    return check_command(
        main, VectorExtension.unpack([packet_bytes(each) for each in extensions]), programs()
    )


def test_the_table_is_the_destination() -> None:
    """From its first row to its last one, whatever the indices name; the list is what is read last."""
    command = vector_command(
        7,
        rows=2,
        cols=20,
        inputs=[Stream(A, row_stride=80)],
        output=Stream(DST, row_stride=96, batch_strides=(1024, 0)),
        indices=RowIndices(B, 9),
        batch=(2, 1),
    )
    found = checked(command)
    assert found.vector == command
    assert found.dst is not None
    assert (found.dst.address, found.dst.extent(found.batch)) == (DST, 1024 + 8 * 96 + 80)
    assert [each.address for each in found.sources] == [A, B]
    assert found.sources[1].extent(found.batch) == 8


@pytest.mark.parametrize("at", [DST - 4, DST, DST + 8 * 80 + 76])
def test_nothing_is_scattered_in_place(at: int) -> None:
    whole: dict[str, Any] = {"output": Stream(DST, row_stride=80), "indices": RowIndices(B, 9)}
    for fields in ({"inputs": [Stream(at, row_stride=80)]}, {"indices": RowIndices(at, 9)}):
        command = vector_command(7, rows=2, cols=20, **(whole | fields))
        with pytest.raises(PacketFault) as caught:
            checked(command)
        assert (caught.value.code, caught.value.address) == (ErrorCode.OVERLAP, DST)


@pytest.mark.parametrize("seed", range(40))
def test_packets_are_read_back(seed: int) -> None:
    """Unpacking the packets gives the command."""
    case = generate(seed, vector_length=32, row_elements=512, base=A, entry=9)
    programs = ProgramMemory(256)
    programs.load(9, case.words)
    main, *extensions = case.command.packets()
    assert isinstance(main, NpuCommandPacket)
    extension = VectorExtension.unpack([packet_bytes(each) for each in extensions])
    assert extension.pack() == extensions
    assert check_command(main, extension, programs).vector == case.command


GOOD = {"rows": 2, "cols": 8, "inputs": [Stream(A, row_stride=32)], "output": Stream(DST, row_stride=32)}


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"rows": 0}, ValueError, "rows is 0; it must lie in 1..16777216"),
        ({"rows": 1.0}, TypeError, "rows must be an integer, got 1.0"),
        ({"rows": True}, TypeError, "rows must be an integer"),
        ({"cols": 2**32}, ValueError, "cols is 4294967296"),
        ({"repeats": 0}, ValueError, "repeats is 0"),
        ({"batch": (1, 65536)}, ValueError, r"batch\[1\] is 65536"),
        ({"batch": (1,)}, ValueError, "batch has 1 entries"),
        ({"inputs": [None] * 5}, ValueError, "inputs has 5 entries"),
        ({"inputs": [A]}, TypeError, r"inputs\[0\] must be a Stream or None, got int"),
        ({"output": A}, TypeError, "output must be a Stream, got int"),
        ({"params": [0] * 9}, ValueError, "params has 9 entries"),
        ({"params": [2**32]}, ValueError, "4294967296 does not fit 32 bits"),
        ({"params": ["1"]}, TypeError, "an immediate is a number"),
        ({"inputs": [Stream(A + 2)]}, ValueError, r"inputs\[0\].address is 0x10000002; .* multiple of 4"),
        ({"inputs": [Stream(-4)]}, ValueError, r"inputs\[0\].address is -4"),
        ({"inputs": [Stream(A, row_stride=2)]}, ValueError, r"inputs\[0\].row_stride is 2; .* multiple"),
        ({"inputs": [Stream(A, row_stride=-4)]}, ValueError, r"inputs\[0\].row_stride is -4"),
        ({"inputs": [Stream(A, size=3)]}, ValueError, r"inputs\[0\].size is 3; an element has 4, 2 or 1"),
        ({"inputs": [Stream(A, segs=0)]}, ValueError, r"inputs\[0\].segs is 0"),
        ({"inputs": [Stream(A, seg_len=0)]}, ValueError, r"inputs\[0\].seg_len is 0"),
        ({"inputs": [Stream(A, passes=16)]}, ValueError, r"inputs\[0\].passes is 16"),
        ({"inputs": [Stream(A, bcast=True, segs=2)]}, ValueError, r"inputs\[0\] is bcast"),
        ({"inputs": [Stream(A, seg_len=2**20, segs=2**10)]}, ValueError, "a row of 1024 . 1048576"),
        ({"inputs": [Stream(A, batch_strides=(0,))]}, ValueError, r"inputs\[0\].batch_strides has 1"),
        ({"output": Stream(DST)}, ValueError, "output.row_stride is 0 for 2 steps"),
        (
            {"output": Stream(DST, row_stride=32), "batch": (3, 1)},
            ValueError,
            r"batch_strides\[0\] is 0 for 3",
        ),
        (
            {"output": Stream(DST, row_stride=64, segs=2, seg_stride=28)},
            ValueError,
            "output.seg_stride is 28; a segment has 32 bytes",
        ),
        ({"output": Stream(DST, row_stride=32, passes=1)}, ValueError, "output has neither bcast nor passes"),
        ({"output": Stream(DST, row_stride=32, bcast=True)}, ValueError, "output has neither"),
    ],
)
def test_refused(changes: dict[str, object], error: Error, words: Words) -> None:
    refuses(error, words, vector_command, 0, **{**GOOD, **changes})


def test_strides_that_are_never_stepped_do_not_count() -> None:
    stream = Stream(A, row_stride=3, batch_strides=(5, 7), seg_stride=9)
    command = vector_command(0, rows=1, cols=8, inputs=[stream], output=Stream(DST, row_stride=1))
    assert command.inputs[0] is not None
    assert command.inputs[0].words()[:4] == (0, 0, 0, 0)
    assert command.output.row_stride == 0


def test_extensions_of_another_size() -> None:
    refuses(ValueError, "3 extensions of 64 bytes", VectorExtension.unpack, [bytes(64)] * 2)
    refuses(ValueError, "3 extensions of 64 bytes", VectorExtension.unpack, [bytes(64), bytes(64), bytes(63)])
