"""VECTOR commands: the four packets, and arguments that no command can have."""

import struct

import numpy as np
import pytest

from echo_npu.commands.checks import check_command
from echo_npu.commands.packets import Flags, NpuCommandPacket, Opcode, packet_bytes
from echo_npu.commands.vector_command import Stream, VectorExtension, vector_command
from echo_npu.model.program_memory import ProgramMemory
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
