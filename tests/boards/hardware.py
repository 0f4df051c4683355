"""The NPU behind the stand-ins of the drivers: cmodel or the RTL, as a bus sees it, with faults."""

import threading
from collections.abc import Callable

from echo_npu.backends.base import Backend
from echo_npu.backends.board.transport import WINDOW_BYTES
from echo_npu.backends.cmodel import CmodelBackend
from echo_npu.errors import NpuBusError
from echo_npu.model.functional import FunctionalModel
from echo_npu.register_ops import ReadReg, RegisterOp, WaitIrq, WriteReg
from echo_npu.spec import registers as regs

ALL_ONES = 0xFFFF_FFFF
STEP_CYCLES = 20_000


class HardwareBehind:
    """Registers, memory and interrupt of a backend, as they look from the host's side of a bus.

    Attributes:
        raised: called at each rising edge of the interrupt.
        gone: reads return all ones, and writes are lost, as on a PCIe bus without the card, and as behind the
            register window.
        silent: rising edges of the interrupt are not told.
        lies: registers that read as something else.
        stores: writes of registers so far.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.raised: Callable[[], None] = lambda: None
        self.gone = self.silent = False
        self.lies: dict[int, int] = {}
        self.stores = 0
        self.lock = threading.RLock()
        self._high = False

    def load(self, offset: int) -> int:
        if not self._answers(offset):
            return ALL_ONES
        return self.lies.get(offset, self._access(ReadReg(offset)))

    def store(self, offset: int, value: int) -> None:
        self.stores += 1
        if self._answers(offset):
            self._access(WriteReg(offset, value))

    def _answers(self, offset: int) -> bool:
        return not self.gone and offset < WINDOW_BYTES

    def _access(self, op: RegisterOp) -> int:
        with self.lock:
            try:
                if isinstance(self.backend, CmodelBackend):  # whose wait takes any time
                    (value,) = self.backend.run([op])
                    high = self.backend.model.irq
                else:
                    value, level = self.backend.run([op, WaitIrq(0)])
                    high = bool(level)
            except NpuBusError:  # SLVERR: a bridge answers a read with all ones, and drops a write
                return ALL_ONES
            self._see(high)
        return value

    def advance(self) -> None:
        """Let time pass."""
        with self.lock:
            self._see(not self.gone and self.backend.wait_irq(STEP_CYCLES))

    def _see(self, high: bool) -> None:
        rose = high and not self._high
        self._high = high
        if rose and not self.silent:
            self.raised()

    def power_cycle(self) -> None:
        """Reset the NPU as its reset input would: memory stays here, every register is lost."""
        with self.lock:
            if isinstance(self.backend, CmodelBackend):
                config = self.backend.model._config
                self.backend.model = FunctionalModel(config, self.backend.memory)
            else:
                self.backend.run([WriteReg(regs.CONTROL, 1), WriteReg(regs.IRQ_ENABLE, 0)])
            self._high = False
