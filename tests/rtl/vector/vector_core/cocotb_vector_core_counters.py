"""vector_core: its counters and the place in the output, at and around each power of two of their width.

No command that can be simulated counts so far. So a test sets a counter to shortly before its end, or to a
number that differs from the end in one bit alone.
"""

from typing import Any

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge

from echo_npu.vector.assembler import assemble
from tests.rtl.stimulus import pulse, reset

CONFIGURATIONS = [{"Lanes": 2, "VectorLength": 64, "RowElements": 128}]
VECTOR_LENGTH = 64
ROW_BITS = REPEAT_BITS = 25
BATCH_BITS = 16
COLUMN_BITS = 32
PATIENCE = 200
"""Clocks within which a program has its next result."""

ROWS = assemble("mov.one o, row\nend")
INNER = assemble("mov.one o, batch0\nend")
OUTER = assemble("mov.one o, batch1\nend")
REPEATS = assemble("repeat\nmov.one o, rep\nnext\nend")
COLUMNS = assemble("chunks\nmov o, iota\nnext\nend")


class CountingCore:
    """The core with a program and nothing else: no input, an output with room, no rule broken."""

    def __init__(self, dut: Any, program: Any) -> None:
        self.dut, self.words = dut, [int(word) for word in program.words]
        dut.params_i.value = dut.enable_i.value = dut.window_ready_i.value = dut.window_used_up_i.value = 0
        dut.window_words_i.value = dut.entry_i.value = dut.abort_i.value = dut.start_i.value = 0
        dut.out_room_i.value = dut.executable_i.value = 1

    async def clock(self) -> list[int]:
        """Do one clock; return the elements that it has brought."""
        dut = self.dut
        await RisingEdge(dut.clk_i)
        assert not dut.fault_o.value, f"a broken rule at instruction {int(dut.fault_address_o.value)}"
        if dut.fetch_o.value:
            dut.instruction_i.value = self.words[min(int(dut.fetch_address_o.value), len(self.words) - 1)]
        if not dut.out_valid_o.value:
            return []
        word = int(dut.out_word_o.value)
        return [word >> 32 * place & 0xFFFF_FFFF for place in range(int(dut.out_count_o.value))]

    async def start(
        self, *, rows: int = 1, batch: tuple[int, int] = (1, 1), repeats: int = 1, cols: int = 1
    ) -> None:
        """Start a command, up to its first result. A row writes a segment in each repetition."""
        dut = self.dut
        dut.rows_i.value, dut.repeats_i.value, dut.cols_i.value = rows, repeats, cols
        dut.batch0_i.value, dut.batch1_i.value = batch
        dut.out_length_i.value, dut.out_segments_i.value = cols, repeats
        await pulse(dut, "start_i")
        await self.results(1)

    async def jump(self, counter: str, at: int) -> None:
        """Set a counter, and with the repetitions the segment that comes next."""
        core = self.dut.dut
        await FallingEdge(self.dut.clk_i)
        if counter == "rep_q":
            core.out_segment_q.value = at + int(core.out_segment_q.value) - int(core.rep_q.value)
        getattr(core, counter).value = at

    async def jump_to_column(self, column: int, left: int) -> None:
        """Set the first column of the chunk at issue, and the columns from it on."""
        core = self.dut.dut
        await FallingEdge(self.dut.clk_i)
        core.left_q.value, core.base_q.value, core.out_offset_q.value = left, column, column

    async def results(self, count: int) -> list[int]:
        """Return the next elements, at least as many."""
        found: list[int] = []
        for _ in range(PATIENCE + count):
            found += await self.clock()
            if len(found) >= count:
                return found
        raise AssertionError(f"{len(found)} of {count} results")

    async def rest(self) -> list[int]:
        """Return the elements up to the end of the command."""
        found = []
        for _ in range(PATIENCE):
            found += await self.clock()
            if not self.dut.busy_o.value:
                return found
        raise AssertionError("no end")


def ends(bits: int) -> list[int]:
    """Return counts around each power of two of so many bits."""
    return [count for bit in range(3, bits) for count in ((1 << bit) - 1, (1 << bit) + 1)] + [(1 << bits) - 1]


