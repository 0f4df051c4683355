"""Packet programs that any simulator of the RTL can replay: memory before, packets, memory after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

import echo_npu
from echo_npu.backends.cmodel import CmodelBackend
from echo_npu.commands.packets import PACKET_BYTES
from echo_npu.device import Device
from echo_npu.model.memory import DeviceMemory
from echo_npu.models.executor import Executor
from echo_npu.models.transformer import tiny_layer
from echo_npu.spec import registers as regs
from echo_npu.spec.memory_map import ACTIVATION
from echo_npu.spec.status import END_IRQS
from echo_sim.config import load_config

RING_SLOTS: Final = 1024
RING_BYTES: Final = RING_SLOTS * PACKET_BYTES
RING_BASE: Final = ACTIVATION.end - RING_BYTES
"""Base of the device's ring, whose contents are not part of the result."""


Content: TypeAlias = tuple[tuple[int, NDArray[np.uint8]], ...]
"""Ranges of memory, as address and bytes; all else is zero."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A packet program.

    Attributes:
        name: what reports call it.
        config: the hardware configuration that it was made for.
        before: device memory before it runs.
        library: packets that fill program memory, to be run once.
        slots: its packets; they leave what they read as it was, so they can be run again.
        idle_cycles: the device rests for so many cycles behind them.
    """

    name: str
    config: str
    before: Content
    library: tuple[bytes, ...]
    slots: tuple[bytes, ...]
    idle_cycles: int = 0

    def repeated(self, name: str, slots: int) -> Replay:
        """The program over and over, until it has at least `slots` packets."""
        return replace(self, name=name, slots=self.slots * -(-slots // len(self.slots)))

    def fill(self, memory: DeviceMemory) -> None:
        """Set `memory` to what the program expects, without traces of an earlier run."""
        for start, end in list(memory.extents()):
            memory.bytes[start:end] = 0
        for address, data in self.before:
            memory.write(address, data)

    def expected(self) -> DeviceMemory:
        """Memory after the program, by the functional model."""
        with echo_npu.open("cmodel", self.config, ring_slots=RING_SLOTS) as device:
            assert isinstance(device.backend, CmodelBackend)
            self.fill(device.backend.memory)
            device.submit_batch(self.slots)
            device.wait()
            result = DeviceMemory()
            for address, data in content(device.backend.memory):
                result.write(address, data)
            return result

    def script(self, ring: DeviceMemory) -> str:
        """The register accesses that run it, for simulators without this runtime; the packets go into `ring`.

        Lines: "registers STATUS IRQ_STATUS BUSY_CYCLES", their offsets; "write OFFSET VALUE"; "wait" until
        all is finished; "spin CYCLES"; "measure": what follows is the program.
        """
        if len(self.slots) >= RING_SLOTS:
            raise ValueError(f"{self.name} has {len(self.slots)} packets; the ring takes {RING_SLOTS - 1}")
        ring.write(RING_BASE, np.frombuffer(b"".join(self.slots), dtype=np.uint8))
        writes = [(regs.IRQ_ENABLE, END_IRQS)]
        for slot in self.library:
            words = np.frombuffer(slot, dtype=np.uint32).tolist()
            writes += [(regs.CMD_WINDOW + 4 * index, word) for index, word in enumerate(words)]
            writes.append((regs.DOORBELL, 1))
        lines = [f"registers {regs.STATUS} {regs.IRQ_STATUS} {regs.BUSY_CYCLES}"]
        lines += [f"write {offset} {value}" for offset, value in writes]
        if self.library:
            lines.append("wait")
        lines += [
            f"write {regs.RING_BASE} {RING_BASE}",
            f"write {regs.RING_SIZE} {RING_SLOTS}",
            f"write {regs.CONTROL} {regs.CONTROL_RING_ENABLE.mask}",
            "measure",
        ]
        if self.slots:
            lines += [f"write {regs.RING_TAIL} {len(self.slots)}", "wait"]
        if self.idle_cycles:
            lines.append(f"spin {self.idle_cycles}")
        return "\n".join(lines) + "\n"


def content(memory: DeviceMemory) -> Content:
    """A copy of what `memory` holds, the ring excepted."""
    kept = []
    for start, end in memory.extents():
        parts = ((start, min(end, RING_BASE)), (max(start, RING_BASE + RING_BYTES), end))
        kept += [(low, memory.bytes[low:high].copy()) for low, high in parts if low < high]
    return tuple(kept)


def same_result(memory: DeviceMemory, expected: DeviceMemory) -> bool:
    """Return whether both hold the same bytes, apart from the ring, which is removed from `memory`."""
    memory.bytes[RING_BASE : RING_BASE + RING_BYTES] = 0
    return not memory.differences(expected)


class _Recorder(CmodelBackend):
    """Functional model that records its packets in `slots`."""

    def __init__(self, config: str) -> None:
        super().__init__(load_config(config))
        self.slots: list[bytes] = []
        self._window = np.zeros(16, dtype=np.uint32)
        self._tail = 0
        self.closed = False

    def write_reg(self, offset: int, value: int) -> None:
        if 0 <= offset - regs.CMD_WINDOW < self._window.nbytes:
            self._window[(offset - regs.CMD_WINDOW) // 4] = value
        elif offset == regs.DOORBELL:
            self.slots.append(self._window.tobytes())
        elif offset == regs.RING_TAIL:
            while self._tail != value:
                address = self.read_reg(regs.RING_BASE) + self._tail * PACKET_BYTES
                self.slots.append(self.read_mem(address, PACKET_BYTES).tobytes())
                self._tail = (self._tail + 1) % self.read_reg(regs.RING_SIZE)
        super().write_reg(offset, value)

    def write_mem(self, address: int, data: NDArray[np.uint8]) -> None:
        if self.closed and not RING_BASE <= address < RING_BASE + RING_BYTES:
            raise RuntimeError("the host writes to memory in the midst of the program: it cannot be replayed")
        super().write_mem(address, data)

    def take(self) -> tuple[bytes, ...]:
        """Return the packets since the last call."""
        taken = tuple(self.slots)
        self.slots.clear()
        return taken


def record(name: str, config: str, prepare: Callable[[Device], Callable[[], object]]) -> Replay:
    """The packets of a computation.

    Args:
        prepare: puts all data into device memory and returns the computation.

    Raises:
        RuntimeError: the computation takes more from the host than packets.
    """
    recorder = _Recorder(config)
    with Device(recorder, config=config, ring_slots=RING_SLOTS) as device:
        library = recorder.take()
        compute = prepare(device)
        before = content(recorder.memory)
        recorder.take()
        recorder.closed = True
        compute()
        return Replay(name, config, before, library, recorder.take())


def layer(config: str) -> Replay:
    """The tiny transformer layer of `make transformer`."""

    def prepare(device: Device) -> Callable[[], object]:
        model = tiny_layer()
        executor = Executor(device, echo_npu.open("cmodel", config))
        model.load(executor)
        return lambda: model.compute(executor)

    return record("tiny transformer layer", config, prepare)


def heavy(config: str, size: int = 256) -> Replay:
    """Compute a product, gelu and softmax of `size` x `size` matrices, which keeps both engines busy."""

    def prepare(device: Device) -> Callable[[], object]:
        random = np.random.default_rng(1)
        x = device.tensor(random.standard_normal((size, size)).astype(np.float32))
        weights = random.standard_normal((size, size)) / np.sqrt(size)
        w = device.tensor(weights.astype(np.float32), region="weight")
        y, z = device.empty((size, size)), device.empty((size, size))

        def compute() -> None:
            device.matmul(x, w, out=y)
            device.gelu(y, out=z)
            device.softmax(z, out=y)

        return compute

    return record(f"matmul, gelu, softmax of {size} x {size}", config, prepare)
