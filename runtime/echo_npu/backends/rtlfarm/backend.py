"""The backend rtlfarm: the functional model runs ahead, RTL simulations follow in chunks."""

from __future__ import annotations

import atexit
import itertools
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.backends.base import BatchBackend, LaterCounters, check_register, refuse_options
from echo_npu.backends.rtlfarm.blame import blame
from echo_npu.backends.rtlfarm.chunk import ChunkResult, Deviation, RunChunk
from echo_npu.backends.rtlfarm.cluster import DaskWorkers
from echo_npu.backends.rtlfarm.names import ProgramNames
from echo_npu.backends.rtlfarm.options import FarmOptions
from echo_npu.backends.rtlfarm.pool import LocalWorkers, Workers
from echo_npu.backends.rtlfarm.progress import FarmProgress
from echo_npu.backends.rtlfarm.recorder import Recorder
from echo_npu.backends.rtlfarm.runner import ChunkRunner
from echo_npu.backends.rtlfarm.totals import Interval, Totals
from echo_npu.errors import BackendError, NpuBusError, RtlMismatchError
from echo_npu.model.functional import FunctionalModel
from echo_npu.model.memory import DeviceMemory, memory_map_of
from echo_npu.register_ops import ReadReg, RegisterOp, WaitIrq, WriteReg
from echo_npu.spec import registers as regs
from echo_npu.spec.status import END_IRQS
from echo_sim.config import absolute, load_config

_LOW_WORDS: Final = {getattr(regs, name): name.lower() for name in regs.COUNTERS}
_HIGH_WORDS: Final = {offset + 4 for offset in _LOW_WORDS}
# The interrupts of single commands are off: there may be any number of those.
_LAST_WAIT: Final = (
    WriteReg(regs.IRQ_ENABLE, END_IRQS),
    WaitIrq(1_000_000),
    WriteReg(regs.IRQ_STATUS, END_IRQS),
    ReadReg(regs.STATUS),
)
_LAST_WAITS: Final = 100

_KEEPING: Final = threading.Lock()
"""While a chunk is written to its file: several farms of a process may find something at once."""

MakeWorkers = Callable[
    [Callable[[RunChunk, ChunkResult], None], Callable[[Exception], None]],
    Workers,
]


def _free(folder: Path, name: str) -> Path:
    """Return a chunk's path that no other farm of this process, and no process of the same number, has."""
    names = itertools.chain([name], (f"{name}-{count}" for count in itertools.count(2)))
    return next(path for path in (folder / f"{each}.chunk" for each in names) if not path.exists())


class _MarkedCounters:
    """The counters at a mark."""

    def __init__(self, farm: RtlfarmBackend, number: int) -> None:
        self._farm = farm
        self._number = number

    @property
    def known(self) -> bool:
        return self._farm.marked(self._number) is not None

    def wait(self) -> dict[str, int]:
        if not self.known and not self._farm.closed:
            self._farm.settle()
        counters = self._farm.marked(self._number)
        if counters is None:
            why = "the farm was closed before" if self._farm.closed else "the device was not at rest"
            raise BackendError(f"the counters are not known: {why}")
        return counters


