"""Timelines made from register writes and recorded events, without a simulator."""

import gzip
import json
import os
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echo_npu import matmul_packets, memcpy_packets, nop_packet
from echo_npu.commands.builders import load_program_packets
from echo_npu.commands.packets import Packet, packet_bytes
from echo_npu.commands.vector_command import Stream, vector_command
from echo_npu.register_ops import ReadReg, WriteReg
from echo_npu.spec import registers as regs
from echo_npu.trace.file import TraceFile
from echo_npu.trace.timeline import Timeline, TraceCutWarning
from echo_npu.vector import Builder, Program
from echo_sim.contract import TraceEventKind
from echo_sim.trace_events import EVENT
from tests.refusals import refuses

RING = 0x1000_0000
FACTS = {"cycle": 100, "beat_bytes": 32, "window": 256, "readers": ["host", "A"], "writers": ["host", "C"]}


class Board:
    """A timeline, the memory that it reads, and the register writes of a host."""

    def __init__(self, path: Path, limit: int = 1000) -> None:
        self.path = path
        self.memory: dict[int, bytes] = {}
        self.timeline = Timeline(path, "test", self.read, limit=limit)
        self.tail = 0
        self.timeline.start(FACTS)

    def read(self, address: int, nbytes: int) -> bytes:
        return self.memory[address][:nbytes]

    def window(self, *packets: Packet) -> None:
        for packet in packets:
            words = enumerate(np.frombuffer(packet_bytes(packet), "<u4").tolist())
            self.timeline.see([WriteReg(regs.CMD_WINDOW + 4 * index, word) for index, word in words])
            self.timeline.see([WriteReg(regs.DOORBELL, 1), ReadReg(regs.STATUS)])

    def ring(self, *packets: Packet, size: int = 8) -> None:
        self.timeline.see([WriteReg(regs.RING_BASE, RING), WriteReg(regs.RING_SIZE, size)])
        for packet in packets:
            self.memory[RING + 64 * self.tail] = packet_bytes(packet)
            self.tail = (self.tail + 1) % size
        self.timeline.see([WriteReg(regs.RING_TAIL, self.tail)])

    def events(self, *events: tuple[int, ...], cycle: int = 5000) -> None:
        padded = [(*each, *(0,) * (6 - len(each))) for each in events]
        self.timeline.add(np.array(padded, EVENT).tobytes(), cycle)

    def written(self) -> list[dict[str, Any]]:
        self.timeline.close()
        found: list[dict[str, Any]] = json.loads(self.path.read_text())
        return found

    def slices(self) -> list[dict[str, Any]]:
        return [event for event in self.written() if event["ph"] == "X"]


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path / "timeline.json")


def run(first: int, *engines: int | None) -> list[tuple[int, ...]]:
    """Add the events of commands one after another, ten cycles each; engine None is a fence."""
    found: list[tuple[int, ...]] = []
    for number, engine in enumerate(engines):
        start = first + 10 * number
        if engine is not None:
            found += [(start, TraceEventKind.START, engine), (start + 7, TraceEventKind.DONE, engine)]
        found.append((start + 8, TraceEventKind.RETIRE))
    return found


def test_commands_by_the_window_and_by_the_ring(board: Board) -> None:
    board.window(*matmul_packets(0, 0x1000, 0x2000, 4, 5, 6), nop_packet())
    board.events(*run(200, 0, None))
    for number in range(3):  # round the ring
        board.ring(*memcpy_packets(0, 0x1000, 4, rows=2, row_strides=(8, 8)), nop_packet())
        board.events(*run(300 + 100 * number, 1, None))
    found = [(each["name"], each["ts"], each["dur"], each["args"]["index"]) for each in board.slices()]
    assert found[:2] == [("MATMUL 4x5x6", 100, 9, 0), ("NOP", 118, 1, 1)]
    assert found[2::2] == [("MEMCPY 2x4 bytes", 200 + 100 * i, 9, 2 + 2 * i) for i in range(3)]
    assert board.slices()[0]["args"]["engine cycles"] == 8


