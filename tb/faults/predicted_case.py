"""Cases whose every answer the functional model predicts: submissions, results, errors and resets."""

import random
import struct
from collections.abc import Sequence
from typing import Final

from echo_npu.commands.packets import PACKET_BYTES
from echo_npu.spec import registers as regs
from echo_npu.spec.status import END_IRQS
from tb.faults.in_flight import WritePair, control
from tb.faults.packets import Slots, random_packet
from tb.faults.prediction import Written, behind, commands, effort, written_ranges
from tb.faults.script import EXACT, Script
from tb.faults.stage import DROP, EFFORT, RESET_CLOCKS, RING, RING_SLOTS, FaultStage

Range = tuple[int, int]
"""Addresses [start, end)."""

MOST_SLOTS: Final = 14
"""Packets per submission. The window queue never overflows, since timing would decide when."""


class PredictedCase:
    """Base of the cases of both campaigns.

    Attributes:
        script: what the runner executes.
        packets: packets that the device examined: those of executed or refused commands.
        dropped: packets submitted after an error.
        errors: predicted occurrences of each error code.
        notes: description of the case.
    """

    def __init__(self, stage: FaultStage, seed: int) -> None:
        self._rng = random.Random(seed)
        self._stage = stage
        self._device = stage.device
        self._undefined = False  # memory is no longer predicted, so the case must end
        self.script = Script()
        self.packets = self.dropped = 0
        self.errors: dict[int, int] = {}
        self.notes: list[str] = []
        timing(self.script, self._rng)
        stage.ready(self.script)

    def _is_short(self, slots: Sequence[bytes]) -> bool:
        for _, command in commands(
            slots, self._device.programs, self._device.guard, blocks=self._device.has_blocks
        ):
            if command is None:
                return True  # nothing after it is executed
            if effort(command) > EFFORT:
                return False
        return True

    def _is_whole(self, slots: Sequence[bytes]) -> bool:
        """Return whether no command at the end lacks extensions."""
        used = 0
        for part, command in commands(
            slots, self._device.programs, self._device.guard, blocks=self._device.has_blocks
        ):
            used += len(part)
            if command is None:
                return True
        return used == len(slots)

    def _submission(self, slots: Slots, *, by_ring: bool) -> None:
        """Submit packets, and nearly always more of them if the last command lacks extensions."""
        rng, device = self._rng, self._device
        self._prepare()
        put, taken = self._put(slots, by_ring), device.taken
        device.drain()
        while device.waits_for_extension and not device.error:
            if len(slots) >= MOST_SLOTS or rng.random() < 0.0005:
                device.give_up_extension()
                break
            longer = [*slots, rng.choice(rng.choice(self._stage.pool))]
            if rng.random() < 0.3 or not self._is_short(longer):
                longer[-1] = random_packet(rng)
            put.insert(self._put(longer[-1:], by_ring))
            slots = longer
            device.drain()
        self._settle(put, len(slots), taken)

    def _put(self, slots: Slots, by_ring: bool) -> Script:
        """Submit packets, in the model and as a script."""
        if by_ring:
            return self._fill_ring(slots)
        script = Script()
        for slot in slots:
            self._device.submit(slot)
            script.packet(slot)
        return script

    def _prepare(self) -> None:
        """Enable the interrupts that the runner waits for."""
        device = self._device
        if device.peek(regs.IRQ_ENABLE)[0] & END_IRQS != END_IRQS:
            self._write(regs.IRQ_ENABLE, END_IRQS)

    def _write(self, offset: int, value: int) -> None:
        self.script.write((offset, value))
        self._device.write_reg(offset, value)

    def _fill_ring(self, slots: Slots, before: Slots | None = None) -> Script:
        """Write packets into the ring and `before` into the window, then move the tail, in the model and as a
        script."""
        device, script = self._device, Script()
        if device.ring_head >= RING_SLOTS:  # an earlier ring was longer
            self._reset(hard=False)
        enable = regs.CONTROL_RING_ENABLE.mask
        wanted = ((regs.RING_BASE, RING), (regs.RING_SIZE, RING_SLOTS), (regs.CONTROL, enable))
        for offset, value in wanted:
            if device.peek(offset)[0] != value:
                script.write((offset, value))
                device.write_reg(offset, value)
        start = device.ring_head
        for index, slot in enumerate(slots):
            address = RING + PACKET_BYTES * ((start + index) % RING_SLOTS)
            script.memory(address, slot)
            device.host_write(address, slot)
        for slot in before or ():
            device.submit(slot)
            script.packet(slot)
        tail = (start + len(slots)) % RING_SLOTS
        script.write((regs.RING_TAIL, tail))
        device.write_reg(regs.RING_TAIL, tail)
        return script

    def _settle(self, put: Script, slots: int, taken: int) -> None:
        """Let the device execute `put`, which the model has executed, and compare."""
        device, script = self._device, self.script
        left = device.pending
        self.packets += slots - len(left)
        self.dropped += len(left)
        if device.error:
            self.errors[device.error] = self.errors.get(device.error, 0) + 1
        written, vague = device.written, [each for each in device.written if not each.defined]
        allowed = [span for each in written for span in each.ranges]
        open_ranges = [span for each in vague for span in each.ranges]
        if device.error and device.stopped is not None:
            for command in behind(
                device.stopped.packet.on_matrix, left, device.programs, blocks=device.has_blocks
            ):
                open_ranges += written_ranges(command)
        allowed += open_ranges
        if allowed:
            script.allow(allowed)
        script.insert(put)
        script.wait()
        device.waited()
        script.state(device.registers())
        places = self._places(written, open_ranges)
        if places:
            script.check(places, f"the results of commands {taken} to {device.taken - 1}")
        if allowed:
            script.forbid()
        self._undefined |= bool(open_ranges)
        device.written = []

    def _places(self, written: Sequence[Written], vague: Sequence[Range]) -> list[tuple[int, bytes]]:
        """Return every written place outside of `vague` with its predicted contents."""
        memory = self._device.memory.bytes
        places = []
        for each in written:
            if not each.defined:
                continue
            for start, end in each.ranges:
                if not any(low < end and start < high for low, high in vague):
                    places.append((start, memory[start:end].tobytes()))
        return places

    def _clear_error(self) -> None:
        if not self._device.error:
            return
        draw = self._rng.random()
        if draw < 0.05 and not self._undefined:
            self._reset(hard=draw < 0.02)
            return
        self._write(regs.CONTROL, DROP | self._device.peek(regs.CONTROL)[0])

    # --- two writes at a time ---

    def _in_flight(self, pair: WritePair, slots: Slots) -> None:
        """Write two registers, the second before the first is answered, and compare.

        Args:
            pair: the writes; the device is idle, or in ERROR if the pair says so, and its ring is set up.
            slots: the packet in the window, and those in the ring behind its tail; short, legal and whole.
        """
        device, rng = self._device, self._rng
        put, (window, *behind_tail) = Script(), slots
        put.write(
            *((regs.CMD_WINDOW + 4 * i, word) for i, (word,) in enumerate(struct.iter_unpack("<I", window)))
        )
        put.sync_window()
        for index, (word,) in enumerate(struct.iter_unpack("<I", window)):
            device.write_reg(regs.CMD_WINDOW + 4 * index, word)
        tail = device.ring_slots[3]
        for index, slot in enumerate(behind_tail):
            address = RING + PACKET_BYTES * ((tail + index) % RING_SLOTS)
            put.memory(address, slot)
            device.host_write(address, slot)
        writes: list[tuple[int, int]] = []
        moved = 0
        for kind in (pair.first, pair.second):
            if kind == "RING_TAIL":
                moved += 1
                refused = rng.choice((RING_SLOTS, RING_SLOTS + 1, 0xFFFF))
                writes.append((regs.RING_TAIL, refused if pair.refused else (tail + moved) % RING_SLOTS))
            elif kind == "DOORBELL":
                writes.append((regs.DOORBELL, rng.getrandbits(32)))
            elif kind == "IRQ_STATUS":
                writes.append((regs.IRQ_STATUS, rng.randrange(8)))
            elif kind == "WATCHDOG":
                writes.append((regs.WATCHDOG, rng.choice((0, 1 << 20, 0xFFFF_FFFF))))
            else:
                writes.append((regs.CONTROL, control(kind, enabled=rng.random() < 0.7)))
        put.write(*writes, late=pair.late)
        taken = device.taken
        device.write_reg(*writes[0])
        if pair.is_second_ignored:
            if writes[1][0] == regs.CONTROL:
                device.write_reg(regs.CONTROL, writes[1][1] & ~regs.CONTROL_RING_ENABLE.mask)
        else:
            device.write_reg(*writes[1])
        if "soft_reset" in (pair.first, pair.second):
            device.write_reg(regs.CONTROL, device.peek(regs.CONTROL)[0] & ~regs.CONTROL_RING_ENABLE.mask)
            put.wait(poll=16)
            put.sync_window()
        submitted = len(device.pending)
        device.drain()
        self._settle(put, submitted, taken)
        compared = ("CONTROL", "WATCHDOG", "RING_HEAD", "RING_TAIL", "CMD_WINDOW")
        offsets = [regs.REGISTERS[name].offset for name in compared]
        self.script.read(
            offsets,
            [(device.peek(offset)[0], EXACT, name) for name, offset in zip(compared, offsets, strict=True)],
        )

    # --- resets ---

    def _reset(self, *, hard: bool) -> None:
        """Reset a device that is idle or stopped."""
        script, device = self.script, self._device
        if hard:
            script.reset(self._rng.choice(RESET_CLOCKS))
            self._stage.ready(script)
            return
        script.write((regs.CONTROL, regs.CONTROL_SOFT_RESET.mask))
        script.wait(poll=16)
        script.sync_window()
        device.write_reg(regs.CONTROL, regs.CONTROL_SOFT_RESET.mask)
        script.state(device.registers())


def timing(script: Script, rng: random.Random) -> None:
    """Draw memory timing; mostly fast, so that more cases fit into the same time."""
    slow = rng.random() < 0.25
    script.knob("read_latency", rng.randint(1, 60) if slow else rng.randint(1, 6))
    script.knob("write_latency", rng.randint(1, 60) if slow else rng.randint(1, 6))
    reorder = rng.random() < 0.5
    script.knob("reorder", int(reorder))
    script.knob("seed", rng.getrandbits(31))
    script.knob("early_read", rng.choice((0, 0x8000, 0x10000)))
    for channel in ("aw", "w", "b", "ar", "r"):
        stalls = slow and rng.random() < 0.6
        script.knob(f"stall_{channel}", rng.randrange(0xC000) if stalls else 0)
    if reorder and rng.random() < 0.3:  # responses that wait together may overtake each other
        script.knob("stall_b", rng.randrange(0x8000, 0xE000))