class RtlfarmBackend(BatchBackend):
    """The functional model, and RTL simulations that check chunk after chunk of what it did.

    Results come from the model at once. Counters are those of the RTL: reading one waits for all chunks.
    Time-outs of the host are not enforced, since nobody knows yet how long the RTL takes.

    A program that ends without `close()` waits for its chunks as well, unless an exception ends it. An error
    is printed then.

    Attributes: options, model, workers, closed.

    Raises (any method):
        RtlMismatchError: a chunk differs. Every later call raises it too.
        SimulatorError: a chunk could not be simulated.
    """

    name = "rtlfarm"
    description = "the RTL on many cores: the functional model runs ahead, every chunk is checked"
    has_cycles = True
    shares_memory = True

    def __init__(self, config: str, options: FarmOptions, make_workers: MakeWorkers) -> None:
        self.options = options
        hardware = load_config(config)
        self.memory = DeviceMemory(memory_map_of(hardware))
        self.model = FunctionalModel(hardware, self.memory)
        self._random = np.random.default_rng(options.seed)
        self._totals = Totals()
        self._counted = threading.Lock()  # guards the totals and the two below
        self._deviations: list[tuple[RunChunk, Deviation]] = []
        self._failure: Exception | None = None
        self._raised = False
        self._marks = 0
        self._abandoned = False
        self._submitting = False  # the model stands still between two commands
        self.closed = False
        self._pid = os.getpid()
        self._progress = FarmProgress(enabled=options.progress)
        self._high: dict[int, int] = {}  # the high words that the last reads of the low ones latched
        self._recorder = Recorder(
            self.model,
            load_config(config),
            absolute(config),
            options.simulation().knobs(),
            options.chunk_cycles,
            self._submit,
        )
        self._names = ProgramNames(self._recorder.describe)
        self.workers = make_workers(self._checked, self._failed)

    @classmethod
    def open(cls, config: str, options: Mapping[str, Any]) -> RtlfarmBackend:
        refuse_options(cls.name, options, [option.name for option in fields(FarmOptions)])
        chosen = FarmOptions(**options)
        load_config(config)
        config = absolute(config)  # simulations start later too, when the program may be in another folder
        first = None
        if chosen.executor is None:
            # The first simulation is started here, so that what prevents it is known at once.
            first = ChunkRunner(config, chosen.simulation())

        def workers(
            on_result: Callable[[RunChunk, ChunkResult], None], on_failure: Callable[[Exception], None]
        ) -> Workers:
            if first is None:
                return DaskWorkers(str(chosen.executor), chosen.simulation(), on_result, on_failure)
            return LocalWorkers(config, chosen.simulation(), chosen.jobs, on_result, on_failure, first)

        try:
            farm = cls(config, chosen, workers)
        except BaseException:
            if first is not None:
                first.close()
            raise
        atexit.register(farm._end)  # before the ends of its simulations, which are older
        return farm

    # --- primitives -----------------------------------------------------------------------------------------

    def run(self, ops: Sequence[RegisterOp]) -> list[int]:
        self._check()
        for op in ops:
            if not isinstance(op, WaitIrq):
                check_register(op.offset, op.value if isinstance(op, WriteReg) else 0)
        counters: dict[str, int] = {}
        if any(isinstance(op, ReadReg) and op.offset in _LOW_WORDS for op in ops):
            counters = self._read_counters()
        recorder, model = self._recorder, self.model
        recorder.begin(ops)
        results: list[int] = []
        try:
            for position, op in enumerate(ops):
                recorder.operate(position, waits=isinstance(op, WaitIrq))
                if isinstance(op, WaitIrq):
                    results.append(int(model.wait_irq(op.timeout_cycles)))
                elif isinstance(op, WriteReg):
                    model.write_reg(op.offset, op.value)
                    recorder.rung(op)
                    results.append(0)
                else:
                    value = model.read_reg(op.offset)
                    results.append(self._counter(op.offset, value, counters))
        except NpuBusError:
            recorder.end([], refused=True)
            raise
        except BaseException as error:
            recorder.interrupted(results)
            if not self._submitting:
                self._failed(
                    BackendError(
                        f"{type(error).__name__} has ended the functional model in the middle of a command:"
                        " what the device did since the last wait() was not checked. Open it again"
                    )
                )
            self._submitting = False
            raise
        recorder.end(results)
        return results

    @property
    def shared_memory(self) -> DeviceMemory:
        return self.memory

    def read_mem(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        self._check()
        return self.memory.read(address, nbytes)

    def write_mem(self, address: int, data: NDArray[np.uint8]) -> None:
        self._check()
        self.memory.check(address, data.size)
        self._recorder.writing(address, data)
        self.memory.write(address, data)

    def exposed(self, address: int, nbytes: int) -> None:
        self._recorder.exposed(address, nbytes)

    # --- counters -------------------------------------------------------------------------------------------

    def _read_counters(self) -> dict[str, int]:
        """Return the counters of the RTL; while commands are under way, those of the checked chunks."""
        self.settle()
        with self._counted:
            return self._totals.counters

    def _counter(self, offset: int, value: int, counters: Mapping[str, int]) -> int:
        """Return what a register reads, given the model's value; a low word latches its high word, which is 0
        until then."""
        if offset in _HIGH_WORDS:
            return self._high.get(offset, 0)
        name = _LOW_WORDS.get(offset)
        if name is None:
            return value
        self._high[offset + 4] = counters[name] >> 32
        return counters[name] & 0xFFFF_FFFF

    def counters_later(self) -> LaterCounters:
        self._check()
        number, self._marks = self._marks, self._marks + 1
        self._recorder.mark(number)
        return _MarkedCounters(self, number)

    def marked(self, number: int) -> dict[str, int] | None:
        """Return the counters at a mark; None while they are not known."""
        with self._counted:
            return self._totals.marks.get(number)

    @property
    def cycles(self) -> Interval:
        """Clock cycles of the chunks so far; an estimate if only a sample of them is simulated."""
        with self._counted:
            return self._totals.cycles

    # --- chunks ---------------------------------------------------------------------------------------------

    def _submit(self, chunk: RunChunk) -> None:
        sample = self.options.sample
        if sample is not None and self._random.random() >= sample:
            with self._counted:
                self._totals.add(chunk.number, chunk.estimate, None, chunk.marks, chunk.since_cleared)
        else:
            self._submitting = True
            self.workers.submit(chunk)
            self._submitting = False
        self._show()

    def _checked(self, chunk: RunChunk, result: ChunkResult) -> None:
        with self._counted:
            self._totals.add(chunk.number, chunk.estimate, result)
            if result.deviation is not None:
                self._deviations.append((chunk, result.deviation))
        if result.deviation is not None:
            self.workers.stop()
        self._show()

    def _failed(self, error: Exception) -> None:
        with self._counted:
            self._failure = self._failure or error

    def _show(self) -> None:
        with self._counted:
            done, cycles = self._totals.checked, self._totals.simulated
        self._progress.show(done, self.workers.load, cycles)

    def settle(self) -> None:
        self._check()
        if self._recorder.idle:
            self._recorder.cut()
        self.workers.drain()
        self._show()
        self._check()
        with self._counted:
            lost = self._recorder.count - self._totals.count
        if lost:
            raise BackendError(f"{lost} chunks were not checked: an interrupt came while they were made")

    def _check(self) -> None:
        """Raise what the workers have found, if they have: a difference rather than why others ended."""
        if self._deviations and not isinstance(self._failure, RtlMismatchError):
            self.workers.drain()  # an earlier chunk may differ too
            with self._counted:
                found = min(self._deviations, key=lambda each: each[0].number)
            self._failure = self._mismatch(*found)
        if self._failure is not None:
            self._raised = True
            raise self._failure

    def _mismatch(self, chunk: RunChunk, deviation: Deviation) -> RtlMismatchError:
        found = blame(chunk, deviation)
        what = deviation.what
        if found.address is not None:
            what += f"; first at 0x{found.address:08x}: 0x{found.rtl:02x}, model 0x{found.model:02x}"
        path: Path | None = None
        try:
            with _KEEPING:
                kept = _free(Path(self.options.failures), f"chunk-{os.getpid()}-{chunk.number}")
                chunk.save(kept)
        except OSError as error:  # a full disk must not hide what was found
            what += f" (the chunk could not be kept: {error})"
        else:
            path = kept
        return RtlMismatchError(
            what, chunk=chunk.number, address=found.address, command=found.command, file=path
        )

    # --- the rest -------------------------------------------------------------------------------------------

    @property
    def timeline(self) -> ProgramNames:
        return self._names

    @property
    def waves_hint(self) -> str:
        return "A waveform: open the device on the backend rtlmodel with waves=True."

    def info(self) -> dict[str, Any]:
        with self._counted:
            totals = self._totals
            facts = {
                "chunks": totals.checked,
                "cycles": asdict(totals.cycles),
                "simulated_cycles": totals.simulated,
                "prepare_seconds": totals.prepare_seconds,
                "simulation_seconds": totals.seconds,
            }
        return {"farm": {"jobs": self.options.jobs, "executor": self.options.executor, **facts}}

    def abandon(self) -> None:
        self._abandoned = True

    def _end(self) -> None:
        """Close it at the end of the process; drop what is outstanding if that ends with an exception."""
        self._abandoned = self._abandoned or getattr(sys, "last_type", None) is not None
        self.close()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        atexit.unregister(self._end)
        if os.getpid() != self._pid:  # in a forked child, which has none of the threads
            self.memory.close()
            return
        try:
            if not self._abandoned and self._failure is None:
                for _ in range(_LAST_WAITS):
                    if self._recorder.idle:
                        break
                    self.run(_LAST_WAIT)
                self.settle()
                if not self._recorder.idle:
                    raise BackendError("the device did not come to rest: its last commands were not checked")
        finally:
            self.workers.close()
            self._progress.stop()
            self.memory.close()
        if self._failure is not None and not self._raised and not self._abandoned:
            self._raised = True
            raise self._failure
