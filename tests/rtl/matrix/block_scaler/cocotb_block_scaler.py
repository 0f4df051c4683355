"""block_scaler: tiles of any rows in any legal rhythm, with facts that come ahead, and aborts."""

import random
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from numpy.typing import NDArray

from tb.blocks import parameter
from tests.rtl.matrix.arithmetic import as_number, as_words
from tests.rtl.situations import Situations
from tests.rtl.stimulus import reset

CONFIGURATIONS = [
    {"Tile": 4, "Taps": 2, "AddrBits": 6, "Rows": 16, "Tiles": 4, "Pipeline": 0},
    {"Tile": 4, "Taps": 1, "AddrBits": 6, "Rows": 16, "Tiles": 4, "Pipeline": 0},
    {"Tile": 4, "Taps": 2, "AddrBits": 6, "Rows": 16, "Tiles": 4, "Pipeline": 1},
    {"Tile": 4, "Taps": 1, "AddrBits": 6, "Rows": 16, "Tiles": 4, "Pipeline": 1},
]
TILE, TAPS, ROWS, TILES = (parameter(name) for name in ("Tile", "Taps", "Rows", "Tiles"))
BOTTOM = TAPS - 1
ENTRIES = 1 << parameter("AddrBits")
DEPTH = 8
"""Clocks from a row's sums in the middle to those at the bottom."""
CLASH = DEPTH - 1
"""Clocks between two rows whose sums would enter at once, those of one a clock late from the middle."""
APART = 30
"""Clocks after which a row's sums are in the accumulators."""
PIPELINE = parameter("Pipeline")
LATENCY = tuple(clocks + PIPELINE for clocks in ((7, 6) if TAPS == 2 else (6,)))
"""Clocks from the sums of a tap to what is written."""
ADDED = 2 + PIPELINE
"""Clocks from the read of an accumulator to what is written."""

Floats = NDArray[np.float32]


class BlockScalerSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    MINIMA = "a tile with minima"
    PLAIN = "a tile without"
    ZERO = "a block of zeros beside a scale that is infinite"
    SPECIAL = "a block with a NaN"
    SUBNORMAL = "a sum that is scaled to a subnormal number"
    INFINITE = "a sum that is scaled beyond float32"
    FULL = "a row every two clocks for as long as one stays inside"
    ROUND = "more rows and tiles than wait at once"
    AHEAD = "as many tiles as may wait"
    ABORT = "an abort with rows inside"


@dataclass
class ScaledRow:
    """A row of a tile: its sums [tap][column] and facts [tap] of sum, power, zero, special."""

    planes: list[tuple[NDArray[np.int32], NDArray[np.int32]]]  # of each tap: high, low
    facts: list[tuple[int, int, bool, bool]]
    addr: int
    first: bool
    last: bool
    tile_last: bool
    tile: "ScaledTile"


@dataclass
class ScaledTile:
    """Scales and minima, float16 [block, column], and rows."""

    scales: NDArray[np.float16]
    minima: NDArray[np.float16] | None
    rows: list[ScaledRow]


def draw_half(special: bool) -> NDArray[np.float16]:
    generator = np.random.default_rng(random.getrandbits(32))
    if special:
        return generator.integers(0, 1 << 16, (TAPS, TILE), np.uint16).view(np.float16)
    return generator.normal(0, 1, (TAPS, TILE)).astype(np.float16)


def draw_tile(first: bool, last: bool, count: int) -> ScaledTile:
    """A tile of `count` rows."""
    generator = np.random.default_rng(random.getrandbits(32))
    special = random.random() < 0.3
    tile = ScaledTile(draw_half(special), draw_half(special) if random.random() < 0.5 else None, [])
    start = random.randrange(ENTRIES - count)
    for row in range(count):
        planes, facts = [], []
        for _ in range(TAPS):
            integers = generator.integers(-32768, 32768, 32)
            weights = generator.integers(-128, 128, (32, TILE))
            planes.append(((integers >> 8) @ weights, (integers & 255) @ weights))
            power = random.randint(-163, 113) if special else random.randint(-30, 10)
            kind = random.random()
            facts.append((int(integers.sum()), power, kind < 0.05, 0.05 <= kind < 0.08))
        tile.rows.append(ScaledRow(planes, facts, start + row, first, last, row == count - 1, tile))
    return tile


