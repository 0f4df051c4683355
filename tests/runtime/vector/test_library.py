"""Program memory: placement is first fit, the least recently used is evicted, needed programs stay."""

import numpy as np
import pytest

import echo_npu
from echo_npu import Device, NpuDeviceError
from echo_npu.commands.packets import Packet
from echo_npu.commands.vector_command import Stream, vector_command
from echo_npu.errors import NpuProgramMemoryError
from echo_npu.spec.status import ErrorCode
from echo_npu.vector import Builder, Program
from echo_npu.vector.library import ProgramLibrary, Run
from tests.refusals import refuses


def program(name: str, length: int) -> Program:
    """Return a program of `length` words that writes a number derived from its name."""
    b = Builder(name)
    v = b.vector()
    for i in range(length - 2):
        b.mov(v, i)
    b.mov(b.out, sum(name.encode()))
    return b.build()


class Loads:
    """A library, and the programs that it loaded."""

    def __init__(self, size: int = 100) -> None:
        self.runs: list[tuple[int, list[str]]] = []
        self.fails = False
        self.library = ProgramLibrary(size, self._load)

    def _load(self, run: Run) -> None:
        self.library.submitted()  # loading is a submission too
        if self.fails:
            raise RuntimeError("refused")
        self.runs.append((run[0], [each.name for each in run[1]]))

    def entries(self, *programs: Program) -> list[int]:
        return self.library.entries(programs)


A, B, C, D = program("a", 40), program("b", 30), program("c", 20), program("d", 35)


def test_first_fit_and_one_run_for_neighbours() -> None:
    loads = Loads()
    assert loads.entries(A, B) == [0, 40]
    assert loads.runs == [(0, ["a", "b"])]
    assert loads.entries(B, C, A) == [40, 70, 0]
    assert loads.runs == [(0, ["a", "b"]), (70, ["c"])]


def test_the_least_recently_used_leaves() -> None:
    loads = Loads()
    for each in (A, B, C):
        loads.entries(each)
        loads.library.submitted()
    loads.entries(A)
    loads.library.submitted()
    assert loads.entries(D) == [40]  # b and c, which follows it, are evicted
    loads.library.submitted()
    assert loads.entries(A) == [0]
    assert [names for _, names in loads.runs] == [["a"], ["b"], ["c"], ["d"]]


def test_what_was_asked_for_stays_until_the_next_submission() -> None:
    loads = Loads()
    loads.entries(A)
    loads.entries(B)
    with pytest.raises(NpuProgramMemoryError) as error:
        loads.entries(D)
    assert error.value.programs == ("d",)
    assert (error.value.words, error.value.size) == (105, 100)
    assert loads.entries(C) == [70]
    loads.library.submitted()
    assert loads.entries(D) == [0]


def test_several_at_once_stay_together() -> None:
    loads = Loads()
    loads.entries(A, B, C)
    loads.library.submitted()
    assert loads.entries(D, A) == [40, 0]


def test_too_large() -> None:
    loads = Loads()
    with pytest.raises(
        NpuProgramMemoryError, match=r"big: 101 instructions are needed at once, .* holds 100"
    ):
        loads.entries(program("big", 101))
    assert loads.entries(program("fits", 100)) == [0]


def test_programs_with_the_same_words_are_one() -> None:
    loads = Loads()
    assert loads.entries(A) == loads.entries(program("a", 40))
    assert len(loads.runs) == 1


def test_a_failed_load_leaves_nothing_behind() -> None:
    loads = Loads()
    loads.fails = True
    refuses(RuntimeError, None, loads.entries, A)
    loads.fails = False
    loads.entries(A)
    assert loads.runs == [(0, ["a"])]


def test_forgotten_programs_are_loaded_again() -> None:
    loads = Loads()
    loads.entries(A)
    loads.library.forget()
    assert loads.entries(B, A) == [0, 30]


def value_of(npu: Device, which: Program) -> int:
    """Return the number that a program writes."""
    out = npu.empty(1, np.int32)
    npu.vector(which, rows=1, cols=1, output=Stream(out.ptr))
    return int(out.to_numpy()[0])


def test_each_program_is_loaded_once(npu: Device) -> None:
    before = npu.counters()["commands"]
    assert value_of(npu, A) == ord("a")
    assert npu.counters()["commands"] == before + 2
    assert value_of(npu, A) == ord("a")
    assert npu.counters()["commands"] == before + 3
    npu.load_programs([B, C, D])
    assert npu.counters()["commands"] == before + 4
    assert [value_of(npu, each) for each in (D, B, C)] == [ord("d"), ord("b"), ord("c")]


def test_more_programs_than_fit() -> None:
    with echo_npu.open("cmodel", config="small") as npu:
        many = [program(f"p{i}", 900 + i) for i in range(9)]
        for _ in range(2):
            for each in many:
                assert value_of(npu, each) == sum(each.name.encode())
        refuses(NpuProgramMemoryError, None, npu.load_programs, many)
        assert value_of(npu, many[0]) == sum(b"p0")


def test_a_reset_loads_again(npu: Device) -> None:
    value_of(npu, A)
    npu.reset()
    assert value_of(npu, A) == ord("a")
    assert npu.counters()["commands"] == 2


def test_commands_of_several_programs_in_one_submission(npu: Device) -> None:
    outs = [npu.empty(1, np.int32) for _ in range(3)]
    submission: list[Packet] = []
    for each, out in zip((A, B, C), outs, strict=True):
        entry = npu.load_program(each)
        submission += vector_command(entry, rows=1, cols=1, output=Stream(out.ptr)).packets()
    npu.execute(submission)
    assert [int(out.to_numpy()[0]) for out in outs] == [ord("a"), ord("b"), ord("c")]


def test_memory_is_given_back(npu: Device) -> None:
    npu.load_program(A)
    assert all(region.used == 0 for region in npu.memory_statistics().values())


def test_a_program_that_breaks_a_rule_is_named(npu: Device) -> None:
    out = npu.empty(2, np.int32)
    entry = npu.load_program(C)
    with pytest.raises(NpuDeviceError, match="BAD_PROGRAM") as error:
        npu.vector(C, rows=1, cols=1, output=Stream(out.ptr, seg_len=2))
    assert error.value.code == ErrorCode.BAD_PROGRAM
    assert error.value.address == entry + len(C) - 1
    npu.clear_error()
    assert value_of(npu, C) == ord("c")


def test_gather(npu: Device) -> None:
    table = np.arange(70, dtype=np.float32).reshape(10, 7)
    indices = np.array([3, 0, 9, 3], dtype=np.int32)
    on_device, picked = npu.tensor(table, region="weight"), npu.tensor(indices)
    out = npu.empty((4, 7))
    npu.gather(on_device.ptr, picked.ptr, out.ptr, rows=4, row_bytes=28, table_rows=10)
    assert np.array_equal(out.to_numpy(), table[indices])
    picked.copy_from(np.array([3, 0, -1, 10], dtype=np.int32))
    with pytest.raises(NpuDeviceError) as error:
        npu.gather(on_device.ptr, picked.ptr, out.ptr, rows=4, row_bytes=28, table_rows=10)
    assert (error.value.code, error.value.address) == (ErrorCode.BAD_INDEX, picked.ptr + 8)
