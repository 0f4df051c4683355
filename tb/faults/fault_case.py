"""Cases of the fault campaign: a program of a few commands with one fault in it."""

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from echo_npu.commands.checked import CheckedCommand, MemoryOperand
from echo_npu.commands.packets import PACKET_BYTES
from echo_npu.spec import registers as regs
from echo_npu.spec.status import ErrorCode, State, error_name
from echo_sim.contract import CHANNELS
from tb.faults.packets import Slots, flipped
from tb.faults.predicted_case import MOST_SLOTS, PredictedCase, timing
from tb.faults.prediction import PredictedDevice, behind, commands, effort, written_ranges
from tb.faults.runner import Ending, Record, judge
from tb.faults.script import WITHHELD, Script
from tb.faults.stage import DROP, RESET_CLOCKS, RING, RING_SLOTS, FaultStage
from tb.stimulus.programs import ENTRIES

PROGRAM_EFFORT: Final = 900.0
"""Approximate clock cycles that the commands of a program may take together."""

BUS_KINDS: Final = ("read_error", "write_error")


@dataclass(frozen=True)
class Step:
    """One command of a program.

    Attributes:
        slots: its packets.
        command: the checked command.
        first_slot: number of its first packet in the program.
        after: contents of its destination after execution.
        before: contents of the same places before the program.
    """

    slots: Slots
    command: CheckedCommand
    first_slot: int
    after: list[tuple[int, bytes]]
    before: list[tuple[int, bytes]]


@dataclass(frozen=True)
class FaultProgram:
    """Commands with disjoint destinations, as routines of the runner.

    Attributes:
        by_ring: whether they are submitted through the ring.
        routine: number of the routine that submits them; the next one compares memory.
        submit: the submitting routine.
        compare: the comparing routine. It records for each command how many bytes differ from `after` and
            where, then the same for `before`.
    """

    steps: tuple[Step, ...]
    by_ring: bool
    routine: int
    submit: Script
    compare: Script

    @property
    def slots(self) -> Slots:
        """Packets of all commands."""
        return [slot for step in self.steps for slot in step.slots]


@dataclass(frozen=True)
class Traffic:
    """Bus traffic and duration of a program without faults."""

    read_bursts: int
    write_bursts: int
    cycles: int


def draw_program(stage: FaultStage, rng: random.Random, routine: int) -> FaultProgram:
    """Draw two to five legal commands, which may read what earlier ones wrote."""
    device = stage.device
    stage.ready(Script())
    spans: list[tuple[int, int]] = []
    chosen: list[tuple[Slots, CheckedCommand]] = []
    wanted, work = rng.randint(2, 5), 0.0
    for _ in range(100):
        slots = rng.choice(stage.pool)
        ((_, command),) = commands(slots, device.programs, blocks=device.has_blocks)
        assert command is not None
        mine = written_ranges(command)
        if work + effort(command) > PROGRAM_EFFORT or _meet(mine, spans):
            continue
        if sum(len(each) for each, _ in chosen) + len(slots) > MOST_SLOTS:
            continue
        chosen.append((slots, command))
        spans += mine
        work += effort(command)
        if len(chosen) == wanted:
            break
    before = [_contents(device, command) for _, command in chosen]
    for slots, _ in chosen:
        for slot in slots:
            device.submit(slot)
    device.drain()
    assert not device.error, "a command of the pool is legal and no place is written twice"
    steps, first = [], 0
    for (slots, command), old in zip(chosen, before, strict=True):
        steps.append(Step(slots, command, first, _contents(device, command), old))
        first += len(slots)
    device.take_back()
    by_ring = rng.random() < 0.5
    return FaultProgram(tuple(steps), by_ring, routine, _submit(steps, by_ring), _compare(steps))


def _meet(some: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]) -> bool:
    every = sorted([*some, *others])
    return any(first[1] > second[0] for first, second in itertools.pairwise(every))


def _contents(device: PredictedDevice, command: CheckedCommand) -> list[tuple[int, bytes]]:
    memory = device.memory.bytes
    return [(start, memory[start:end].tobytes()) for start, end in written_ranges(command)]


def _submit(steps: Sequence[Step], by_ring: bool) -> Script:
    script = Script()
    script.allow(span for step in steps for span in written_ranges(step.command))
    slots = [slot for step in steps for slot in step.slots]
    if not by_ring:
        for slot in slots:
            script.packet(slot)
        return script
    script.memory(RING, b"".join(slots))
    script.write(
        (regs.RING_BASE, RING),
        (regs.RING_SIZE, RING_SLOTS),
        (regs.CONTROL, regs.CONTROL_RING_ENABLE.mask),
        (regs.RING_TAIL, len(slots)),
    )
    return script


