"""Which pages a command touches, and copies of pages."""

import itertools

import numpy as np
import pytest

from echo_npu.backends.rtlfarm.pages import PAGE, ZERO, PageTable, digest_of, pages_of, runs_of
from echo_npu.commands.checked import MemoryOperand
from echo_npu.model.memory import DeviceMemory
from echo_sim.numerals import choose_seed


def _every_byte(operand: MemoryOperand, batch: tuple[int, int]) -> set[int]:
    counts = (operand.segments, operand.rows, *batch)
    strides = (operand.segment_stride, operand.row_stride, *operand.batch_strides)
    return {
        operand.address + sum(i * s for i, s in zip(index, strides, strict=True)) + byte
        for index in itertools.product(*map(range, counts))
        for byte in range(operand.row_bytes)
    }


def test_runs_hold_every_byte_and_no_page_without_one() -> None:
    rng = np.random.default_rng(choose_seed())
    for _ in range(60):
        rows, segments, inner, outer = rng.integers(1, 5, 4).tolist()
        strides = rng.choice([0, 8, 64, 3000, PAGE, 3 * PAGE, 20000], 4).tolist()
        nbytes = int(rng.choice([1, 60, 5000]))
        operand = MemoryOperand(
            int(rng.integers(0, 3 * PAGE)),
            rows,
            nbytes,
            strides[0],
            (strides[1], strides[2]),
            segments,
            strides[3],
        )
        wanted = _every_byte(operand, (inner, outer))
        runs = runs_of(operand, (inner, outer))
        held = {byte for start, size in runs.tolist() for byte in range(start, start + size)}
        assert wanted <= held
        assert max(held) == max(wanted)
        gap = len(held - wanted)
        assert gap <= (rows + segments + inner + outer) * 4 * PAGE * len(runs)


def test_far_apart_rows_take_only_their_own_pages() -> None:
    operand = MemoryOperand(100, 4, 8, 10 * PAGE)
    assert pages_of(runs_of(operand, (1, 1))) == [0, 10, 20, 30]
    assert pages_of(runs_of(operand, (1, 1)), 1) == [0, 1, 9, 10, 11, 19, 20, 21, 29, 30, 31]


def test_a_page_is_what_it_was_when_it_was_asked_for() -> None:
    memory = DeviceMemory()
    table = PageTable(memory)
    assert table.at(0) is ZERO
    memory.write(PAGE + 5, np.array([7], np.uint8))
    before = table.at(1)
    assert before.content[5] == 7
    assert table.at(1) is before
    memory.write(PAGE + 5, np.array([8], np.uint8))
    table.changed([1])
    assert table.at(1).content[5] == 8
    assert before.content[5] == 7
    assert table.at(1).digest != before.digest


def test_every_byte_is_in_the_digest() -> None:
    digests = {digest_of(bytes(place) + b"\1" + bytes(PAGE - 1 - place)) for place in (0, 1, 2000, PAGE - 1)}
    assert len(digests | {ZERO.digest, digest_of(bytes(PAGE))}) == 5


@pytest.mark.parametrize("count", [1, 3])
def test_a_run_that_ends_at_a_page_does_not_take_the_next_one(count: int) -> None:
    assert pages_of(np.array([[PAGE, count * PAGE]])) == list(range(1, 1 + count))