class Accumulators:
    """What the definition makes of the accumulators, in the order of the sums that enter."""

    def __init__(self, situations: Situations) -> None:
        self.words = np.zeros((ENTRIES, TILE), np.uint32)  # as the device has written them
        self._situations = situations

    def result(self, row: ScaledRow, tap: int) -> NDArray[np.uint32]:
        """The words that are written for one tap of a row."""
        saw = self._situations.saw
        high, low = row.planes[tap]
        total, power, zero, special = row.facts[tap]
        scales = row.tile.scales[tap].astype(np.float32)
        with np.errstate(all="ignore"):
            value = ((high << 8) + low).astype(np.float32) * scales
            if row.tile.minima is not None:
                value = value + np.float32(total) * row.tile.minima[tap].astype(np.float32)
            scaled = np.ldexp(value.astype(np.float64), power).astype(np.float32)
            saw(BlockScalerSituation.SUBNORMAL, ((scaled != 0) & (np.abs(scaled) < 2.0**-126)).any())
            saw(BlockScalerSituation.INFINITE, (np.isinf(scaled) & np.isfinite(value)).any())
            saw(BlockScalerSituation.ZERO, zero and not np.isfinite(scales).all())
            saw(BlockScalerSituation.SPECIAL, special and not zero)
            if zero:
                scaled = np.zeros(TILE, np.float32)
            elif special:
                scaled = np.full(TILE, np.nan, np.float32)
            begins = row.first and tap == 0
            before = np.zeros(TILE, np.float32) if begins else self.words[row.addr].view(np.float32)
            after = before + scaled
        return np.where(np.isnan(after), np.uint32(0x7FC0_0000), after.view(np.uint32))