def _compare(steps: Sequence[Step]) -> Script:
    script = Script()
    for number, step in enumerate(steps):
        script.check(step.after, f"the result of command {number}", required=False)
        script.check(step.before, f"the destination of command {number}", required=False)
    assert len(script.wanted) == 4 * len(steps), "a result does not fit into one operation"
    return script


def usual_timing(script: Script) -> None:
    """Set the memory timing of a `calibration`."""
    script.knob("read_latency", 4)
    script.knob("write_latency", 4)
    for name in ("reorder", "early_read", *(f"stall_{channel}" for channel in CHANNELS)):
        script.knob(name, 0)


def calibration(stage: FaultStage, program: FaultProgram) -> Script:
    """Return the case that measures a program's `Traffic`; nothing may go wrong in it."""
    script = Script()
    usual_timing(script)
    stage.ready(script)
    names = ("read_bursts", "write_bursts", "cycle")
    for name in names:
        script.statistic(name)
    script.call(program.routine, program.submit)
    script.wait()
    for name in names:
        script.statistic(name)
    script.state((State.DONE, 0, 0, 0, 0, 0), (3, 0xFF, 0, 0, 0, 0))
    for number, step in enumerate(program.steps):
        script.check(step.after, f"the result of command {number}")
    script.forbid()
    stage.finish(script)
    return script


def traffic(record: Record) -> Traffic:
    """Extract the traffic from the record of a `calibration`."""
    # `stage.ready`, which precedes these words, records nothing.
    reads, writes, cycle, reads_then, writes_then, cycle_then = record.words[:6].tolist()
    return Traffic(reads_then - reads, writes_then - writes, cycle_then - cycle)


