"""Draws the cases of the fuzz campaign: random packets and random register traffic, and what must come of
it."""

from __future__ import annotations

from typing import Final

from echo_npu import registers as regs
from echo_npu.packets import PACKET_BYTES, Opcode
from echo_npu.status import State
from tb.faults.packets import CORNERS, Slots, fuzzed
from tb.faults.predicted_case import MOST_SLOTS, PredictedCase
from tb.faults.prediction import commands, written_ranges
from tb.faults.script import Script
from tb.faults.stage import IRQS, RESET_CLOCKS, RING, RING_SLOTS, Stage

_TOGETHER: Final = (1, 1, 1, 1, 1, 1, 2, 2, 3, 6)
"""How many of the fuzzer's commands are submitted together."""

OFFSETS: Final = tuple(
    register.offset + index * register.stride + half
    for register in regs.REGISTERS.values()
    for index in range(register.count)
    for half in range(0, register.width // 8, 4)
)
_PLAIN: Final = frozenset(
    (regs.IRQ_ENABLE, regs.RING_BASE, regs.RING_SIZE, *range(regs.CMD_WINDOW, regs.DOORBELL, 4))
)
"""Registers whose writes change nothing but themselves."""
_RINGING: Final = (
    *(regs.RING_BASE, regs.RING_SIZE, regs.RING_TAIL, regs.RING_TAIL),
    *(regs.CONTROL, regs.DOORBELL),
)
"""What decides how the device takes packets: written more often than other registers."""
_SUBMITTING: Final = frozenset((regs.DOORBELL, regs.RING_TAIL))


class FuzzCase(PredictedCase):
    """One case of about so many packets, drawn from a seed of its own.

    Attributes:
        accesses: of registers, beside those that submit packets and read the state.
    """

    def __init__(self, stage: Stage, seed: int, packets: int) -> None:
        super().__init__(stage, seed)
        self.accesses = 0
        while self.packets + self.dropped < packets and not self._undefined:
            self._step()
        last = self._rng.random()
        if last < 0.1 and not self._undefined:
            self._interrupted()
        elif last < 0.2 and not self._undefined:
            self._disturbed()
        stage.finish(self.script)

    def _step(self) -> None:
        draw = self._rng.random()
        if draw < 0.06:
            self._registers()
        elif draw < 0.07:
            self._reset(hard=self._rng.random() < 0.5)
        else:
            self._submission(self._slots(), by_ring=self._rng.random() < 0.5)
            if self._device.error and self._rng.random() < 0.03:
                self._registers()
        self._clear_error()

    # --- packets ---

    def _slots(self) -> Slots:
        """Packets for one submission; no legal command among them takes long."""
        while True:
            slots: Slots = []
            for _ in range(self._rng.choice(_TOGETHER)):
                slots += fuzzed(self._rng, self._stage.pool)
            if len(slots) <= MOST_SLOTS and self._is_short(slots):
                return slots

    def _whole_slots(self) -> Slots:
        """Some commands that run for a while."""
        slots: Slots = []
        while len(slots) < 6:
            more = self._rng.choice(self._stage.pool)
            if self._is_short(more):
                slots += more
        return slots

    def _begin(self) -> None:
        """Submit commands whose progress nobody knows."""
        device, script = self._device, self.script
        slots = self._whole_slots()
        for _, command in commands(slots, device.programs):
            if command is None:
                continue
            if command.packet.opcode == Opcode.LOAD_PROGRAM:
                device.loads.append((command.packet.k, command.packet.m))
            script.allow(written_ranges(command))
        for slot in slots:
            script.packet(slot)
        self.packets += len(slots)
        self._undefined = True

    def _interrupted(self) -> None:
        """A reset in the midst of commands."""
        script, rng = self.script, self._rng
        self._prepare()
        self._begin()
        script.run(rng.randrange(1, rng.choice((30, 300, 1500))))
        if rng.random() < 0.5:
            script.reset(rng.choice(RESET_CLOCKS))
            script.forbid()
            self._stage.ready(script)
        else:
            script.write((regs.CONTROL, regs.CONTROL_SOFT_RESET.mask))
            script.wait(poll=16)
            script.forbid()
        script.run(64)  # nothing comes behind the reset

    def _disturbed(self) -> None:
        """Register traffic of all kinds while commands run."""
        script, rng = self.script, self._rng
        self._prepare()
        self._begin()
        for _ in range(rng.randrange(1, 40)):
            offset, value, strobes = self._any_write()
            aligned = offset & 0xFFFC
            if aligned in _SUBMITTING or aligned == regs.CONTROL:
                offset = rng.choice((regs.CMD_WINDOW, regs.RING_BASE, regs.RING_SIZE))
            beside = rng.choice(OFFSETS)
            script.access(offset, value, strobes, 0, skew=self._skew(), read=beside)
            script.wanted[-3:] = [(0, 0, name) for _, _, name in script.wanted[-3:]]
            self.accesses += 2
        script.write((regs.IRQ_ENABLE, IRQS))
        script.wait()
        script.state((0, 0, 0, 0, 0, 0), (0,) * 6)
        script.write((regs.CONTROL, regs.CONTROL_SOFT_RESET.mask))
        script.wait(poll=16)
        script.forbid()

    # --- registers ---

    def _any_write(self) -> tuple[int, int, int]:
        rng = self._rng
        draw = rng.random()
        offset = rng.choice(_RINGING if draw < 0.25 else OFFSETS) if draw < 0.8 else rng.getrandbits(16)
        value = rng.choice((rng.getrandbits(32), rng.choice(CORNERS), rng.randrange(64)))
        if offset == regs.RING_BASE and rng.random() < 0.7:
            value = RING + PACKET_BYTES * rng.randrange(8)
        if offset in (regs.RING_TAIL, regs.RING_SIZE) and rng.random() < 0.7:
            value = rng.randrange(RING_SLOTS)
        return offset, value, 15 if rng.random() < 0.6 else rng.getrandbits(4)

    def _skew(self) -> int:
        skew = 0
        for lane in range(4):
            if self._rng.random() < 0.3:
                skew |= self._rng.choice((1, 2, 3, 7, 20)) << 8 * lane
        return skew

    def _registers(self) -> None:
        """Accesses one behind the other to a device that is quiet, each answer predicted."""
        rng, device, script = self._rng, self._device, self.script
        for _ in range(rng.randrange(1, 24)):
            offset, value, strobes = self._any_write()
            aligned = offset & 0xFFFC
            if not self._may_write(aligned, value, strobes):
                continue
            if aligned == regs.CONTROL:
                value &= ~regs.CONTROL_SOFT_RESET.mask  # `_reset` does that
            read = rng.choice(OFFSETS) if rng.random() < 0.6 else rng.getrandbits(16)
            if aligned not in _PLAIN or read & 0xFFFC == aligned:
                read = rng.choice((regs.ID, regs.VERSION, regs.CAP_ARRAY))
            data, mask, told = device.peek(read)
            if read & 0xFFFC == regs.STATUS:
                mask = 3  # what is left in the queue behind an error depends on time
            taken = device.taken
            response = device.write_strobed(offset, value, strobes)
            one = Script()
            one.access(
                offset, value, strobes, response, skew=self._skew(), read=read, data=(data, mask, told)
            )
            self.accesses += 2
            if device.state == State.BUSY or (aligned in _SUBMITTING and device.error):
                had = len(device.pending)
                device.drain()
                self._settle(one, had, taken)
                if self._undefined:
                    break
            else:
                script.insert(one)
        script.sync_window()

    def _may_write(self, offset: int, value: int, strobes: int) -> bool:
        """Not what would begin something long, or something that ends in 65536 clocks."""
        device = self._device
        if offset == regs.DOORBELL:
            slots = [device.window]
        elif offset == regs.RING_TAIL:
            mask = sum(0xFF << 8 * lane for lane in range(4) if strobes >> lane & 1) & 0xFFFF
            tail = value & mask | device.peek(regs.RING_TAIL)[0] & ~mask
            slots = device.in_ring(tail, 101)
        else:
            return True
        return len(slots) <= 100 and self._is_short(slots) and self._is_whole(slots)
