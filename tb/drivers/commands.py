"""Submit command packets as a host does, through the command window or the ring in device memory."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from cocotb.triggers import Timer

from echo_npu.commands.packets import PACKET_BYTES, Packet, packet_bytes
from echo_npu.register_ops import ReadReg, RegisterOp, WriteReg
from echo_npu.spec import registers as regs
from echo_npu.spec.status import State
from tb.drivers.memory import MemoryDriver
from tb.drivers.registers import CLOCK_NS, RegisterDriver
from tb.scoreboards.commands import STATE_REGISTERS, device_state

Path = Literal["window", "ring"]

ALL_IRQS = regs.IRQ_STATUS_DONE.mask | regs.IRQ_STATUS_ERROR.mask | regs.IRQ_STATUS_COMMAND.mask


class DeviceHangError(RuntimeError):
    """The device was still busy after the allowed time; the message shows its registers."""


class CommandDriver:
    """Submission through window and ring, waiting, and error handling."""

    def __init__(self, registers: RegisterDriver, memory: MemoryDriver, queue_depth: int) -> None:
        self._registers = registers
        self._memory = memory
        self._depth = queue_depth
        self._ring_base = 0
        self._ring_slots = 0
        self._tail = 0

    async def setup_ring(self, base: int, slots: int) -> None:
        """Set the ring's base (a multiple of 64) and size, and enable it."""
        self._ring_base, self._ring_slots, self._tail = base, slots, 0
        await self._registers.run(
            [
                WriteReg(regs.RING_BASE, base),
                WriteReg(regs.RING_SIZE, slots),
                WriteReg(regs.CONTROL, regs.CONTROL_RING_ENABLE.mask),
            ]
        )

    async def submit(self, packets: Sequence[Packet], via: Path = "window") -> None:
        """Submit in order. Blocks while queue or ring is full, but does not wait for completion."""
        slots = [packet_bytes(packet) for packet in packets]
        if via == "window":
            await self._submit_window(slots)
        else:
            await self._submit_ring(slots)

    def window_writes(self, slot: bytes) -> list[RegisterOp]:
        """Return the 17 register writes that submit one packet through the window."""
        words = np.frombuffer(slot, dtype="<u4")
        writes: list[RegisterOp] = [
            WriteReg(regs.CMD_WINDOW + 4 * i, int(word)) for i, word in enumerate(words)
        ]
        return [*writes, WriteReg(regs.DOORBELL, 1)]

    async def _submit_window(self, slots: Sequence[bytes]) -> None:
        at = 0
        while at < len(slots):
            status = await self._registers.read(regs.STATUS)
            if regs.STATUS_STATE.get(status) == State.ERROR:
                return  # doorbells are ignored now; the scoreboard judges the resulting state
            room = self._depth - regs.STATUS_QUEUE_LEVEL.get(status)
            batch: list[RegisterOp] = []
            for slot in slots[at : at + room]:
                batch += self.window_writes(slot)
            at += room
            await self._registers.run(batch)
            if room == 0:
                await Timer(50 * CLOCK_NS, "ns")

    async def _submit_ring(self, slots: Sequence[bytes]) -> None:
        if not self._ring_slots:
            raise RuntimeError("submit through the ring before setup_ring")
        at = 0
        while at < len(slots):
            status, head = await self._registers.run([ReadReg(regs.STATUS), ReadReg(regs.RING_HEAD)])
            if regs.STATUS_STATE.get(status) == State.ERROR:
                return
            room = (head - self._tail - 1) % self._ring_slots
            for slot in slots[at : at + room]:
                self._memory.write(self._ring_base + self._tail * PACKET_BYTES, slot)
                self._tail = (self._tail + 1) % self._ring_slots
            at += room
            if room:
                await self._registers.write(regs.RING_TAIL, self._tail)
            else:
                await Timer(50 * CLOCK_NS, "ns")

    def ring_moved(self, tail: int) -> None:
        """Continue at `tail`, because the test itself wrote RING_TAIL."""
        self._tail = tail

    async def wait(self, timeout_cycles: int) -> State:
        """Sleep until the device is idle, using its interrupt, and return the state.

        Raises DeviceHangError: busy for `timeout_cycles` in which no command retired.
        """
        left, retired_before = timeout_cycles, -1
        while True:
            # Clear before reading, so that no interrupt in between is lost.
            _, _, status, retired = await self._registers.run(
                [
                    WriteReg(regs.IRQ_ENABLE, regs.IRQ_STATUS_DONE.mask | regs.IRQ_STATUS_ERROR.mask),
                    WriteReg(regs.IRQ_STATUS, ALL_IRQS),
                    ReadReg(regs.STATUS),
                    ReadReg(regs.RETIRED),
                ]
            )
            state = State(regs.STATUS_STATE.get(status))
            if state != State.BUSY:
                return state
            if retired != retired_before:
                left, retired_before = timeout_cycles, retired
            elif left <= 0:
                raise DeviceHangError(
                    f"busy, and nothing retired in {timeout_cycles} cycles: {await self.describe()}"
                )
            left = left // 2 if await self._registers.wait_irq(left) else 0

    async def settle(self, timeout_cycles: int) -> State:
        """Poll until the device is idle and return the state. Does not touch the interrupt registers.

        Raises DeviceHangError: still busy after `timeout_cycles`.
        """
        pause, left = 20, timeout_cycles
        while True:
            state = State(regs.STATUS_STATE.get(await self._registers.read(regs.STATUS)))
            if state != State.BUSY:
                return state
            if left <= 0:
                raise DeviceHangError(f"still busy after {timeout_cycles} cycles: {await self.describe()}")
            await Timer(pause * CLOCK_NS, "ns")
            left -= pause
            pause = min(2 * pause, 1000)

    async def ring_doorbells(self, packets: Sequence[Packet]) -> None:
        """Submit through the window without checking for room."""
        writes = [write for packet in packets for write in self.window_writes(packet_bytes(packet))]
        await self._registers.run(writes)

    async def bad_tail(self, *, enabled: bool, back: int = 0) -> None:
        """Write a tail that the device must refuse.

        It is `back` slots behind the current one if `back` is not 0. Else it lies beyond the ring, or, if not
        `enabled`, the ring is disabled first.
        """
        if back:
            await self._registers.write(regs.RING_TAIL, (self._tail - back) % self._ring_slots)
        elif enabled:
            await self._registers.write(regs.RING_TAIL, self._ring_slots)
        else:
            await self._registers.run([WriteReg(regs.CONTROL, 0), WriteReg(regs.RING_TAIL, 0)])

    async def clear_error(self) -> int:
        """Leave the ERROR state and return the slot at which the ring continues.

        Everything submitted before is dropped. The ring is empty and enabled again.
        """
        await self._registers.write(
            regs.CONTROL,
            regs.CONTROL_RING_ENABLE.put(int(self._ring_slots > 0)) | regs.CONTROL_CLEAR_ERROR.mask,
        )
        self._tail = await self._registers.read(regs.RING_HEAD)
        return self._tail

    async def provoke_reset(self, *, doorbells: bool) -> None:
        """Start a soft reset without waiting for it.

        With `doorbells`, also ring both doorbells and clear an error during the reset, which the device must
        ignore.
        """
        operations: list[RegisterOp] = [WriteReg(regs.CONTROL, regs.CONTROL_SOFT_RESET.mask)]
        if doorbells:
            operations += [WriteReg(regs.DOORBELL, 1), WriteReg(regs.RING_TAIL, 1)]
            operations.append(WriteReg(regs.CONTROL, regs.CONTROL_CLEAR_ERROR.mask))
        await self._registers.run(operations)

    async def soft_reset(self, timeout_cycles: int = 100_000) -> None:
        """Reset the device through its register. The ring must be set up again.

        Raises:
            DeviceHangError: the reset, which waits for bus traffic to end, takes more than `timeout_cycles`.
        """
        self._ring_slots = self._tail = 0
        await self._registers.write(regs.CONTROL, regs.CONTROL_SOFT_RESET.mask)
        # The end of a reset raises no interrupt, so poll.
        for _ in range(timeout_cycles // 50):
            if regs.STATUS_STATE.get(await self._registers.read(regs.STATUS)) == State.IDLE:
                return
            await Timer(50 * CLOCK_NS, "ns")
        raise DeviceHangError(
            f"a soft reset is not over after {timeout_cycles} cycles: {await self.describe()}"
        )

    async def describe(self) -> str:
        """Describe the state, error and progress registers."""
        offsets = (*STATE_REGISTERS, regs.RING_HEAD, regs.RING_TAIL)
        *state, head, tail = await self._registers.run([ReadReg(offset) for offset in offsets])
        level = regs.STATUS_QUEUE_LEVEL.get(state[0])
        return f"{device_state(state)}, queue {level}, ring head {head} tail {tail}"