class FaultCase(PredictedCase):
    """A fault of one kind within a program, drawn from its own seed.

    Attributes:
        kind: kind of the fault, one of KINDS.
    """

    def __init__(
        self, stage: FaultStage, seed: int, kind: str, program: FaultProgram, usual: Traffic
    ) -> None:
        super().__init__(stage, seed)
        self.kind = kind
        self._program = program
        self._usual = usual
        self._at = len(self.script.wanted)  # index of the first word that `judge` reads
        self._measured = False  # whether the program's duration must be that without a fault
        if kind in ("stall", "reorder", "hard_reset", "soft_reset") and self._rng.random() < 0.2:
            self._host()
        KINDS[kind].begin(self)
        stage.finish(self.script)

    def judge(self, record: Record) -> tuple[list[str], str]:
        """Judge the case.

        Returns what is wrong, and the outcome: "reported", "unreported", "harmless", or "missed" if the
        program ended before the fault came.
        """
        found = judge(self.script, record)
        if self.kind in BUS_KINDS and record.ending == Ending.DONE and not found:
            return self._judge_bus(record)
        if self._measured and not found:
            begin, end = record.words[self._at : self._at + 2].tolist()
            if end - begin != self._usual.cycles:
                found = [f"wrong: {end - begin} clocks, and {self._usual.cycles} from another initial state"]
        predicted = self.kind.startswith("flip") and self.errors
        return found, "reported" if predicted else "harmless"

    # --- the bus ---

    def _begin(self) -> None:
        self.script.call(self._program.routine, self._program.submit)
        self.packets += len(self._program.slots)

    def _bus_error(self) -> None:
        rng, script, write = self._rng, self.script, self.kind == "write_error"
        usual = self._usual.write_bursts if write else self._usual.read_bursts
        burst, beat, decode = rng.randrange(max(usual, 1)), rng.randrange(16), rng.random() < 0.5
        script.fail_burst(write=write, burst=burst, beat=beat, decode=decode)
        name = "DECERR" if decode else "SLVERR"
        self.notes.append(f"{name} for {'write' if write else 'read'} burst {burst}, beat {beat}")
        self._begin()
        script.wait()
        self._at = len(script.wanted)
        script.failed()
        script.state((0,) * 6, (0,) * 6)
        script.call(self._program.routine + 1, self._program.compare)
        script.clear_faults()
        self._recover()

    def _recover(self) -> None:
        """Clear a possible error in one of the ways available to a host."""
        script, draw = self.script, self._rng.random()
        if draw < 0.7:
            script.write((regs.CONTROL, DROP))
        elif draw < 0.85:
            self._soft()
        else:
            script.reset(self._rng.choice(RESET_CLOCKS))
            self._stage.ready(script)
        script.forbid()

    def _soft(self) -> None:
        self.script.write((regs.CONTROL, regs.CONTROL_SOFT_RESET.mask))
        self.script.wait(poll=16)

    def _judge_bus(self, record: Record) -> tuple[list[str], str]:
        words = record.words[self._at :].tolist()
        hit, address, client = words[:3]
        status, code, index, low, high, retired = words[3:15:2]
        state = State(regs.STATUS_STATE.get(status))
        steps = self._program.steps
        results = [words[15 + 4 * number : 19 + 4 * number] for number in range(len(steps))]
        if not hit:
            wrong = [
                f"wrong: command {number} has {each[0]} bytes that differ, the first at 0x{each[1]:08x}"
                for number, each in enumerate(results)
                if each[0]
            ]
            if state != State.DONE:
                wrong.append(f"wrong: state {state.name}, {error_name(code)}, without a fault")
            return wrong, "missed"
        what = f"burst 0x{address:08x} of ID 0x{client:02x} failed"
        expected = ErrorCode.WRITE_RESPONSE if self.kind == "write_error" else ErrorCode.READ_RESPONSE
        if state != State.ERROR:
            return [f"wrong: {what}, and the state is {state.name}"], "unreported"
        if (code, low | high << 32) != (expected, address):
            return [
                f"wrong: {what}, and the device reports {error_name(code)} at 0x{low | high << 32:x}"
            ], "reported"
        # Skip the loads that made the device ready.
        number = index - READY_COMMANDS
        by_fetch = self.kind == "read_error" and client >> 4 == 1
        owners = self._owners(address, client, by_fetch)
        if number not in owners or retired != index:
            return [
                f"wrong: {what}, which is of command {' or '.join(map(str, sorted(owners)))}; the device"
                f" reports {number}, and {retired - READY_COMMANDS} as retired"
            ], "reported"
        failed = steps[number].command
        under_way = 0
        if not by_fetch:
            following = [slot for step in steps[number + 1 :] for slot in step.slots]
            on_matrix = failed.packet.on_matrix
            under_way = 1 + len(
                behind(on_matrix, following, self._device.programs, blocks=self._device.has_blocks)
            )
        wrong = []
        for position, (differ, first, touched, first_touched) in enumerate(results):
            if position < number and differ:
                wrong.append(
                    f"wrong: {what} in command {number}; command {position} before it has {differ} bytes that"
                    f" differ, the first at 0x{first:08x}"
                )
            if position >= number + under_way and touched:
                wrong.append(
                    f"stray write: {what} in command {number}; command {position} behind it wrote"
                    f" {touched} bytes, the first at 0x{first_touched:08x}"
                )
        return wrong, "reported"

    def _owners(self, address: int, client: int, by_fetch: bool) -> set[int]:
        """Return the numbers of the commands that the burst may belong to."""
        steps = self._program.steps
        if by_fetch:
            # The burst starts with this slot. Slots of one fetch are passed on as they arrive, hence the 8.
            slot = (address - RING) // PACKET_BYTES
            return {
                number
                for number, step in enumerate(steps)
                if step.first_slot + len(step.slots) > slot and step.first_slot <= slot + 8
            }
        matrix = client >> 4 == 1 if self.kind == "write_error" else client >> 4 in (2, 3, 4)
        found = set()
        for number, step in enumerate(steps):
            command = step.command
            operands = [command.dst] if self.kind == "write_error" else list(command.sources)
            if command.packet.on_matrix == matrix and any(
                operand is not None and _touches(operand, command.batch, address) for operand in operands
            ):
                found.add(number)
        return found

    def _stall(self) -> None:
        channel, cycles = self._rng.choice(CHANNELS), self._rng.randrange(1000, 6000)
        self.notes.append(f"channel {channel} stands still for {cycles} clocks")
        self._begin()
        self.script.run(self._rng.randrange(self._usual.cycles + 1))
        self.script.hold(channel, cycles)
        self._all_right()

    def _reorder(self) -> None:
        rng, script = self._rng, self.script
        script.knob("reorder", 1)
        latency = rng.randint(4, 80)
        script.knob("read_latency", latency)
        script.knob("write_latency", rng.randint(4, 80))
        script.knob("stall_r", rng.choice((0, rng.randrange(0xC000))))
        script.knob("stall_b", rng.choice((0, rng.randrange(0xC000))))
        self.notes.append("answers of different IDs overtake one another")
        self._begin()
        self._all_right()

    def _power_up(self) -> None:
        seed = self._rng.getrandbits(31)
        self.notes.append(f"another random initial state, seed {seed}")
        self.script = Script()
        self.script.power(seed)
        self._measured = self._rng.random() < 0.5
        if self._measured:
            usual_timing(self.script)
        else:
            timing(self.script, self._rng)
        self.script.insert(self._stage.first)
        self.script.reset(2)
        self._stage.ready(self.script)
        self._at = len(self.script.wanted)
        self.script.statistic("cycle")
        self._begin()
        self.script.wait()
        self.script.statistic("cycle")
        self._all_right()

    def _all_right(self) -> None:
        """Require that the program ends as if nothing had happened."""
        script = self.script
        script.wait()
        done = READY_COMMANDS + len(self._program.steps)
        script.state((State.DONE, 0, 0, 0, 0, done))
        at = len(script.wanted)
        script.call(self._program.routine + 1, self._program.compare)
        for number in range(len(self._program.steps)):
            value, _, name = script.wanted[at + 4 * number]
            script.wanted[at + 4 * number] = (value, 0xFFFF_FFFF, name)
        script.forbid()

    # --- the host's port ---

    def _host(self) -> None:
        """Start a host that may withhold anything until the case ends."""
        rng = self._rng
        withheld = [each for each in WITHHELD if rng.random() < 0.4]
        self.notes.append(f"a host that withholds {' and '.join(withheld) or 'nothing'}")
        self.script.host(rng.getrandbits(32), withheld)
        self.script.run(rng.randrange(rng.choice((10, 3000))))

    def _hostile_host(self) -> None:
        self._host()
        self._begin()
        if self._rng.random() < 0.6:
            self._all_right()
        else:
            self.script.run(self._rng.randrange(self._usual.cycles + 20))
            self._soft()
            self.script.forbid()
            self.script.state((State.IDLE, 0, 0, 0, 0, 0))
        if self._rng.random() < 0.3:
            self.script.host_end()

    # --- resets ---

    def _hard_reset(self) -> None:
        clocks, length = self._rng.randrange(self._usual.cycles + 20), self._rng.choice(RESET_CLOCKS)
        self.notes.append(f"rst_n low for {length} clocks, {clocks} behind the submission")
        self._begin()
        self.script.run(clocks)
        self.script.reset(length)
        self.script.forbid()
        self.script.state((State.IDLE, 0, 0, 0, 0, 0))
        self.script.run(64)
        self._stage.ready(self.script)

    def _soft_reset(self) -> None:
        clocks = self._rng.randrange(self._usual.cycles + 20)
        self.notes.append(f"soft reset {clocks} clocks behind the submission")
        self._begin()
        self.script.run(clocks)
        self._soft()
        self.script.forbid()
        self.script.state((State.IDLE, 0, 0, 0, 0, 0))
        self.script.run(64)

    # --- bits ---

    def _flip_packets(self) -> None:
        bits = self._rng.choice((1, 1, 1, 2, 3))
        while True:
            slots = flipped(self._rng, self._program.slots, bits)
            if self._is_short(slots):
                break
        changed = [n for n, (a, b) in enumerate(zip(slots, self._program.slots, strict=True)) if a != b]
        self.notes.append(f"{bits} bits flipped in packets {changed}")
        self._submission(slots, by_ring=self.kind == "flip_ring")
        self._clear_error()

    def _flip_data(self) -> None:
        rng, device = self._rng, self._device
        places = [(operand, step.command) for step in self._program.steps for operand in step.command.sources]
        for _ in range(rng.choice((1, 1, 2, 8))):
            if not places:
                break
            operand, command = rng.choice(places)
            address = operand.address + rng.randrange(operand.extent(command.batch))
            value = bytes([int(device.memory.bytes[address]) ^ 1 << rng.randrange(8)])
            self.notes.append(f"a bit flipped at 0x{address:08x}")
            self.script.memory(address, value)
            device.host_write(address, value)
        self._submission(self._program.slots, by_ring=self._program.by_ring)
        self._clear_error()


