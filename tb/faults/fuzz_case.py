"""Cases of the fuzz campaign: random packets and random register traffic with the predicted outcome."""

import struct
from typing import Final

from echo_npu.commands.builders import gather_command, memcpy_command
from echo_npu.commands.matmul_command import matmul_command
from echo_npu.commands.packets import PACKET_BYTES, NpuCommandPacket, Opcode, extension_count
from echo_npu.model.watchdog import least_clocks
from echo_npu.spec import registers as regs
from echo_npu.spec.memory_map import ACTIVATION, WEIGHT
from echo_npu.spec.status import END_IRQS, State
from tb.faults.in_flight import drawn
from tb.faults.packets import CORNERS, Slots, fuzzed, random_packet
from tb.faults.predicted_case import MOST_SLOTS, PredictedCase, timing
from tb.faults.prediction import commands, effort, written_ranges
from tb.faults.script import Script
from tb.faults.stage import EFFORT, RESET_CLOCKS, RING, RING_SLOTS, FaultStage
from tb.scoreboards.registers import STORED

_TOGETHER: Final = (1, 1, 1, 1, 1, 1, 2, 2, 3, 6)
"""Numbers of the fuzzer's commands submitted together, to draw from."""

OFFSETS: Final = tuple(
    register.offset + index * register.stride + half
    for register in regs.REGISTERS.values()
    for index in range(register.count)
    for half in range(0, register.width // 8, 4)
)
_PLAIN: Final = frozenset(STORED) - {regs.CONTROL, regs.RING_TAIL}
"""Registers without side effects."""
_RINGING: Final = (
    *(regs.RING_BASE, regs.RING_SIZE, regs.RING_TAIL, regs.RING_TAIL),
    *(regs.CONTROL, regs.DOORBELL),
)
"""Registers that control how the device takes packets; written more often than others."""
_SUBMITTING: Final = frozenset((regs.DOORBELL, regs.RING_TAIL))
_LIMITS: Final = (0, 1 << 20, 1 << 31, 0xFFFF_FFFF)
"""Values of WATCHDOG that no legal command of the campaign exceeds."""
SLOW_CYCLES: Final = 1 << 16
"""Cycles that the device waits for an extension owed by the host."""
SETTLED_CYCLES: Final = 4000
"""Cycles in which the device takes a packet, or finds a bad index, with any memory of the campaign."""
FAR_TABLE: Final = WEIGHT.base + 0x0800_0000
FAR_ROWS: Final = ACTIVATION.base + 0x0800_0000
"""Memory that no drawn command uses."""
GUARD_BYTES: Final = 64
"""Granularity of the protected range."""
PACKET_IMAGE: Final = RING + 0x8000
"""Address of packets that commands copy into the ring; no drawn command uses it."""


class FuzzCase(PredictedCase):
    """A case of about `packets` packets, drawn from its own seed.

    Attributes:
        accesses: register accesses, without those that submit packets and read the state.
    """

    def __init__(self, stage: FaultStage, seed: int, packets: int) -> None:
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
        elif draw < 0.13:
            self._overwriting()
        elif draw < 0.135:
            self._overdue()
        elif draw < 0.155:
            self._guarded()
        elif draw < 0.1555:
            self._slow_fetch()
        elif draw < 0.165:
            self._refused_while_waiting()
        elif draw < 0.175:
            self._bad_index_in_time()
        elif draw < 0.205:
            self._two_writes()
        elif draw < 0.206:
            self._overdue_behind()
        elif draw < 0.2065:
            self._in_time_beside()
        else:
            self._submission(self._slots(), by_ring=self._rng.random() < 0.5)
            if self._device.error and self._rng.random() < 0.03:
                self._registers()
        self._clear_error()

    # --- packets ---

    def _overwriting(self) -> None:
        """Submit packets through the ring, some of which an earlier command overwrites.

        That command is in the ring too, or in the window before it.
        """
        rng, device = self._rng, self._device
        new = fuzzed(rng, self._stage.pool)
        address, image = PACKET_IMAGE, b"".join(new)
        sync = NpuCommandPacket(Opcode.SYNC).pack()
        before: Slots = []
        slots = self._slots()[: MOST_SLOTS - 2 - len(new)]
        slots += [rng.choice((sync, random_packet(rng))) for _ in new]
        at = rng.randrange(len(slots) - len(new) + 1)
        first = device.ring_head if device.ring_head < RING_SLOTS else 0
        by_window = rng.random() < 0.3
        place = (first + at + (not by_window)) % RING_SLOTS  # the overwriting command takes a slot itself
        (change,) = memcpy_command(address, RING + PACKET_BYTES * place, len(image)).slots
        if by_window:
            before = [change]
        else:
            slots = [change, *slots]
        later = at + (not by_window)
        changed = [*slots[:later], *new, *slots[later + len(new) :]]
        # If the doorbell is refused, timing decides how far the window's command gets.
        if (
            device.guard is not None
            or place + len(new) > RING_SLOTS
            or not self._is_short(slots)
            or not self._is_short(changed)
        ):
            return
        self._prepare()
        self.script.memory(address, image)
        device.host_write(address, image)
        if device.ring_head >= RING_SLOTS:
            self._reset(hard=False)
        put, taken = self._fill_ring(slots, before), device.taken
        device.drain()
        if device.waits_for_extension and not device.error:
            device.give_up_extension()
        self._settle(put, len(slots) + len(before), taken)

    def _guarded(self) -> None:
        """Submit a command whose destination touches or overlaps the protected range."""
        rng = self._rng
        slots = rng.choice(self._stage.pool)
        ((_, command),) = commands(slots, self._device.programs, blocks=self._device.has_blocks)
        spans = written_ranges(command) if command is not None else []
        if not spans:
            return
        edge = rng.choice((spans[0][0], spans[-1][1]))
        base = max(0, edge + GUARD_BYTES * rng.choice((-2, -1, 0, 1))) // GUARD_BYTES * GUARD_BYTES
        size = GUARD_BYTES * rng.choice((1, 1, 2))
        if base and rng.random() < 0.5:  # results begin at multiples of an element, a copy does at any byte
            nbytes, inside = rng.randint(1, GUARD_BYTES), rng.randint(0, 8)
            place = rng.choice((base - nbytes + inside, base + size - inside))
            slots = [*memcpy_command(PACKET_IMAGE, place, nbytes).slots]
        self._write(regs.GUARD_BASE, base + edge % GUARD_BYTES)  # the register ignores what is less
        self._write(regs.GUARD_SIZE, size)
        self._submission(slots, by_ring=False)
        self._write(regs.GUARD_SIZE, 0)

    def _slow_fetch(self) -> None:
        """Submit a command at the ring's end whose extensions wrap around and arrive later than a host's
        may."""
        rng, device = self._rng, self._device
        # MEMCPY needs few transfers; each is as slow as the fetch.
        opcode = struct.pack("<I", Opcode.MEMCPY)
        extended = [slots for slots in self._stage.pool if len(slots) > 1 and slots[0].startswith(opcode)]
        if not extended or device.guard is not None or device.ring_head >= RING_SLOTS:
            return
        nop = NpuCommandPacket(Opcode.NOP).pack()
        while device.ring_head != RING_SLOTS - 1:
            count = min(MOST_SLOTS, RING_SLOTS - 1 - device.ring_head)
            self._submission([nop] * count, by_ring=True)
        self.script.knob("read_latency", SLOW_CYCLES + rng.randrange(1000))
        self._submission(rng.choice(extended), by_ring=True)
        timing(self.script, rng)

    def _refused_while_waiting(self) -> None:
        """Ring a doorbell that is refused while the device waits for an announced extension."""
        rng, device = self._rng, self._device
        extended = [slots for slots in self._stage.pool if len(slots) > 1]
        if not extended:
            return
        self._submission([NpuCommandPacket(Opcode.NOP).pack()], by_ring=True)  # sets up the ring
        if device.error:
            return
        self._prepare()
        put, taken = self._put(rng.choice(extended)[:1], rng.random() < 0.5), device.taken
        device.drain()
        if device.waits_for_extension and not device.error:
            put.run(rng.randrange(SETTLED_CYCLES, 2 * SETTLED_CYCLES))
            tail = rng.choice((RING_SLOTS, RING_SLOTS + 1, 0xFFFF))
            put.write((regs.RING_TAIL, tail))
            device.write_reg(regs.RING_TAIL, tail)
        self._settle(put, 1, taken)

    def _overdue_behind(self) -> None:
        """Submit a command and behind it a copy that takes longer than the watchdog allows, even if both are
        under way together."""
        rng, stage = self._rng, self._stage
        first = [slots for slots in stage.pool if self._is_short(slots)]
        limit = rng.randrange(5 * SETTLED_CYCLES, 8 * SETTLED_CYCLES)
        nbytes = (3 * limit + SETTLED_CYCLES) * stage.hardware.data_width // 8
        (copy,) = memcpy_command(FAR_TABLE, FAR_ROWS, nbytes).slots
        self._write(regs.WATCHDOG, limit)
        self._submission([*rng.choice(first), copy], by_ring=rng.random() < 0.5)
        self._write(regs.WATCHDOG, 0)

    def _in_time_beside(self) -> None:
        """Submit a product and behind it a copy that takes longer than the watchdog allows, but not from the
        end of the product on."""
        rng, hardware = self._rng, self._stage.hardware
        rows, cols = hardware.array_rows, hardware.array_cols
        size, depth = 4 * rows * rng.randrange(1, 3), rows * rng.randrange(64, 96)
        (product,) = matmul_command(FAR_TABLE, FAR_TABLE, FAR_ROWS, size, depth, 4 * cols).slots
        least = size * depth * 4 * cols // (rows * cols)
        limit = 2 * least + SETTLED_CYCLES
        nbytes = (limit + least // 4) * hardware.data_width // 8
        (copy,) = memcpy_command(FAR_TABLE, FAR_ROWS + 4 * size * 4 * cols, nbytes).slots
        for channel in ("aw", "w", "b", "ar", "r"):
            self.script.knob(f"stall_{channel}", 0)
        self._write(regs.WATCHDOG, limit)
        self._submission([product, copy], by_ring=rng.random() < 0.5)
        self._write(regs.WATCHDOG, 0)
        timing(self.script, rng)

    def _two_writes(self) -> None:
        """Write two registers of an idle or a stopped device, the second before the first is answered."""
        rng, device = self._rng, self._device
        nop = NpuCommandPacket(Opcode.NOP).pack()
        self._submission([nop], by_ring=True)  # sets up the ring
        if device.error:
            return
        in_error = rng.random() < 0.6
        if in_error:
            self._submission([b"\xff" * PACKET_BYTES], by_ring=rng.random() < 0.5)
        pair = drawn(rng, in_error=in_error)
        window = rng.choice([slots for slots in self._stage.pool if len(slots) == 1])
        harmless = "soft_reset" in (pair.first, pair.second)  # nothing may be under way at a reset
        self._in_flight(pair, [nop if harmless else window[0], nop, nop])
        self._write(regs.WATCHDOG, 0)

    def _bad_index_in_time(self) -> None:
        """Gather with a bad index behind a row that is far longer than the watchdog allows."""
        rng, device = self._rng, self._device
        image = struct.pack("<2i", 0, rng.choice((-1, 1, 1 << 30)))
        self._prepare()
        self.script.memory(PACKET_IMAGE, image)
        device.host_write(PACKET_IMAGE, image)
        self._write(regs.WATCHDOG, rng.randrange(2 * SETTLED_CYCLES, 4 * SETTLED_CYCLES))
        row_bytes = 1 << rng.randrange(18, 22)
        (slot,) = gather_command(FAR_TABLE, PACKET_IMAGE, FAR_ROWS, 2, row_bytes, 1).slots
        self._submission([slot], by_ring=rng.random() < 0.5)
        self._write(regs.WATCHDOG, 0)

    def _overdue(self) -> None:
        """Submit a command that takes longer than the watchdog allows."""
        rng, device = self._rng, self._device
        slots = rng.choice(self._stage.pool)
        ((_, command),) = commands(slots, device.programs, blocks=device.has_blocks)
        assert command is not None
        least = least_clocks(command, self._stage.hardware)
        # An error of its program or of an index may come before the time is up, or after it.
        if least < 2 or command.dst is None or not device.is_sound(command):
            return
        self._write(regs.WATCHDOG, rng.randrange(1, least))
        self._submission(slots, by_ring=rng.random() < 0.5)
        self._write(regs.WATCHDOG, 0)

    def _slots(self) -> Slots:
        """Draw the packets of a submission, without long legal commands."""
        while True:
            slots: Slots = []
            for _ in range(self._rng.choice(_TOGETHER)):
                slots += fuzzed(self._rng, self._stage.pool)
            if len(slots) <= MOST_SLOTS and self._is_short(slots):
                return slots

    def _whole_slots(self) -> Slots:
        """Draw commands that run for a while."""
        slots: Slots = []
        while len(slots) < 6:
            more = self._rng.choice(self._stage.pool)
            if self._is_short(more):
                slots += more
        return slots

    def _begin(self) -> Slots:
        """Submit commands whose progress is not predicted; return their packets."""
        device, script = self._device, self.script
        slots = self._whole_slots()
        for _, command in commands(slots, device.programs, device.guard, blocks=device.has_blocks):
            if command is None:
                continue
            script.allow(written_ranges(command))
        for slot in slots:
            script.packet(slot)
        self.packets += len(slots)
        self._undefined = True
        for index, (word,) in enumerate(struct.iter_unpack("<I", slots[-1])):
            device.write_reg(regs.CMD_WINDOW + 4 * index, word)
        return slots

    def _interrupted(self) -> None:
        """Reset the device while commands run."""
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
        script.run(64)  # no write may follow the reset

    def _disturbed(self) -> None:
        """Access registers at random while commands run.

        The outcome depends on timing, but nothing may hang, and only submitted commands may write memory.
        """
        script, rng, device = self.script, self._rng, self._device
        self._prepare()
        rung = self._begin()  # the last packets rung through the window
        for _ in range(rng.randrange(1, 40)):
            offset, value, strobes = self._any_write()
            aligned = offset & 0xFFFC
            if aligned == regs.CONTROL:
                value &= ~regs.CONTROL_SOFT_RESET.mask  # `_interrupted` does that
            elif aligned == regs.WATCHDOG and rng.random() < 0.5:
                value = rng.randrange(1000)
            elif aligned in _SUBMITTING:
                if aligned == regs.DOORBELL:
                    rung = [*rung[-3:], device.window]
                spans = self._ranges_of(rung) if aligned == regs.DOORBELL else self._ring_ranges()
                if spans is None:
                    break
                script.allow(spans)
            if regs.CMD_WINDOW <= aligned < regs.DOORBELL:
                device.write_strobed(offset, value, strobes)
            beside = rng.choice(OFFSETS)
            script.access(offset, value, strobes, 0, skew=self._skew(), read=beside)
            script.wanted[-3:] = [(0, 0, name) for _, _, name in script.wanted[-3:]]
            self.accesses += 2
        script.write((regs.IRQ_ENABLE, END_IRQS))
        script.wait()
        script.state((0, 0, 0, 0, 0, 0), (0,) * 6)
        script.write((regs.CONTROL, regs.CONTROL_SOFT_RESET.mask))
        script.wait(poll=16)
        script.forbid()

    def _ring_ranges(self) -> list[tuple[int, int]] | None:
        """Return all ranges that commands in the ring may write, wherever it begins and ends; else as
        `_ranges_of`."""
        memory, bases = self._device.memory, 8
        slots = [
            memory.read(RING + PACKET_BYTES * slot, PACKET_BYTES).tobytes()
            for slot in range(RING_SLOTS + bases)
        ]
        found = self._ranges_of(slots)
        for slot in slots:
            opcode, flags = struct.unpack_from("<II", slot)
            if found is None or not extension_count(opcode, flags):
                continue
            for base in range(bases):  # its extensions may wrap around
                spans = self._ranges_of([slot, *slots[base : base + 3]])
                found = None if spans is None or found is None else found + spans
        return found

    def _ranges_of(self, slots: Slots) -> list[tuple[int, int]] | None:
        """Return all ranges that commands starting at any of `slots` may write.

        None if one of them takes long, loads a program, or writes packets.
        """
        found: list[tuple[int, int]] = []
        for first in range(len(slots)):
            for _, command in commands(
                slots[first : first + 4], self._device.programs, blocks=self._device.has_blocks
            ):
                if command is None:
                    break
                spans = written_ranges(command)
                packets = any(start < PACKET_IMAGE and end > RING for start, end in spans)
                if packets or effort(command) > EFFORT or command.packet.opcode == Opcode.LOAD_PROGRAM:
                    return None
                found += spans
                break
        return found

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
        if offset & 0xFFFC == regs.WATCHDOG:
            return offset, rng.choice(_LIMITS), 15
        if offset in (regs.GUARD_BASE, regs.GUARD_SIZE) and rng.random() < 0.7:
            value = rng.choice((0, 0, RING, PACKET_BYTES * RING_SLOTS, 1 << rng.randrange(6, 30)))
        return offset, value, 15 if rng.random() < 0.6 else rng.getrandbits(4)

    def _skew(self) -> int:
        skew = 0
        for lane in range(4):
            if self._rng.random() < 0.3:
                skew |= self._rng.choice((1, 2, 3, 7, 20)) << 8 * lane
        return skew

    def _registers(self) -> None:
        """Access registers of an idle device one after the other; every answer is predicted."""
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
                mask = 3  # the queue level after an error depends on timing
            taken, device.longest = device.taken, 0.0
            response = device.write_strobed(offset, value, strobes)
            one = Script()
            one.access(
                offset, value, strobes, response, skew=self._skew(), read=read, data=(data, mask, told)
            )
            self.accesses += 2
            if device.state == State.BUSY or (aligned in _SUBMITTING and device.error):
                had = len(device.pending)
                device.drain()
                # A command in the ring may have overwritten what `_may_write` has seen behind it.
                if device.longest > EFFORT:
                    self._undefined = True  # without the write that starts it
                    break
                if device.waits_for_extension and not device.error:
                    device.give_up_extension()
                self._settle(one, had, taken)
                if self._undefined:
                    break
            else:
                script.insert(one)
        script.sync_window()

    def _may_write(self, offset: int, value: int, strobes: int) -> bool:
        """Return whether the write starts nothing long, and nothing that waits 65536 clocks."""
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
