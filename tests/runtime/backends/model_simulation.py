"""A functional model in place of a farm's RTL simulations: the farm itself is judged without building one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar, Final

import pytest

import echo_npu
from echo_npu.backends.cmodel import CmodelBackend
from echo_npu.backends.rtlfarm import runner
from echo_npu.backends.rtlmodel import Options
from echo_npu.commands.checked import CheckedCommand
from echo_npu.commands.command import Command
from echo_npu.model import functional
from echo_npu.model.memory import DeviceMemory
from echo_npu.register_ops import ReadReg, RegisterOp, WriteReg
from echo_npu.spec import registers as regs
from echo_npu.spec.status import State
from echo_sim.config import load_config

CONFIG: Final = "small"

_CLEARS: Final = regs.CONTROL_CLEAR_COUNTERS.mask | regs.CONTROL_SOFT_RESET.mask

Harm = Callable[[Command, DeviceMemory], None]
"""What the RTL does wrong before it executes a command."""


def cost(command: Command) -> int:
    """Return the clock cycles of a command, which its bytes behind the flags decide."""
    return 20 + sum(command.slots[0][8:]) % 97


class ModelSimulation(CmodelBackend):
    """Takes the place of `RtlmodelBackend`.

    Time passes in commands, as `cost` says, and while the host reads a register of a device at rest.

    Attributes: timing (each call of `set_memory_timing`), closed.
    """

    made: ClassVar[list[ModelSimulation]] = []
    harm: ClassVar[Harm | None] = None

    def __init__(self, config: str, options: Options) -> None:
        super().__init__(load_config(config))
        self.options = options
        self.timing: list[dict[str, float]] = [options.knobs()]
        self.closed = False
        self.simulator = SimpleNamespace(waves=None)
        self._clock = self._cleared = self._busy = 0
        self.model.observer = self
        type(self).made.append(self)

    def run(self, ops: Sequence[RegisterOp]) -> list[int]:
        results = []
        for op in ops:
            if isinstance(op, ReadReg) and op.offset in functional._READABLE:
                results.append(self._read(op.offset))
                continue
            (result,) = super().run([op])
            if isinstance(op, WriteReg) and op.offset == regs.CONTROL and op.value & _CLEARS:
                self._cleared, self._busy = self._clock, 0
            results.append(result)
        return results

    def _read(self, offset: int) -> int:
        """Read a register while the device stands still; the model would execute a command."""
        if self.model.state != State.BUSY:
            self._clock += 3
        if offset == regs.BUSY_CYCLES:
            return self._busy
        return self._clock - self._cleared if offset == regs.CYCLES else self.model._value(offset)

    def statistics(self) -> dict[str, float]:
        return {"cycles": self._clock}

    def set_memory_timing(self, knobs: Mapping[str, float]) -> None:
        self.timing.append(dict(knobs))

    def close(self) -> None:
        self.closed = True
        super().close()

    # --- the model's observer -------------------------------------------------------------------------------

    def taking(self) -> None:
        pass

    def executing(self, command: Command, _checked: CheckedCommand) -> None:
        self._clock += cost(command)
        self._busy += cost(command)
        harm = type(self).harm
        if harm is not None:
            harm(command, self.memory)

    def faulted(self) -> None:
        pass


@pytest.fixture
def simulations(monkeypatch: pytest.MonkeyPatch) -> type[ModelSimulation]:
    """Let farms simulate on functional models; return their class, whose `harm` is theirs."""
    monkeypatch.setattr(runner, "RtlmodelBackend", ModelSimulation)
    monkeypatch.setattr(ModelSimulation, "made", [])
    monkeypatch.setattr(ModelSimulation, "harm", None)
    return ModelSimulation


def opened(**options: Any) -> echo_npu.Device:
    """Open the farm; `simulations` is in force."""
    return echo_npu.open("rtlfarm", config=CONFIG, **options)
