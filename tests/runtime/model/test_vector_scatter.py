"""Scatters of the model: rows in order, in blocks of any size, bad indices, addresses."""

import random

import numpy as np
import pytest

from echo_npu.commands.vector_command import RowIndices, Stream, VectorCommand, vector_command
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.model.vector_engine import VectorModel
from echo_npu.model.vector_scatter import first_bad_index, row_addresses
from echo_npu.vector.kernels import cast as kernels

COLS, HEIGHT = 40, 7
SOURCE, LIST, TABLE = 0x1_0000, 0x8000, 0x4_0000
PROGRAM = kernels.cast("float32", "float16")


def scatter(rows: int, batch: tuple[int, int], *, wide: bool, apart: int) -> VectorCommand:
    """Return a command whose batches have tables `apart` bytes from one another."""
    size = 8 if wide else 4
    return vector_command(
        0,
        rows=rows,
        cols=COLS,
        inputs=[
            Stream(
                SOURCE,
                row_stride=4 * COLS,
                batch_strides=(4 * COLS * rows, 4 * COLS * rows * batch[0]),
            )
        ],
        output=Stream(TABLE, row_stride=2 * COLS + 4, batch_strides=(apart, apart * batch[0]), size=2),
        batch=batch,
        passes=PROGRAM.passes,
        indices=RowIndices(LIST, HEIGHT, wide, batch_strides=(size * rows, size * rows * batch[0])),
    )


def filled(seed: int, command: VectorCommand) -> np.ndarray:
    """Return memory with random rows and indices; a table of noise."""
    rng = np.random.default_rng(seed)
    memory = rng.integers(0, 256, 1 << 19, np.uint8)
    count = command.rows * command.batch[0] * command.batch[1]
    memory[SOURCE : SOURCE + 4 * COLS * count] = rng.standard_normal(COLS * count, np.float32).view(np.uint8)
    assert command.indices is not None
    kind = np.int64 if command.indices.seg_len == 2 else np.int32
    listed = rng.integers(0, HEIGHT, count).astype(kind)
    memory[LIST : LIST + listed.nbytes] = listed.view(np.uint8)
    return memory


def place(memory: np.ndarray, command: VectorCommand) -> np.ndarray:
    """Return memory after the rows were written one by one."""
    after = memory.copy()
    kind = np.dtype(np.int64 if command.indices and command.indices.seg_len == 2 else np.int32)
    inner, outer = command.batch
    for number in range(outer * inner * command.rows):
        batch, _ = divmod(number, command.rows)
        (index,) = memory[LIST + kind.itemsize * number :][: kind.itemsize].view(kind).tolist()
        row = memory[SOURCE + 4 * COLS * number :][: 4 * COLS].view(np.float32).astype(np.float16)
        strides = command.output.batch_strides
        start = TABLE + batch // inner * strides[1] + batch % inner * strides[0]
        start += index * command.output.row_stride
        after[start : start + row.nbytes] = row.view(np.uint8)
    return after


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("block", [1, 100, 1 << 14])
def test_rows_are_placed_in_order(seed: int, block: int) -> None:
    """Also where batches overlap: the blocks in which the model executes rows change nothing."""
    pick = random.Random(seed)
    batch = pick.choice(((1, 1), (3, 1), (1, 3), (2, 2)))
    command = scatter(pick.randint(1, 30), batch, wide=bool(seed % 2), apart=pick.choice((2, 84, 600)))
    programs = ProgramMemory(64)
    programs.load(0, np.frombuffer(PROGRAM.code, np.uint64))
    memory = filled(seed, command)
    wanted = place(memory, command)
    VectorModel(memory, programs, 32, 512, block_elements=block).execute(command)
    assert np.array_equal(memory, wanted)


@pytest.mark.parametrize("wide", [False, True])
def test_the_first_bad_index(wide: bool) -> None:
    command = scatter(5, (2, 3), wide=wide, apart=600)
    kind = np.dtype(np.int64 if wide else np.int32)
    for number, value in ((29, HEIGHT), (12, -1), (3, -(1 << 31)), *([(2, 1 << 32)] if wide else [])):
        memory = filled(1, command)
        assert first_bad_index(memory, command) is None
        at = LIST + kind.itemsize * number
        memory[at : at + kind.itemsize] = np.array([value], kind).view(np.uint8)
        assert first_bad_index(memory, command) == (number, at)


def test_addresses_of_rows() -> None:
    """Ascending, each once, without those of bad indices."""
    command = scatter(4, (2, 1), wide=False, apart=600)
    memory = filled(1, command)
    memory[LIST : LIST + 32] = np.array([3, 0, 3, -1, 6, HEIGHT, 6, 1], np.int32).view(np.uint8)
    step = command.output.row_stride
    wanted = [TABLE, TABLE + 3 * step, TABLE + 600 + step, TABLE + 600 + 6 * step]
    assert row_addresses(memory, command).tolist() == wanted
