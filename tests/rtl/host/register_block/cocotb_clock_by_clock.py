"""register_block, clock by clock: writes and reads at any pace, beside events and clears in any clock."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from echo_npu.spec import registers as regs
from tests.rtl.handshakes import HandshakeSource, Ready, vary
from tests.rtl.situations import Situations
from tests.rtl.stimulus import reset

PLAIN = {
    **dict.fromkeys(("WATCHDOG", "RING_BASE"), 0xFFFF_FFFF),
    **dict.fromkeys(("GUARD_BASE", "GUARD_SIZE"), 0xFFFF_FFC0),
    **{"IRQ_ENABLE": 7, "AXI_PROT": 7, "RING_SIZE": 0xFFFF},
}
"""Registers that hold what software writes, with their bits."""
OFFSETS = {name: register.offset for name, register in regs.REGISTERS.items()}
EVENTS = [(name, {"MACS": 16, "HOST_BEATS": 2}.get(name, 1)) for name in regs.COUNTERS if name != "CYCLES"]
IRQS = ("irq_done_i", "irq_error_i", "irq_command_i")
STATUS_INPUTS = {"error_index_i": "ERROR_INDEX", "retired_i": "RETIRED", "ring_head_i": "RING_HEAD"}
WORD = (1 << 32) - 1
REST = 25
"""Clocks without traffic, more than the registers stay awake for."""


class RegisterSituation(Enum):
    """What meets in a clock."""

    IRQ_CLEAR = "an event in the clock in which software clears its flag"
    IRQ_RESET = "an event in the clock of a soft reset"
    IRQ_COMPLETE = "an event in the clock in which a soft reset completes"
    FLAGS_RESET = "a soft reset that drops a flag"
    FLAGS_COMPLETE = "a completion of a soft reset that drops a flag"
    WINDOW_RESET = "a soft reset that clears the window"
    WINDOW_KEPT = "a completion of a soft reset beside a window that holds something"
    ENABLE_COMPLETE = "a completion of a soft reset with the ring enabled"
    ENABLE_WRITE = "a write of CONTROL in the clock in which a soft reset completes"
    TAIL_SET = "a tail that the device sets in the clock of a write"
    TAIL_CLEAR = "a tail that the device clears in the clock of a write"
    TAIL_BOTH = "a tail that the device sets and clears"
    COUNTS_CLEARED = "counters that a write clears beside events"
    COUNTS_RESET = "counters that a soft reset clears beside events"
    COUNTS_COMPLETE = "counters that the completion of a soft reset clears beside events"
    DATA_LATE = "data of a write that comes after the clock has rested"
    ADDRESS_LATE = "the address of a write that comes after the clock has rested"
    ANSWER_LATE = "an answer that waits for longer than the clock stays awake"
    EVENT_AT_REST = "an event after the clock has rested"
    CLEAR_AT_REST = "a completion of a soft reset after the clock has rested"
    READ_COUNTER = "a read of a counter that is not zero"
    RESET_WRITE = "a reset in the clock in which a write acts"
    RESET_ANSWER = "a reset with an answer that waits"
    RESET_PULSE = "a reset beside a pulse"


@dataclass(frozen=True)
class Access:
    """A write, or a read if it has no byte enables."""

    name: str
    index: int
    data: int = 0
    strobes: int = 0

    @property
    def offset(self) -> int:
        return OFFSETS[self.name] + 4 * self.index

    @property
    def bits(self) -> int:
        """The bits that a write changes."""
        return sum(0xFF << 8 * byte for byte in range(4) if self.strobes >> byte & 1)

    def over(self, value: int, mask: int) -> int:
        """Return a value behind the write."""
        bits = self.bits & mask
        return value & ~bits | self.data & bits


@dataclass
class RegisterModel:
    """What the registers hold, and the pulses of this clock."""

    plain: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PLAIN, 0))
    window: list[int] = field(default_factory=lambda: [0] * 16)
    flags: int = 0
    tail: int = 0
    enable: bool = False
    pulses: dict[str, bool] = field(
        default_factory=lambda: dict.fromkeys(
            ("soft_reset", "clear_error", "clear_counters", "doorbell", "tail"), False
        )
    )
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(regs.COUNTERS, 0))

    def value(self, access: Access, inputs: dict[str, int]) -> int:
        """What a read gets that acts in this clock."""
        name = access.name
        if name in self.counts:
            return self.counts[name] & WORD
        if name in self.plain:
            return self.plain[name]
        held = {"CONTROL": int(self.enable) * regs.CONTROL_RING_ENABLE.mask, "IRQ_STATUS": self.flags}
        held |= {"RING_TAIL": self.tail, "CMD_WINDOW": self.window[access.index]}
        held |= {register: inputs[port] for port, register in STATUS_INPUTS.items()}
        return held[name]

    def clock(self, write: Access | None, inputs: dict[str, int]) -> None:
        """Do one clock; `write` acts in it."""
        name = write.name if write else ""
        soft_reset = self.pulses["soft_reset"]
        back = soft_reset or bool(inputs["ring_enable_clear_i"])
        if back or self.pulses["clear_counters"]:
            self.counts = dict.fromkeys(self.counts, 0)
        else:
            self.counts["CYCLES"] += 1
            for event, _ in EVENTS:
                self.counts[event] += inputs[event]
        cleared = write.data & write.bits if write and name == "IRQ_STATUS" else 0
        raised = sum(inputs[irq] << bit for bit, irq in enumerate(IRQS))
        self.flags = 0 if back else self.flags & ~cleared | raised
        if write and name == "RING_TAIL":
            self.tail = write.over(self.tail, 0xFFFF)
        elif inputs["ring_tail_set_i"]:
            self.tail = inputs["ring_tail_value_i"]
        elif inputs["ring_tail_clear_i"]:
            self.tail = 0
        if soft_reset:
            self.window = [
                self.window[i] if write and (name, write.index) == ("CMD_WINDOW", i) else 0 for i in range(16)
            ]
        if write and name == "CMD_WINDOW":
            self.window[write.index] = write.over(self.window[write.index], WORD)
        if write and name in PLAIN:
            self.plain[name] = write.over(self.plain[name], PLAIN[name])
        control = write.data & write.bits if write and name == "CONTROL" else 0
        if write and name == "CONTROL":
            if write.bits & regs.CONTROL_RING_ENABLE.mask:
                self.enable = bool(control & regs.CONTROL_RING_ENABLE.mask)
        elif back:
            self.enable = False
        self.pulses = {
            "soft_reset": bool(control & regs.CONTROL_SOFT_RESET.mask),
            "clear_error": bool(control & regs.CONTROL_CLEAR_ERROR.mask),
            "clear_counters": bool(control & regs.CONTROL_CLEAR_COUNTERS.mask),
            "doorbell": name == "DOORBELL" and bool(write and write.bits),
            "tail": name == "RING_TAIL" and bool(write and write.bits & 0xFFFF),
        }


def draw_access() -> Access:
    """Draw a write, most often of a register that acts, or a read."""
    if random.random() < 0.3:
        name = random.choice(
            (*PLAIN, "CONTROL", "IRQ_STATUS", "RING_TAIL", "CMD_WINDOW", *STATUS_INPUTS.values())
        )
        name = random.choice((name, random.choice(list(regs.COUNTERS))))
        return Access(name, random.randrange(16) if name == "CMD_WINDOW" else 0)
    acting = ("CONTROL", "CONTROL", "IRQ_STATUS", "IRQ_STATUS", "RING_TAIL", "DOORBELL", "CMD_WINDOW")
    name = random.choice((*acting, *acting, *PLAIN))
    index = random.randrange(16) if name == "CMD_WINDOW" else 0
    data = random.getrandbits(32) & (random.getrandbits(32) if name == "CONTROL" else WORD)
    return Access(name, index, data, random.choice((0xF, 0xF, random.randint(1, 15))))


class RegisterTestbench:
    """The ports, one access at a time, and the model."""

    def __init__(self, dut: Any, situations: Situations) -> None:
        self.dut, self.situations = dut, situations
        self.aw, self.w, self.ar = (
            HandshakeSource(
                dut, f"s_axil_{name}valid", f"s_axil_{name}ready", *(f"s_axil_{port}" for port in ports)
            )
            for name, ports in (("aw", ("awaddr",)), ("w", ("wdata", "wstrb")), ("ar", ("araddr",)))
        )
        self.b = Ready(dut, "s_axil_bvalid", "s_axil_bready", ["s_axil_bresp"])
        self.r = Ready(dut, "s_axil_rvalid", "s_axil_rready", ["s_axil_rdata", "s_axil_rresp"])
        self.eventful, self.beginning = 0.1, 1.0
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        for side in (self.aw, self.w, self.ar):
            side.withdraw()
        self.model = RegisterModel()
        self.fresh = True  # a host is silent in a reset and in the clock behind it
        self.access: Access | None = None
        self.missing: set[str] = set()  # channels on which the access has not been taken
        self.acts = False
        self.expected: int | None = None  # what the read gets
        self.quiet = 0  # clocks without traffic and events
        self.waited = 0  # clocks for which an answer has waited

    def begin(self) -> None:
        """Begin an access."""
        self.access = access = draw_access()
        if access.strobes:
            self.aw.values.append(access.offset)
            self.w.values.append(access.data << 4 | access.strobes)
            self.missing = {"aw", "w"}
        else:
            self.ar.values.append(access.offset)
            self.missing = {"ar"}

    def _draw_inputs(self) -> dict[str, int]:
        chance = self.eventful
        if self.acts or any(self.model.pulses.values()):
            chance = max(chance, 0.4)  # what is rare meets more
        elif self.quiet >= REST and len(self.missing) != 1:
            chance = max(chance, 0.03)

        def event() -> int:
            return int(random.random() < chance)

        inputs = {irq: event() for irq in IRQS}
        inputs |= {f"ring_tail_{name}_i": event() for name in ("set", "clear")}
        inputs["ring_enable_clear_i"] = int(random.random() < (chance if self.quiet >= REST else chance / 3))
        inputs |= {name: random.getrandbits(width) for name, width in EVENTS}
        inputs["ring_tail_value_i"] = random.getrandbits(16)
        inputs |= {port: random.getrandbits(len(getattr(self.dut, port))) for port in STATUS_INPUTS}
        return inputs

    def _drive(self, inputs: dict[str, int]) -> None:
        packed = 0
        for name, width in EVENTS:
            packed = packed << width | inputs[name]
        self.dut.events_i.value = packed
        for name, value in inputs.items():
            if name.endswith("_i"):
                getattr(self.dut, name).value = value
        for side in (self.aw, self.w, self.ar, self.b, self.r):
            side.drive()

    async def clock(self, *, in_reset: bool = False) -> None:
        """Do one clock: choose inputs, compare all outputs, follow."""
        if self.access is None and not in_reset and not self.fresh and random.random() < self.beginning:
            self.begin()
        inputs, access = self._draw_inputs(), self.access
        if in_reset:
            for side in (self.aw, self.w, self.ar):
                side.withdraw()
        self.dut.rst_ni.value = int(not in_reset)
        self._drive(inputs)
        await RisingEdge(self.dut.clk_i)
        self._look()
        write = access if self.acts and access and access.strobes else None
        self._note(write, inputs, in_reset=in_reset)
        if in_reset:
            self.forget()
            return
        if self.acts and access and not access.strobes:
            self.expected = self.model.value(access, inputs)
        self.model.clock(write, inputs)
        self.acts = self.fresh = False
        for name, side in (("aw", self.aw), ("w", self.w), ("ar", self.ar)):
            if side.taken() is not None:
                self.missing.remove(name)
                self.acts = not self.missing
        if (answer := self.b.took()) is not None:
            assert access
            assert access.strobes
            assert answer == (0,)
            self.access = None
        if (answer := self.r.took()) is not None:
            assert access
            assert not access.strobes
            assert answer == (self.expected, 0), access
            self.access = None

    def _look(self) -> None:
        """Compare the outputs of this clock."""
        dut, model = self.dut, self.model
        for name, port in (
            ("soft_reset", "soft_reset_o"),
            ("clear_error", "clear_error_o"),
            ("doorbell", "cmd_doorbell_o"),
            ("tail", "ring_tail_write_o"),
        ):
            assert bool(getattr(dut, port).value) == model.pulses[name], name
        assert bool(dut.ring_enable_o.value) == model.enable
        assert bool(dut.irq_o.value) == bool(model.flags & model.plain["IRQ_ENABLE"])
        assert int(dut.ring_tail_o.value) == model.tail
        packet = sum(word << 32 * index for index, word in enumerate(model.window))
        assert int(dut.cmd_packet_o.value) == packet
        for name, value in model.plain.items():
            if name != "IRQ_ENABLE":
                assert int(getattr(dut, f"{name.lower()}_o").value) == value, name

    def _note(self, write: Access | None, inputs: dict[str, int], *, in_reset: bool) -> None:
        """Count what meets in this clock."""
        dut, model, saw, sit = self.dut, self.model, self.situations.saw, RegisterSituation
        raised = sum(inputs[irq] << bit for bit, irq in enumerate(IRQS))
        name = write.name if write else ""
        soft, done = model.pulses["soft_reset"], bool(inputs["ring_enable_clear_i"])
        put, drop = bool(inputs["ring_tail_set_i"]), bool(inputs["ring_tail_clear_i"])
        events = any(inputs[event] for event, _ in EVENTS)
        wakes = raised or done or put or drop
        offering = self.aw.offering or self.w.offering or self.ar.offering
        answer = bool(dut.s_axil_bvalid.value or dut.s_axil_rvalid.value)
        self.waited = self.waited + 1 if answer else 0
        rested = self.quiet >= REST
        if in_reset:
            saw(sit.RESET_WRITE, write)
            saw(sit.RESET_ANSWER, answer)
            saw(sit.RESET_PULSE, any(model.pulses.values()))
            return
        if write:
            saw(sit.IRQ_CLEAR, name == "IRQ_STATUS" and raised & write.data & write.bits & model.flags)
            saw(sit.ENABLE_WRITE, name == "CONTROL" and done)
            saw(sit.TAIL_SET, name == "RING_TAIL" and put)
            saw(sit.TAIL_CLEAR, name == "RING_TAIL" and drop)
        saw(sit.IRQ_RESET, soft and raised)
        saw(sit.IRQ_COMPLETE, done and raised)
        saw(sit.FLAGS_RESET, soft and model.flags)
        saw(sit.FLAGS_COMPLETE, done and model.flags)
        saw(sit.WINDOW_RESET, soft and any(model.window))
        saw(sit.WINDOW_KEPT, done and not soft and any(model.window))
        saw(sit.ENABLE_COMPLETE, done and model.enable)
        saw(sit.TAIL_BOTH, put and drop and name != "RING_TAIL")
        saw(sit.COUNTS_CLEARED, model.pulses["clear_counters"] and events)
        saw(sit.COUNTS_RESET, soft and events)
        saw(sit.COUNTS_COMPLETE, done and events)
        saw(sit.DATA_LATE, rested and self.missing == {"w"} and self.w.offering)
        saw(sit.ADDRESS_LATE, rested and self.missing == {"aw"} and self.aw.offering)
        saw(sit.ANSWER_LATE, self.waited == REST)
        saw(sit.EVENT_AT_REST, rested and raised)
        saw(sit.CLEAR_AT_REST, rested and done)
        read = self.acts and self.access and not self.access.strobes
        saw(sit.READ_COUNTER, read and model.counts.get(self.access.name if self.access else ""))
        self.quiet = 0 if wakes or offering or answer or self.acts else self.quiet + 1


def paces() -> Iterator[float]:
    """Give chances of an event in a clock."""
    while True:
        yield from random.sample((0.0, 0.0, 0.01, 0.1, 0.4), 5)


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """Each write acts once, in the clock after its address and data have come; each event and clear of the
    device takes effect in its own clock, whatever else that clock brings and however long nothing came."""
    for name in ("aw", "w", "ar"):
        getattr(dut, f"s_axil_{name}valid").value = 0
    dut.s_axil_awprot.value = dut.s_axil_arprot.value = 0
    dut.s_axil_bready.value = dut.s_axil_rready.value = 0
    await reset(dut, "events_i", "state_i", "queue_level_i", "error_code_i", "error_addr_i")
    situations = Situations(RegisterSituation, least=10)
    testbench = RegisterTestbench(dut, situations)
    pace = paces()
    for _ in situations.rounds(400):
        vary(testbench.aw, testbench.w, testbench.ar, testbench.b, testbench.r)
        if random.random() < 0.3:  # the clock rests between the address and the data of a write
            testbench.aw.chance, testbench.w.chance = random.choice(((0.03, 1.0), (1.0, 0.03)))
        testbench.eventful, testbench.beginning = next(pace), random.choice((1.0, 0.5, 0.05))
        resetting = random.choice((0.0, 0.0, 0.03))
        for _ in range(random.choice((20, 60, 200))):
            sharp = 10 if testbench.acts or any(testbench.model.pulses.values()) else 1
            await testbench.clock(in_reset=random.random() < sharp * resetting)
    dut.rst_ni.value = 1
