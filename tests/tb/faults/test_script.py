"""The file of cases, and the judgement of a record, without a simulator."""

import itertools
import struct
from pathlib import Path

import numpy as np
import pytest

from echo_npu.spec import registers as regs
from echo_npu.spec.status import ErrorCode, State
from tb.faults import script as script_module
from tb.faults.runner import Ending, Record, judge, read_records
from tb.faults.script import LARGEST, MAGIC, CaseOperation, Script, save


def record(words: list[int], ending: Ending = Ending.DONE, strays: int = 0) -> Record:
    return Record(ending, 100, strays, 0x40 if strays else 0, np.array(words, dtype=np.uint32))


def state_script() -> Script:
    script = Script()
    script.state((State.ERROR, ErrorCode.MISALIGNED, 3, 0x1001, 0, 3))
    return script


def answers(*values: int) -> list[int]:
    """Return data and response OKAY of each read."""
    return [word for value in values for word in (value, 0)]


def test_the_table_says_where_each_routine_and_case_begins(tmp_path: Path) -> None:
    routine, first, second = Script(), Script(), Script()
    routine.run(5)
    first.reset(1)
    first.memory(0x1001, b"abcde")
    second.packet(bytes(range(64)))
    save(tmp_path / "cases", [routine], [first, second])
    words = np.fromfile(tmp_path / "cases", dtype="<u4").tolist()
    assert words[:3] == [MAGIC, 1, 2]
    begins = words[3:7]
    parts = [words[a:b] for a, b in itertools.pairwise(begins)]
    assert parts[0] == [CaseOperation.RUN | 1 << 8, 5]
    assert parts[1][:2] == [CaseOperation.RESET | 1 << 8, 1]
    assert parts[1][2:5] == [CaseOperation.MEMORY | 4 << 8, 0x1001, 5]
    assert struct.pack("<2I", *parts[1][5:]) == b"abcde\0\0\0"
    assert parts[2] == [CaseOperation.PACKET | 16 << 8, *struct.unpack("<16I", bytes(range(64)))]
    assert begins[-1] == len(words)


def operations(script: Script) -> list[tuple[int, list[int]]]:
    """Return each operation with its arguments."""
    words, found = np.frombuffer(script.words, "<u4").tolist(), []
    while words:
        count = words[0] >> 8
        found.append((words[0] & 0xFF, words[1 : 1 + count]))
        words = words[1 + count :]
    return found


def test_only_the_writes_behind_the_first_come_late() -> None:
    script = Script()
    script.write((0x40, 1), (0x64, 2), (0x20, 3), late=7)
    late = 7 << 16
    assert operations(script) == [(CaseOperation.WRITE, [0x40, 1, 0x64 | late, 2, 0x20 | late, 3])]


def test_large_places_take_several_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_module, "LARGEST", 5)  # words: an address, a count, and three of data
    script = Script()
    script.memory(0x100, bytes(range(26)))
    script.check([(0x200, b"abcdefgh"), (0x300, b"i"), (0x400, b""), (0x500, bytes(13))], "all")
    parts = [[0x100, 12, 0x0302_0100, 0x0706_0504, 0x0B0A_0908], [0x10C, 12], [0x118, 2, 0x1918]]
    wanted = [(CaseOperation.MEMORY, part) for part in parts]
    wanted[1][1].extend((0x0F0E_0D0C, 0x1312_1110, 0x1716_1514))
    abcd, efgh = struct.unpack("<2I", b"abcdefgh")
    checks = [[0x200, 8, abcd, efgh], [0x300, 1, ord("i"), 0x400, 0], [0x500, 12, 0, 0, 0], [0x50C, 1, 0]]
    assert operations(script) == wanted + [(CaseOperation.CHECK, part) for part in checks]
    assert len(script.wanted) == 2 * len(checks)


def test_the_largest_operation_can_be_counted() -> None:
    script = Script()
    script.check([(0, bytes(4 * LARGEST - 8)), (0x1000, b"")], "all")
    assert [len(arguments) for _, arguments in operations(script)] == [LARGEST, 2]


def test_a_record_as_wanted_passes() -> None:
    right = answers(State.ERROR | 5 << 8, ErrorCode.MISALIGNED, 3, 0x1001, 0, 3)
    assert judge(state_script(), record(right)) == []


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ((2, 4, 3, 0x1001, 0, 3), "STATUS is 0x2, not 0x3 (DONE in place of ERROR)"),
        ((3, 5, 3, 0x1001, 0, 3), "ERROR_CODE is 0x5, not 0x4 (OUT_OF_RANGE in place of MISALIGNED)"),
        ((3, 4, 2, 0x1001, 0, 3), "ERROR_INDEX is 0x2"),
        ((3, 4, 3, 0x1001, 1, 3), "ERROR_ADDR + 4 is 0x1"),
        ((3, 4, 3, 0x1001, 0, 4), "RETIRED is 0x4"),
    ],
)
def test_each_register_of_the_state_counts(values: tuple[int, ...], what: str) -> None:
    (found,) = judge(state_script(), record(answers(*values)))
    assert found.startswith("wrong: ")
    assert what in found


def test_a_refused_read_is_found() -> None:
    words = answers(3, 4, 3, 0x1001, 0, 3)
    words[1] = 2
    assert judge(state_script(), record(words)) == ["wrong: response of STATUS is 0x2, not 0x0"]


def test_a_stray_write_is_found_beside_right_registers() -> None:
    right = answers(3, 4, 3, 0x1001, 0, 3)
    (found,) = judge(state_script(), record(right, strays=2))
    assert found == "stray write: 2 outside of the destinations, the first at 0x00000040"


def test_how_a_case_ended_is_told() -> None:
    (hang,) = judge(state_script(), record(list(range(12)), Ending.HANG))
    assert hang.startswith("hang: still busy; STATUS 0x0, ERROR_CODE 0x1")
    (silent,) = judge(state_script(), record([], Ending.NO_ANSWER))
    assert silent.startswith("hang: ")
    (crash,) = judge(state_script(), record([], Ending.CRASH))
    assert crash.startswith("crash: ")


def test_missing_words_are_found() -> None:
    (found,) = judge(state_script(), record([3, 0]))
    assert "recorded 2 words in place of 12" in found


def test_only_the_bits_that_are_known_count() -> None:
    script = Script()
    script.read([regs.CYCLES], [(0, 0, "CYCLES")])
    script.access(regs.IRQ_ENABLE, 1, 1, 0, read=regs.STATUS, data=(2, 3, 0))
    assert judge(script, record([77, 0, 0, 0x1F02, 0])) == []
    assert judge(script, record([77, 0, 0, 0x1F01, 0])) == ["wrong: read of 0x0044 is 0x1f01, not 0x2"]
    assert judge(script, record([77, 0, 2, 2, 0])) == ["wrong: write of 0x0064 is 0x2, not 0x0"]


def test_a_cut_record_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "results"
    np.array([0, 0, 50, 0, 0, 2, 7, 8, 1, 1, 60, 0, 0, 12, 1], dtype="<u4").tofile(path)
    (only,) = read_records(path, "")
    assert only.ending == Ending.DONE
    assert only.words.tolist() == [7, 8]
    assert read_records(tmp_path / "none", "") == []
