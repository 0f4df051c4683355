"""Accesses to registers, listed for one call of a backend."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from echo_sim.protocol import OPERATION, RegisterOpKind


class ReadReg(NamedTuple):
    """Read the 32-bit register at `offset` bytes in the register window."""

    offset: int


class WriteReg(NamedTuple):
    """Write `value` (u32) to the register at `offset`."""

    offset: int
    value: int


class WaitIrq(NamedTuple):
    """Wait at most `timeout_cycles` until the interrupt is high."""

    timeout_cycles: int


RegisterOp: TypeAlias = ReadReg | WriteReg | WaitIrq


def encoded(ops: Sequence[RegisterOp]) -> NDArray[np.void]:
    """Return the operations as the simulator takes them, `echo_sim.protocol.OPERATION` [n]."""
    return np.array([_encoded(op) for op in ops], dtype=OPERATION)


def _encoded(op: RegisterOp) -> tuple[int, int, int]:
    if isinstance(op, WaitIrq):
        return RegisterOpKind.WAIT, 0, max(op.timeout_cycles, 0)
    if isinstance(op, WriteReg):
        return RegisterOpKind.WRITE, op.offset, op.value
    return RegisterOpKind.READ, op.offset, 0