def test_a_tail_outside_of_the_ring_submits_nothing(board: Board) -> None:
    """The device refuses it."""
    board.timeline.see([WriteReg(regs.RING_TAIL, 0), WriteReg(regs.RING_TAIL, 1)])  # there is no ring yet
    board.ring(nop_packet(), nop_packet())
    for tail in (8, 9):
        board.timeline.see([WriteReg(regs.RING_TAIL, tail)])
    board.ring(nop_packet())
    board.events(*run(200, None, None, None, None))
    assert [each["args"]["index"] for each in board.slices()] == [0, 1, 2]


def fill(name: str) -> Program:
    b = Builder(name)
    with b.chunks():
        b.mov(b.out, float(len(name)))
    return b.build()


def test_vector_programs_by_their_names(board: Board) -> None:
    one, three = fill("a"), fill("abc")
    board.timeline.describe([one, three])
    board.memory[0x400] = one.code + three.code

    def command(entry: int) -> list[Packet]:
        return vector_command(entry, rows=1, cols=9, output=Stream(RING)).packets()

    board.window(*load_program_packets(0x400, len(one) + len(three), 5))
    board.window(*command(5), *command(5 + len(one)), *command(6))
    board.events(*run(200, 1, 1, 1, 1))
    names = [each["name"] for each in board.slices()]
    assert names[1:] == ["a 1x9", "abc 1x9", "program at 6 1x9"]


def test_a_program_that_is_overwritten_loses_its_name(board: Board) -> None:
    board.timeline.describe([fill("a")])
    board.memory |= {0x400: fill("a").code, 0x800: fill("abc").code}
    for source in (0x400, 0x800):  # the second one has no name
        board.window(*load_program_packets(source, len(fill("a")), 5))
        board.window(*vector_command(5, rows=1, cols=9, output=Stream(RING)).packets())
    board.events(*run(200, 1, 1, 1, 1))
    assert [each["name"] for each in board.slices()][1::2] == ["a 1x9", "program at 5 1x9"]


def test_the_ring_begins_again_after_a_reset(board: Board) -> None:
    board.ring(nop_packet(), nop_packet())
    board.timeline.see([WriteReg(regs.CONTROL, regs.CONTROL_SOFT_RESET.mask)])
    board.tail = 0
    board.ring(*matmul_packets(0, 0x1000, 0x2000, 4, 4, 4))
    board.events(*run(200, 0, None))
    assert [each["name"] for each in board.slices()] == ["MATMUL 4x4x4"]


def test_many_commands_that_overlap_stay_on_the_tracks_of_their_engine(board: Board) -> None:
    board.window(*(packet for _ in range(45) for packet in matmul_packets(0, 0x1000, 0x2000, 4, 4, 4)))
    board.events(*((200 + number, TraceEventKind.START, 0) for number in range(45)))
    board.events(*((300 + number, TraceEventKind.RETIRE) for number in range(45)))
    assert [each["tid"] for each in board.slices()] == [*range(10, 50), *[49] * 5]


def test_a_command_that_starts_as_another_retires_takes_its_row(board: Board) -> None:
    board.window(*(packet for _ in range(2) for packet in matmul_packets(0, 0x1000, 0x2000, 4, 4, 4)))
    board.events((200, TraceEventKind.START, 0), (210, TraceEventKind.RETIRE))
    board.events((211, TraceEventKind.START, 0), (220, TraceEventKind.RETIRE))
    assert len({each["tid"] for each in board.slices()}) == 1


def test_a_window_that_began_before_the_record_starts_with_it(board: Board) -> None:
    board.events((30, TraceEventKind.WINDOW, 0, 1, 1, 1))
    assert {each["ts"] for each in board.written() if each["ph"] == "C"} == {0}