class FaultKind(NamedTuple):
    """A kind of faults.

    Attributes:
        weight: of its cases, in percent.
        begin: appends the program and the fault to a case's script.
    """

    weight: int
    begin: Callable[[FaultCase], None]


KINDS: Final = {
    "read_error": FaultKind(39, FaultCase._bus_error),
    "write_error": FaultKind(16, FaultCase._bus_error),
    "stall": FaultKind(3, FaultCase._stall),
    "reorder": FaultKind(6, FaultCase._reorder),
    "power_up": FaultKind(1, FaultCase._power_up),
    "hard_reset": FaultKind(8, FaultCase._hard_reset),
    "soft_reset": FaultKind(8, FaultCase._soft_reset),
    "flip_packet": FaultKind(5, FaultCase._flip_packets),
    "flip_ring": FaultKind(5, FaultCase._flip_packets),
    "flip_data": FaultKind(4, FaultCase._flip_data),
    "hostile_host": FaultKind(5, FaultCase._hostile_host),
}

READY_COMMANDS: Final = len(ENTRIES)
"""Commands that the device has taken when a case begins."""
_BEAT: Final = 64
"""Bytes of the widest bus: a burst may start this far before the bytes that it is for."""


def _touches(operand: MemoryOperand, batch: tuple[int, int], address: int) -> bool:
    return operand.address - _BEAT < address < operand.address + operand.extent(batch)