async def count(core: CountingCore, counter: str, end: int, **sizes: Any) -> None:
    """Check that a counter whose values are the results counts to `end` and not less far."""
    for bit in range(1, (end - 1).bit_length()):
        at = end - 1 ^ 1 << bit
        if at > end:
            continue
        await core.start(**sizes)
        await core.jump(counter, at)
        found = await core.results(2)
        assert at + 1 in found, f"{end}: {found} behind {at}"
        await pulse(core.dut, "abort_i")
    await core.start(**sizes)
    await core.jump(counter, end - 4)
    found = await core.rest()
    assert found[-3:] == [end - 3, end - 2, end - 1], f"{end}: {found}"


@cocotb.test()
async def rows(dut: Any) -> None:
    """A command has as many rows as it says."""
    await reset(dut)
    core = CountingCore(dut, ROWS)
    for end in ends(ROW_BITS):
        await count(core, "row_q", end, rows=end)


@cocotb.test()
async def batches(dut: Any) -> None:
    """A command has as many batches of both levels as it says."""
    await reset(dut)
    inner, outer = CountingCore(dut, INNER), CountingCore(dut, OUTER)
    for end in ends(BATCH_BITS):
        await count(inner, "batch0_q", end, batch=(end, 1))
        await count(outer, "batch1_q", end, batch=(1, end))


@cocotb.test()
async def repeats(dut: Any) -> None:
    """A loop has as many repetitions as the command says."""
    await reset(dut)
    core = CountingCore(dut, REPEATS)
    for end in ends(REPEAT_BITS):
        await count(core, "rep_q", end, repeats=end)


@cocotb.test()
async def columns(dut: Any) -> None:
    """A loop over chunks has all columns, whatever bit of their number is the highest."""
    await reset(dut)
    core = CountingCore(dut, COLUMNS)
    for bit in range(8, COLUMN_BITS):
        for left in (2 * VECTOR_LENGTH + 1, VECTOR_LENGTH + 1, VECTOR_LENGTH):
            cols = (1 << bit) + 5 * VECTOR_LENGTH + left % VECTOR_LENGTH
            await core.start(cols=cols)
            await core.results(VECTOR_LENGTH // 2)  # in the midst of the first chunk
            await core.jump_to_column(cols - left - VECTOR_LENGTH, left + VECTOR_LENGTH)
            found = await core.rest()
            assert found[-left:] == list(range(cols - left, cols)), f"{cols} columns"
        # In the second chunk one more than a power of two is left: no lower bit says that there is another.
        left, cols = (1 << bit) + VECTOR_LENGTH + 1, (1 << bit) + 5 * VECTOR_LENGTH + 1
        await core.start(cols=cols)
        await core.results(VECTOR_LENGTH // 2)
        await core.jump_to_column(cols - left, left)
        found = await core.results(4 * VECTOR_LENGTH)
        assert found[-2 * VECTOR_LENGTH :] == list(range(found[-1] + 1 - 2 * VECTOR_LENGTH, found[-1] + 1))
        assert found[-1] >= cols - left + 2 * VECTOR_LENGTH, f"{cols} columns"
        await pulse(dut, "abort_i")


@cocotb.test()
async def longest_segment(dut: Any) -> None:
    """A write that reaches beyond 2^32 - 1 elements of a segment breaks a rule."""
    await reset(dut)
    core = CountingCore(dut, COLUMNS)
    await core.start(cols=4 * VECTOR_LENGTH)
    dut.out_length_i.value = (1 << COLUMN_BITS) - 1
    await core.results(VECTOR_LENGTH // 2)
    await FallingEdge(dut.clk_i)
    dut.dut.out_offset_q.value = (1 << COLUMN_BITS) - 2 * VECTOR_LENGTH
    for _ in range(PATIENCE):
        await RisingEdge(dut.clk_i)
        if dut.fault_o.value:
            break
        if dut.fetch_o.value:
            dut.instruction_i.value = core.words[int(dut.fetch_address_o.value)]
    assert dut.fault_o.value
    assert int(dut.fault_address_o.value) == 1, "the write, not the END"
    await pulse(dut, "abort_i")
