"""Run cases in the simulator through its native player (board/cases.cpp) and judge the records."""

import dataclasses
import os
import subprocess
from collections.abc import Mapping, Sequence
from enum import IntEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from echo_npu.model.memory import DeviceMemory
from echo_npu.spec.registers import STATUS_STATE
from echo_npu.spec.status import State, error_name
from echo_sim.build import Kind, as_asked, build
from echo_sim.designs import npu_design
from echo_sim.run import RUNS, coverage_file
from tb.faults.script import Script, save

TIMEOUT_S = 600.0
_HEAD = 6  # header words of a record


class Ending(IntEnum):
    """How a case ended. CRASH: the runner died, as it does if an assertion of the RTL fails."""

    DONE = 0
    HANG = 1
    NO_ANSWER = 2
    VIOLATION = 3
    CRASH = 4


@dataclasses.dataclass(frozen=True)
class Record:
    """Record of a case.

    Attributes:
        ending: how it ended.
        cycles: clock cycles.
        stray_writes: runs of bytes that the device wrote without permission.
        first_stray: address of the first of these.
        words: uint32, what its operations recorded, as far as it got; for a hang, the device's state.
        message: message of the runner.
    """

    ending: Ending
    cycles: int
    stray_writes: int
    first_stray: int
    words: NDArray[np.uint32]
    message: str = ""


_HANG_REGISTERS = (
    "STATUS",
    "ERROR_CODE",
    "ERROR_INDEX",
    "ERROR_ADDR",
    "RETIRED",
    "IRQ_STATUS",
    "RING_HEAD",
    "RING_TAIL",
    "MATRIX_BUSY",
    "VECTOR_BUSY",
    "READ_BEATS",
    "WRITE_BEATS",
)


def judge(script: Script, record: Record) -> list[str]:
    """Describe what is wrong with a case; empty if nothing is."""
    found = []
    if record.stray_writes:
        found.append(
            f"stray write: {record.stray_writes} outside of the destinations, the first at"
            f" 0x{record.first_stray:08x}"
        )
    if record.ending == Ending.HANG:
        state = ", ".join(f"{n} {v:#x}" for n, v in zip(_HANG_REGISTERS, record.words.tolist(), strict=True))
        found.append(f"hang: still busy; {state}")
    elif record.ending == Ending.NO_ANSWER:
        found.append("hang: a register access was not answered")
    elif record.ending == Ending.VIOLATION:
        found.append(f"protocol: {record.message}")
    elif record.ending == Ending.CRASH:
        found.append(f"crash: {record.message}")
    if record.ending not in (Ending.DONE, Ending.VIOLATION):
        return found
    if record.words.size != len(script.wanted):
        return [*found, f"the case recorded {record.words.size} words in place of {len(script.wanted)}"]
    if not script.wanted:
        return found
    wanted = np.array([(value, mask) for value, mask, _ in script.wanted], dtype=np.uint32)
    wrong = np.flatnonzero((record.words ^ wanted[:, 0]) & wanted[:, 1])
    for index in wrong[:4].tolist():
        value, mask, name = script.wanted[index]
        got = int(record.words[index])
        words = ""
        if name == "ERROR_CODE":
            words = f" ({error_name(got)} in place of {error_name(value)})"
        elif name == "STATUS":
            states = [State(STATUS_STATE.get(each)).name for each in (got, value)]
            words = f" ({states[0]} in place of {states[1]})"
        found.append(f"wrong: {name} is 0x{got:x}, not 0x{value & mask:x}{words}")
    if wrong.size > 4:
        found.append(f"and {wrong.size - 4} more")
    return found


class NotReadyError(RuntimeError):
    """The device failed before the first case.

    Attributes:
        wrong: what was wrong.
    """

    def __init__(self, wrong: list[str]) -> None:
        super().__init__(f"the device could not be made ready: {'; '.join(wrong)}")
        self.wrong = wrong


