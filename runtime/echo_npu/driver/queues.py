"""The two ways to submit commands: the command window with its queue, and the ring in memory.

The slots of a command are submitted together, since the device waits for the extensions that a command
announces.
"""

import struct
from collections.abc import Callable, Sequence

import numpy as np

from echo_npu.address_registers import write_address
from echo_npu.backends.base import Backend
from echo_npu.commands.command import Command
from echo_npu.commands.packets import PACKET_BYTES
from echo_npu.register_ops import ReadReg, RegisterOp, WriteReg
from echo_npu.spec import registers as regs


class WindowQueue:
    """Submission through the command window: sixteen words and a doorbell for each slot."""

    def __init__(self, backend: Backend, depth: int, drain: Callable[[], None]) -> None:
        self._backend = backend
        self._depth = depth
        self._drain = drain
        self._room = 0  # the queue takes at least this many slots more

    def forget(self) -> None:
        """Regard the queue's level as unknown."""
        self._room = 0

    def submit(self, commands: Sequence[Command]) -> None:
        """Submit in order; when the queue has no room, wait until everything before is finished."""
        ops: list[RegisterOp] = []
        for command in commands:
            size = len(command.slots)
            if self._room < size:
                self._backend.run(ops)
                ops = []
                self._make_room(size)
            self._room -= size
            for slot in command.slots:
                words = struct.unpack("<16I", slot)
                ops += [WriteReg(regs.CMD_WINDOW + 4 * index, word) for index, word in enumerate(words)]
                ops.append(WriteReg(regs.DOORBELL, 1))
        self._backend.run(ops)

    def _make_room(self, needed: int) -> None:
        self._room = self._depth - self._level()
        if self._room < needed:
            self._drain()
            self._room = self._depth - self._level()

    def _level(self) -> int:
        (status,) = self._backend.run([ReadReg(regs.STATUS)])
        return regs.STATUS_QUEUE_LEVEL.get(status)


class Ring:
    """Submission through the ring: packets are written to device memory, and one doorbell starts them all.

    Attributes: enabled (whether CONTROL.ring_enable is to stay set).
    """

    def __init__(self, backend: Backend, base: int, slots: int, drain: Callable[[], None]) -> None:
        self._backend = backend
        self._base = base
        self._slots = slots
        self._drain = drain
        self._tail = 0
        self.enabled = False

    @property
    def memory(self) -> tuple[int, int]:
        """Physical address and bytes."""
        return self._base, self._slots * PACKET_BYTES

    def forget(self, *, reset: bool) -> None:
        """Note that what was submitted was dropped, and after a soft reset that the ring is disabled."""
        self.enabled = self.enabled and not reset
        if self.enabled:
            (self._tail,) = self._backend.run([ReadReg(regs.RING_HEAD)])

    def submit(self, commands: Sequence[Command]) -> None:
        """Submit in order with one doorbell; when the ring is full, wait until all before is finished."""
        if not self.enabled:
            self._enable()
        part: list[bytes] = []
        room = self._room()
        for command in commands:
            if room < len(command.slots):
                self._write(part)
                self._drain()
                part = []
                room = self._room()
            part += command.slots
            room -= len(command.slots)
        self._write(part)

    def _enable(self) -> None:
        ops: list[RegisterOp] = [
            *write_address(regs.RING_BASE, self._base),
            WriteReg(regs.RING_SIZE, self._slots),
            WriteReg(regs.CONTROL, regs.CONTROL_RING_ENABLE.mask),
            ReadReg(regs.RING_HEAD),
        ]
        self._tail = self._backend.run(ops)[-1]
        self.enabled = True

    def _room(self) -> int:
        (head,) = self._backend.run([ReadReg(regs.RING_HEAD)])
        return (head - self._tail - 1) % self._slots  # one slot stays free: a full ring would look empty

    def _write(self, part: Sequence[bytes]) -> None:
        if not part:
            return
        first = min(len(part), self._slots - self._tail)
        for start, slots in ((self._tail, part[:first]), (0, part[first:])):
            if slots:
                data = np.frombuffer(b"".join(slots), dtype=np.uint8)
                self._backend.write_mem(self._base + start * PACKET_BYTES, data)
        self._tail = (self._tail + len(part)) % self._slots
        self._backend.run([WriteReg(regs.RING_TAIL, self._tail)])