def test_commands_of_one_engine_that_overlap_have_rows_of_their_own(board: Board) -> None:
    board.window(*(packet for _ in range(3) for packet in matmul_packets(0, 0x1000, 0x2000, 4, 4, 4)))
    board.events(
        (200, TraceEventKind.START, 0),
        (210, TraceEventKind.START, 0),
        (220, TraceEventKind.DONE, 0),
        (221, TraceEventKind.RETIRE),
        (222, TraceEventKind.START, 0),
        (230, TraceEventKind.DONE, 0),
        (231, TraceEventKind.RETIRE),
        (240, TraceEventKind.DONE, 0),
        (241, TraceEventKind.RETIRE),
    )
    named = (event for event in board.written() if event["name"] == "thread_name")
    tracks = {event["tid"]: event["args"]["name"] for event in named}
    found = [(tracks[each["tid"]], each["ts"], each["dur"]) for each in board.slices()]
    assert found == [
        ("matrix commands", 100, 22),
        ("matrix commands 2", 110, 22),
        ("matrix commands", 122, 20),
    ]


def test_a_clear_drops_what_was_under_way(board: Board) -> None:
    board.window(*matmul_packets(0, 0x1000, 0x2000, 4, 4, 4), *matmul_packets(0, 0x1000, 0x2000, 8, 8, 8))
    board.window(memcpy_packets(0, 0x1000, 4, rows=2)[0])  # lacks its extension
    board.events((200, TraceEventKind.START, 0), cycle=260)
    board.timeline.see([WriteReg(regs.CONTROL, regs.CONTROL_CLEAR_ERROR.mask)])
    board.window(nop_packet())
    board.events((300, TraceEventKind.RETIRE))
    board.timeline.see([WriteReg(regs.CONTROL, regs.CONTROL_SOFT_RESET.mask)])
    board.window(nop_packet())
    board.events((400, TraceEventKind.RETIRE))
    found = [(each["name"], each["ts"], each["args"]["index"]) for each in board.slices()]
    assert found == [("MATMUL 4x4x4", 100, 0), ("NOP", 200, 1), ("NOP", 300, 0)]
    assert board.slices()[0]["args"]["stopped"] is True


def test_levels_transfers_and_windows(board: Board) -> None:
    board.events(
        (200, TraceEventKind.LEVELS, 0, 0b000011),
        (210, TraceEventKind.LEVELS, 0, 0b001001),
        (256, TraceEventKind.WINDOW, 0, 10, 0, 99),
        (300, TraceEventKind.TRANSFER, 1, 220, 10 | 2 << 32, 0x40),
        (310, TraceEventKind.TRANSFER, 1 << 8 | 1, 305, 3 | 1 << 32, 0x80),
        (320, TraceEventKind.QUEUE, 0, 3, 14),
        cycle=400,
    )
    written = board.written()
    found = [(each["name"], each["ts"], each["dur"]) for each in written if each["ph"] == "X"]
    assert sorted(found) == [
        ("A", 120, 80),
        ("C", 205, 5),
        ("device busy", 100, 200),  # until the end
        ("matrix engine busy", 100, 10),
        ("stall: operand data", 110, 190),
    ]
    (read,) = [each["args"] for each in written if each["name"] == "A"]
    assert read == {"beats": 10, "bytes": 320, "bursts": 2, "first address": "0x00000040"}
    curves = {each["name"]: each["args"] for each in written if each["ph"] == "C"}
    assert curves["read bytes in a window of 256 cycles"] == {"bytes": 320}
    assert curves["multiply-accumulates in a window of 256 cycles"] == {"macs": 99}
    assert curves["packets waiting"] == {"queue": 3, "ring": 14}