class CaseRunner:
    """Build the simulator if needed and run batches of cases in separate processes.

    Args:
        config: hardware configuration.
        name: of the folder sim_build/runs/<name>; unique among concurrent runs.
        kind: "fast" or "coverage". With the latter, each process leaves a coverage*.dat in that folder or
            where $ECHO_NPU_COVERAGE says.
    """

    def __init__(self, config: str, name: str, kind: Kind = "fast") -> None:
        design = npu_design(config)
        self._program = build(design, kind) / design.top
        self._power_up = 2 if design.random_power_up else 0
        self._kind = as_asked(kind)
        self.directory = RUNS / name
        self.directory.mkdir(parents=True, exist_ok=True)
        for old in self.directory.glob("coverage*.dat"):
            old.unlink()
        self._processes = 0

    def run(
        self,
        images: Mapping[int, bytes],
        routines: Sequence[Script],
        first: Script,
        cases: Sequence[Script],
        seed: int,
    ) -> list[Record]:
        """Execute cases and return their records.

        Args:
            images: initial memory contents by address; zero elsewhere.
            routines: scripts that cases call.
            first: case that each process executes first. A new process starts after a case that did not end
                well.
            seed: of the device's initial state.

        Raises:
            NotReadyError: `first` failed.
            RuntimeError: the player refused the cases, or died after the last one.
        """
        records: list[Record] = []
        while len(records) < len(cases):
            rest = cases[len(records) :]
            done = self._process(images, routines, [first, *rest], seed + self._processes)
            head = judge(first, done[0])
            if head:
                raise NotReadyError(head)
            records += done[1:]
        return records

    def _process(
        self, images: Mapping[int, bytes], routines: Sequence[Script], cases: Sequence[Script], seed: int
    ) -> list[Record]:
        self._processes += 1
        asked, answer = self.directory / "cases", self.directory / "results"
        save(asked, routines, cases)
        answer.unlink(missing_ok=True)
        memory = DeviceMemory()
        for address, data in images.items():
            memory.write(address, np.frombuffer(data, dtype=np.uint8))
        command = [
            *(str(self._program), "--cases", str(asked), str(answer)),
            *(f"+verilator+rand+reset+{self._power_up}", f"+verilator+seed+{seed % 0x7FFF_FFFF + 1}"),
        ]
        if self._kind == "coverage":
            points = coverage_file(self.directory)
            points = points.with_stem(f"{points.stem}-{self._processes}")
            command.append(f"+verilator+coverage+file+{points}")
        try:
            ended = subprocess.run(
                command,
                env={**os.environ, "ECHO_NPU_MEMORY": memory.share_path},
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
            status, said = ended.returncode, (ended.stderr + ended.stdout).strip()
        except subprocess.TimeoutExpired:
            status, said = -1, f"the player did not end within {TIMEOUT_S:.0f} s"
        finally:
            memory.close()
        if status == 2:
            raise RuntimeError(f"the player refused its cases: {said}")
        records = read_records(answer, said)
        if len(records) == len(cases) and status not in (0, 3):
            raise RuntimeError(f"the player ended with status {status} behind its last case: {said[-600:]}")
        if len(records) < len(cases) and status != 3:
            nothing = np.empty(0, dtype=np.uint32)
            words = said[-600:] or f"ended with status {status}"
            records.append(Record(Ending.CRASH, 0, 0, 0, nothing, words))
        return records


def read_records(path: Path, message: str) -> list[Record]:
    """Read a file of results; records that did not end well get `message`."""
    words = np.fromfile(path, dtype="<u4") if path.exists() else np.empty(0, dtype="<u4")
    records: list[Record] = []
    at = 0
    while at + _HEAD <= words.size and at + _HEAD + int(words[at + 5]) <= words.size:
        _, ending, cycles, strays, first, count = words[at : at + _HEAD].tolist()
        body = words[at + _HEAD : at + _HEAD + count]
        records.append(Record(Ending(ending), cycles, strays, first, body, message if ending else ""))
        at += _HEAD + count
    return records