@cocotb.test()
async def random_tiles(dut: Any) -> None:
    """Every sum is scaled with the facts of its row and its tile, and added to what was there."""
    situations = Situations(BlockScalerSituation)
    await reset(dut)
    memory = Accumulators(situations)
    tiles_due: deque[ScaledTile] = deque()  # facts to push
    rows_due: deque[ScaledRow] = deque()
    ready: deque[ScaledRow] = deque()  # facts pushed, sums not entered
    taps: dict[int, list[ScaledRow | None]] = {}  # by clock, the rows whose low sums are at each tap
    expected: dict[int, tuple[ScaledRow, int]] = {}  # by clock, what is written
    read: int | None = None
    tiles_inside = rows_inside = streak = entered = tiles_seen = 0
    starts: deque[int] = deque(maxlen=DEPTH)  # of rows
    pace, next_row = 1.0, 0
    for clock in situations.rounds(20_000):
        if clock % 300 == 0:
            pace = random.choice((1.0, 1.0, 0.3, 0.05))
        if not tiles_due and not rows_due and not ready:
            count = random.choice((1, 2, 3, ROWS, random.randint(1, 40)))
            depth = random.randint(1, 4)
            made = [draw_tile(k == 0, k == depth - 1, count) for k in range(depth)]
            for tile in made:
                for row, other in zip(tile.rows, made[0].rows, strict=True):
                    row.addr = other.addr
            tiles_due.extend(made)
            rows_due.extend(row for tile in made for row in tile.rows)
            next_row = clock + APART  # they may have the accumulators of the ones before
        push_tile = bool(tiles_due) and tiles_inside < TILES and random.random() < 0.5
        dut.tile_push_i.value = int(push_tile)
        if push_tile:
            tile = tiles_due.popleft()
            tiles_inside += 1
            tiles_seen += 1
            dut.tile_scales_i.value = int.from_bytes(tile.scales.tobytes(), "little")
            dut.tile_minima_i.value = int(tile.minima is not None)
            mins = tile.minima if tile.minima is not None else draw_half(True)
            dut.tile_mins_i.value = int.from_bytes(mins.tobytes(), "little")
            situations.saw(
                BlockScalerSituation.MINIMA if tile.minima is not None else BlockScalerSituation.PLAIN
            )
            situations.saw(BlockScalerSituation.AHEAD, tiles_inside == TILES)
        known = [id(each) for each in tiles_due]
        push_row = bool(rows_due) and rows_inside < ROWS and random.random() < 0.7
        push_row = push_row and id(rows_due[0].tile) not in known
        dut.row_push_i.value = int(push_row)
        if push_row:
            pushed = rows_due.popleft()
            rows_inside += 1
            word = 0
            for place, (total, power, zero, special) in enumerate(pushed.facts):
                bits = (total & 0x1F_FFFF) << 11 | (power & 0x1FF) << 2 | int(zero) << 1 | int(special)
                word |= bits << 32 * place
            dut.row_info_i.value = word
        # A row begins: its high sums are in the middle in the next clock, its low ones a clock later.
        if ready and clock >= next_row and clock - CLASH not in starts and random.random() < pace:
            row = ready.popleft()
            for tap in range(TAPS):
                at = clock + 2 + DEPTH * tap
                taps.setdefault(at, [None] * TAPS)[tap] = row
                expected[at + LATENCY[tap]] = (row, tap)
            streak = streak + 1 if clock - 2 in starts else 1
            starts.append(clock)
            entered += 1
            short = row.tile_last and len(row.tile.rows) * 2 < APART
            next_row = clock + (APART if short else 2)
            situations.saw(BlockScalerSituation.FULL, streak > 12)
            situations.saw(BlockScalerSituation.ROUND, entered > 4 * ROWS and tiles_seen > 4 * TILES)
        if push_row:
            ready.append(pushed)
        low = taps.pop(clock, [None] * TAPS)
        high = taps.get(clock + 1, [None] * TAPS)
        dut.valid_i.value = sum(1 << tap for tap in range(TAPS) if low[tap] is not None)
        dut.high_i.value = sum(1 << tap for tap in range(TAPS) if high[tap] is not None)
        flags = {"first_i": 0, "last_i": 0, "tile_last_i": 0}
        for tap in range(TAPS):
            sums = np.array([random.getrandbits(32) for _ in range(TILE)], np.uint32)
            dut.addr_i[tap].value = random.randrange(ENTRIES)
            if (entering := low[tap]) is not None:
                sums = entering.planes[tap][1].astype(np.int32).view(np.uint32)
                dut.addr_i[tap].value = entering.addr
                flags["first_i"] |= entering.first << tap
                flags["last_i"] |= entering.last << tap
                flags["tile_last_i"] |= entering.tile_last << tap
            elif (coming := high[tap]) is not None:
                sums = coming.planes[tap][0].astype(np.int32).view(np.uint32)
            dut.sums_i[tap].value = as_number(sums)
        for name, value in flags.items():
            getattr(dut, name).value = value
        data = [random.getrandbits(32)] * TILE if read is None else memory.words[read]
        dut.read_data_i.value = as_number(data)
        abort = random.random() < 0.001
        dut.abort_i.value = int(abort)
        await RisingEdge(dut.clk_i)
        read = int(dut.read_addr_o.value) if dut.read_o.value else None
        # A row is read before it is added to what is there; one that begins an accumulation is not.
        added = expected.get(clock + ADDED)
        reads = added is not None and not (added[0].first and added[1] == 0)
        assert bool(dut.read_o.value) == reads
        if added is not None and reads:
            assert int(dut.read_addr_o.value) == added[0].addr
        # The clock of the module rests while nothing is under way, so this has to be true to the clock.
        inside = any(end - LATENCY[tap] < clock for end, (_, tap) in expected.items())
        assert bool(dut.busy_o.value) == inside, "sums are under way, or none are"
        due = expected.pop(clock, None)
        assert bool(dut.valid_o.value) == (due is not None)
        if TAPS == 1 and (summed := low[BOTTOM]) is not None:
            high_sums, low_sums = summed.planes[BOTTOM]
            both = ((high_sums << 8) + low_sums).astype(np.int32).view(np.uint32)
            assert np.array_equal(as_words(int(dut.combined_o.value), TILE), both)
        if due is not None:
            row, tap = due
            wanted, shown = memory.result(row, tap), as_words(int(dut.data_o.value), TILE)
            assert np.array_equal(shown, wanted), f"{shown} instead of {wanted}, tap {tap}"
            assert bool(dut.result_o.value) == (row.last and tap == BOTTOM)
            assert bool(dut.tile_done_o.value) == (row.tile_last and tap == BOTTOM)
            assert int(dut.addr_o.value) == row.addr
            if not dut.result_o.value:
                memory.words[row.addr] = wanted
        if (left := low[BOTTOM]) is not None:
            rows_inside -= 1
            tiles_inside -= left.tile_last
        if abort:
            situations.saw(BlockScalerSituation.ABORT, expected)
            for queue in (tiles_due, rows_due, ready):
                queue.clear()
            taps.clear()
            expected.clear()
            tiles_inside = rows_inside = 0
            read = None
            next_row = clock + 2