def test_spans(board: Board) -> None:
    def fail() -> None:
        with board.timeline.span("inner"):
            board.events(cycle=190)
            raise KeyError

    with board.timeline.span("outer"):
        board.events(cycle=150)
        refuses(KeyError, None, fail)
    found = [(each["name"], each["ts"], each["dur"]) for each in board.slices()]
    assert found == [("inner", 50, 40), ("outer", 0, 90)]


def test_a_full_record_is_cut(board: Board) -> None:
    levels = TraceEventKind.LEVELS
    with pytest.warns(TraceCutWarning, match="cut at cycle 200: more happened"):
        board.events((200, levels, 0, 1), (300, TraceEventKind.CUT), (310, levels, 0, 0))
    board.events((400, levels, 0, 1))
    assert board.timeline.cut
    assert [(each["ts"], each["dur"]) for each in board.slices()] == [(100, 100)]


def test_a_timeline_is_cut_at_its_limit(tmp_path: Path) -> None:
    """The title counts towards the limit; the notice of the cut does not."""
    board = Board(tmp_path / "timeline.json", limit=4)
    queue = [(200 + number, TraceEventKind.QUEUE, 0, number) for number in range(9)]
    board.events(*queue[:2], cycle=202)
    assert not board.timeline.cut
    with pytest.warns(TraceCutWarning, match="cut at cycle 102: it has its limit of 4 events"):
        board.events(*queue[2:])
    assert [event["ph"] for event in board.written()] == ["M", "C", "C", "C", "i"]


def test_a_file_is_whole_at_every_flush_but_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    file = TraceFile(path)
    for number in range(3):
        file.add({"number": number})
        file.flush()
        assert json.loads(path.read_text() + "]")[-1] == {"number": number}
    file.close()
    file.close()
    file.add({"number": 4})
    file.flush()
    assert json.loads(path.read_text()) == [{"number": number} for number in range(3)]


def test_an_empty_and_a_compressed_file(tmp_path: Path) -> None:
    TraceFile(tmp_path / "empty.json").close()
    assert json.loads((tmp_path / "empty.json").read_text()) == []
    file = TraceFile(tmp_path / "events.json.gz")
    file.add({"name": "µ"})
    file.close()
    assert json.loads(gzip.decompress((tmp_path / "events.json.gz").read_bytes())) == [{"name": "µ"}]
    refuses(ValueError, "cannot be written", TraceFile, tmp_path)


@pytest.mark.parametrize("name", ["events.json", "events.json.gz"])
def test_a_forked_child_leaves_the_file_to_its_owner(tmp_path: Path, name: str) -> None:
    file = TraceFile(tmp_path / name)
    file.add({"number": 1})
    file.flush()
    if (child := os.fork()) == 0:
        file.close()  # as at the exit of the child
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    file.add({"number": 2})
    file.close()
    written = (tmp_path / name).read_bytes()
    text = gzip.decompress(written) if name.endswith(".gz") else written
    assert json.loads(text) == [{"number": 1}, {"number": 2}]


def test_a_full_disk_at_the_start_is_named() -> None:
    """The path is in the message, and the reason."""
    refuses(ValueError, "/dev/full: No space left", TraceFile, Path("/dev/full"))


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_disk_that_fills_up_cuts_the_timeline_and_nothing_else(tmp_path: Path, name: str) -> None:
    """The full disk gives one warning. Adding events and closing afterwards give none."""
    board = Board(tmp_path / name, limit=1_000_000)
    queue = [
        (cycle, TraceEventKind.QUEUE, 0, cycle * 77777 % 65536, cycle * 33333 % 65521, 0)
        for cycle in range(40_000)
    ]
    events = np.array(queue, dtype=EVENT).tobytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))

    def go_on() -> None:
        for _ in range(3):
            board.timeline.add(events, 50_000)
        board.timeline.close()
        board.timeline.close()

    try:
        with pytest.warns(TraceCutWarning, match="cannot be written: File too large") as warned:
            go_on()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(warned) == 1
    assert board.timeline.cut
    assert (tmp_path / name).stat().st_size <= 4096
