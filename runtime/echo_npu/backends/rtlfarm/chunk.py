"""A chunk: a part of a run that an RTL simulation can do alone, with everything that it needs for that."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import pickle
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from echo_npu.backends.rtlfarm.pages import PAGE, MemoryPage
from echo_npu.errors import BackendError
from echo_npu.model.functional import ModelState
from echo_npu.register_ops import ReadReg, RegisterOp, WaitIrq, WriteReg
from echo_npu.spec import registers as regs

_LEAST_SLOTS: Final = 2
"""Of a ring."""

_RING_CONTROL: Final = (
    regs.CONTROL_RING_ENABLE.mask | regs.CONTROL_SOFT_RESET.mask | regs.CONTROL_CLEAR_ERROR.mask
)


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryWrite:
    """The host writes `data` to device memory from `address` on."""

    address: int
    data: bytes


@dataclasses.dataclass(slots=True)
class RegisterBatch:
    """The host does register operations at once.

    Attributes:
        results: what the functional model returned; None if the chunk ends before they are done.
        refused: whether the device refused one of them.
    """

    ops: tuple[RegisterOp, ...]
    results: tuple[int, ...] | None = None
    refused: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class CounterMark:
    """The host wants to know the counters at this moment, in which the device is idle."""

    number: int


HostAction = MemoryWrite | RegisterBatch | CounterMark


@dataclasses.dataclass(frozen=True, slots=True)
class Boundary:
    """A cut between two commands of a ring while the engines work.

    Attributes:
        retired: commands since reset up to the cut; it is at the moment when the last of them retires.
        slot: address of that command's packet.
    """

    retired: int
    slot: int


@dataclasses.dataclass(frozen=True, slots=True)
class EndState:
    """The registers at the end. A device in state ERROR has the others too."""

    state: int
    code: int
    error_index: int
    error_address: int
    retired: int
    head: int


@dataclasses.dataclass(frozen=True)
class RunChunk:
    """Part of a run, from a state between two commands.

    What is simulated is longer than what counts: the first host actions, or the commands up to `start`, warm
    the device up, and the commands behind `end` load it as in the whole run. Memory is compared at the end of
    all of it.

    Attributes:
        number: from 0, in the order of the run.
        config: the hardware configuration.
        knobs: settings of the memory model.
        state: registers, queues and program memory at the beginning.
        pages: the memory that the chunk's commands touch, by page number, as they find it. All other memory
            reads as zero.
        actions: of the host, in order. If commands wait in `state`, the first one waits for them.
        warm: host actions before the one with which the chunk counts.
        start: where it begins to count inside the first action; None: behind the first `warm` actions.
        end: where the next chunk begins to count; None: at the end of the last action.
        end_tail: with `end`, the ring's slot behind the last command that is simulated.
        final: digests of the pages that differ from `pages` at the end.
        undefined: pages that a failed command was to write, whose content nobody knows.
        last: the registers at the end.
        programs: the words of program memory at the end, as in `state`.
        commands: how many count.
        estimate: cycles, roughly.
        since_cleared: those of them since the host last cleared the counters; None: it did not.
        names: of vector programs by their entry, as far as known at the end.
    """

    number: int
    config: str
    knobs: Mapping[str, float]
    state: ModelState
    pages: Mapping[int, MemoryPage]
    actions: Sequence[HostAction]
    warm: int
    start: Boundary | None
    end: Boundary | None
    end_tail: int
    final: Mapping[int, bytes]
    undefined: frozenset[int]
    last: EndState
    programs: bytes
    commands: int
    estimate: float
    since_cleared: float | None
    names: Mapping[int, str]

    @property
    def marks(self) -> list[int]:
        """Numbers of the marks that count."""
        return [each.number for each in self.actions[self.warm :] if isinstance(each, CounterMark)]

    @property
    def timing(self) -> dict[str, float]:
        """The knobs with a seed of the chunk's own, so that its stalls depend on nothing that ran before."""
        return {**self.knobs, "seed": zlib.crc32(f"{self.knobs['seed']} {self.number}".encode())}

    @property
    def ring_shift(self) -> int:
        """Slots that a ring without its first ones may lack, so that the device begins at slot 0 of the rest.

        0 if the chunk comes to the ring's end, or sets the ring up.
        """
        state, head = self.state, self.state.head
        base, size = state.ring
        high = state.stored[regs.RING_BASE_HIGH] << 32
        here = (high | state.stored[regs.RING_BASE], state.stored[regs.RING_SIZE]) == (base, size)
        if not state.ring_enabled or not here or size - head < _LEAST_SLOTS:
            return 0
        tails = [head, state.tail]
        for op in (op for each in self.actions if isinstance(each, RegisterBatch) for op in each.ops):
            if not isinstance(op, WriteReg):
                continue
            if op.offset in (regs.RING_BASE, regs.RING_BASE_HIGH, regs.RING_SIZE):
                return 0
            if op.offset == regs.CONTROL and op.value & _RING_CONTROL != regs.CONTROL_RING_ENABLE.mask:
                return 0
            if op.offset == regs.RING_TAIL:
                tails.append(op.value)
        passed = tails != sorted(tails) or self.last.head < head
        return 0 if passed or (self.end is not None and self.end_tail < head) else head

    @property
    def nbytes(self) -> int:
        """Bytes of its pages and of what the host writes."""
        writes = (each.data for each in self.actions if isinstance(each, MemoryWrite))
        return len(self.pages) * PAGE + sum(map(len, writes))

    def save(self, path: Path) -> None:
        """Write it to a file that `load` reads. OSError as usual."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        try:
            with gzip.open(part, "wb", compresslevel=1) as file:
                file.write(_MAGIC)
                pickle.dump(self, file, protocol=pickle.HIGHEST_PROTOCOL)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path) -> RunChunk:
        """Read a file that `save` wrote. It is a pickle: read only files that you trust.

        Raises:
            BackendError: the file is no chunk, or of another version of this package.  OSError: as usual.
        """
        what = f"{path} is no chunk of this version of echo-npu"
        try:
            with gzip.open(path, "rb") as file:
                content = file.read()  # to its end, where the checksum is
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise BackendError(f"{what}: {error}") from None
        if not content.startswith(_MAGIC):
            raise BackendError(what)
        try:
            chunk = pickle.loads(memoryview(content)[len(_MAGIC) :])
        except Exception as error:  # what a pickle of other classes raises is theirs
            raise BackendError(f"{what}: {error}") from None
        names = {each.name for each in dataclasses.fields(cls)}
        if not isinstance(chunk, cls) or vars(chunk).keys() != names:
            raise BackendError(what)
        return chunk


def _layout() -> str:
    """Return a hash of the fields of what is in a chunk: a pickle has their values by place, not by name."""
    classes = (RunChunk, ModelState, MemoryWrite, RegisterBatch, CounterMark, Boundary, EndState)
    fields = [(each.__name__, *(field.name for field in dataclasses.fields(each))) for each in classes]
    fields += [(each.__name__, *each._fields) for each in (ReadReg, WriteReg, WaitIrq)]
    registers = sorted((name, value) for name, value in vars(regs).items() if isinstance(value, int))
    return hashlib.blake2b(repr((fields, registers)).encode(), digest_size=8).hexdigest()


_MAGIC: Final = f"echo-npu chunk {_layout()}\n".encode()


@dataclasses.dataclass(frozen=True, slots=True)
class Deviation:
    """How the RTL differs from the functional model.

    Attributes:
        what: as a sentence's end.
        pages: the RTL's content of pages that differ, by page number; the first few.
        done: commands of the chunk, with its warm-up, that had retired when it stopped; None if it did not.
    """

    what: str
    pages: Mapping[int, bytes] = dataclasses.field(default_factory=dict)
    done: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ChunkResult:
    """What a simulation of a chunk gave.

    Attributes:
        number: of the chunk.
        cycles: clock cycles that count.
        counters: of the device, since `cleared` or else over the cycles that count, by name.
        cleared: whether the host cleared the counters within the cycles that count.
        simulated: clock cycles, with preparation, warm-up and what lies behind the end.
        seconds: wall time of all of it.
        prepare_seconds: of that, to bring the device into its state.
        deviation: None if everything was equal.
        marks: by their numbers, the counters as in `counters` up to there, and whether they were cleared.
    """

    number: int
    cycles: int
    counters: Mapping[str, int]
    cleared: bool
    simulated: int
    seconds: float
    prepare_seconds: float
    deviation: Deviation | None = None
    marks: Mapping[int, tuple[bool, Mapping[str, int]]] = dataclasses.field(default_factory=dict)
