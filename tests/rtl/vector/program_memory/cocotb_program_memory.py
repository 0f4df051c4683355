"""program_memory: random loads and reads compared with the model, each clock of loads, reads, aborts and
resets, executable words, the built-in program."""

import random
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout

from echo_npu.model.program_memory import ILLEGAL, ProgramMemory
from echo_npu.vector.assembler import assemble
from tb.blocks import parameter
from tests.rtl.situations import Situations
from tests.rtl.stimulus import CHANCES, pulse, reset, until

CONFIGURATIONS = [{"Words": 64}]
WORDS = parameter("Words")
BUILT_IN = 0x8000_0000
ADD_TENSOR = assemble("chunks\nmul v0, s1, p0\nadd o, s0, v0\nnext s0 s1\nend\n").code
BUILT_IN_WORDS = [int.from_bytes(ADD_TENSOR[at : at + 8], "little") for at in range(0, len(ADD_TENSOR), 8)]


async def begin(dut: Any, at: int, count: int) -> None:
    """Begin a load of `count` words from `at` on as soon as the module is ready."""
    await with_timeout(until(dut, "ready_o"), 10, "us")
    dut.begin_first_i.value, dut.begin_end_i.value = at, at + count
    await pulse(dut, "begin_i")


async def write(dut: Any, at: int, words: list[int], gaps: tuple[int, ...] = (0, 0, 2)) -> None:
    """Write words from `at` on, with gaps between them."""
    for address, word in enumerate(words, at):
        dut.write_address_i.value, dut.write_data_i.value = address, word
        await pulse(dut, "write_i")
        await ClockCycles(dut.clk_i, random.choice(gaps))


async def load(dut: Any, model: ProgramMemory, at: int, count: int) -> None:
    """Do a whole load of random words."""
    words = [random.getrandbits(63) for _ in range(count)]
    await begin(dut, at, count)
    await with_timeout(until(dut, "writable_o"), 10, "us")
    await write(dut, at, words)
    await pulse(dut, "complete_i")
    model.load(at, np.array(words, dtype=np.uint64))


async def fail(dut: Any, model: ProgramMemory, at: int, count: int) -> None:
    """Do a load that is ended before or after any of its words."""
    await begin(dut, at, count)
    if random.random() < 0.3:
        await ClockCycles(dut.clk_i, random.randrange(20))
    else:
        await with_timeout(until(dut, "writable_o"), 10, "us")
        await write(dut, at, [random.getrandbits(63) for _ in range(random.randint(0, count))])
    await pulse(dut, "abort_i")
    model.give_up(at, count)


async def read(dut: Any, address: int) -> tuple[int, bool]:
    """Read the word at `address` and whether it may be executed; both stay while nothing is read."""
    dut.read_address_i.value = address
    await pulse(dut, "read_i")
    dut.read_address_i.value = random.getrandbits(32)
    await ClockCycles(dut.clk_i, random.randint(1, 3))
    return int(dut.instruction_o.value), bool(dut.executable_o.value)


async def executed(dut: Any, address: int) -> int | None:
    """Read the word at `address` as a program sees it: None where it ends the program."""
    word, executable = await read(dut, address)
    return word if executable and word != int(ILLEGAL) else None


def defined(model: ProgramMemory, address: int) -> int | None:
    """Return the same of the model."""
    if address >= model.loaded or model.words[address] == ILLEGAL:
        return None
    return int(model.words[address])


@cocotb.test()
async def random_loads(dut: Any) -> None:
    """Only words of completed loads may ever be executed: none between them, none that a failed load wrote or
    would have written."""
    await reset(dut)
    for _ in range(8):
        model = ProgramMemory(WORDS)
        for _ in range(10):
            at = random.randrange(WORDS)
            count = random.randint(1, min(random.choice((1, 8, WORDS)), WORDS - at))
            await (load if random.random() < 0.6 else fail)(dut, model, at, count)
            near = (at - 1, at, at + count - 1, at + count, model.loaded - 1, model.loaded)
            for address in (*random.sample(near, len(near)), *random.sample(range(WORDS), 4)):
                if 0 <= address < WORDS:
                    assert await executed(dut, address) == defined(model, address), address
            assert int(dut.loaded_o.value) == model.loaded
        for address in range(WORDS):
            assert await executed(dut, address) == defined(model, address), address
        await reset_again(dut)
        assert int(dut.loaded_o.value) == 0
        assert not (await read(dut, 0))[1]


async def reset_again(dut: Any) -> None:
    """A reset comes in the middle of use."""
    dut.rst_ni.value = 0
    await RisingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    await RisingEdge(dut.clk_i)


@cocotb.test()
async def addresses_beyond(dut: Any) -> None:
    """An address outside the memory is not executable, even when its low bits are those of a loaded word."""
    await reset(dut)
    await load(dut, ProgramMemory(WORDS), 0, WORDS)
    for address in (WORDS, WORDS + 1, 2 * WORDS, 1 << 30, BUILT_IN - 1):
        assert not (await read(dut, address))[1], address


@cocotb.test()
async def reads_while_loading(dut: Any) -> None:
    """A word a clock is read while others are written."""
    await reset(dut)
    model = ProgramMemory(WORDS)
    await load(dut, model, 0, WORDS // 2)
    memory = model.words.tolist()
    loading = cocotb.start_soon(load(dut, model, WORDS // 2, WORDS // 2))
    dut.read_i.value = 1
    for address in range(WORDS // 2):
        dut.read_address_i.value = address
        await RisingEdge(dut.clk_i)
        if address > 0:
            assert int(dut.instruction_o.value) == memory[address - 1]
            assert dut.executable_o.value
    dut.read_i.value = 0
    await loading


@cocotb.test()
async def built_in_program(dut: Any) -> None:
    """The program of ADD_TENSOR is there without a load."""
    await reset(dut)
    for number, expected in enumerate(BUILT_IN_WORDS):
        word, executable = await read(dut, BUILT_IN + number)
        assert executable
        assert word == expected, number


class ProgramMemorySituation(Enum):
    """What meets in a clock."""

    ABORT_BEGIN = "an abort in the clock of a begin"
    ABORT_COMPLETE = "an abort in the clock of a completion"
    ABORT_WRITE = "an abort in the clock of a write"
    ABORT_FILLING = "an abort while the gap before a load is filled"
    ABORT_SWEEPING = "an abort while the words of an aborted load are swept"
    ABORT_READ = "an abort in the clock of a read"
    RESET_FILLING = "a reset while the gap before a load is filled"
    RESET_SWEEPING = "a reset while the words of an aborted load are swept"
    RESET_OPEN = "a reset in the middle of a load"
    RESET_BEGIN = "a reset in the clock of a begin"
    RESET_COMPLETE = "a reset in the clock of a completion"
    READ_COMPLETE = "a read in the clock of a completion"
    READ_SWEPT = "a read of a word that has been swept, while others still are"
    READ_TO_BE_SWEPT = "a read of a word that is still to be swept"
    READ_SWEEP_ENDS = "a read of the last word to be swept, in the clock in which it is"
    READ_BEHIND = "a read of the word behind the loaded ones"
    BELOW = "a load below the loaded words"
    GAP = "a load behind a gap"
    WHOLE = "a load up to the end of the memory"


@dataclass
class LoadModel:
    """The memory, clock by clock.

    Attributes: defined (what a word holds; None if nothing wrote it), loaded, filled (words that hold
    something), load (first word and end of the one that is open), swept (words that are still to be swept).
    """

    defined: list[int | None] = field(default_factory=lambda: [None] * WORDS)
    loaded: int = 0
    filled: int = 0
    load: tuple[int, int] | None = None
    swept: list[int] = field(default_factory=list)

    @property
    def filling(self) -> bool:
        return self.load is not None and self.filled < self.load[0]

    @property
    def ready(self) -> bool:
        return self.load is None and not self.swept

    @property
    def writable(self) -> bool:
        return self.load is not None and not self.filling

    def executable(self, address: int) -> bool:
        """Whether a word that is read now may be executed."""
        return address >= BUILT_IN or (address < self.loaded and address not in self.swept)

    def word(self, address: int) -> int | None:
        """What a read of an address gets."""
        if address >= BUILT_IN:
            return BUILT_IN_WORDS[address - BUILT_IN]
        return self.defined[address] if address < WORDS else None

    def clock(self, inputs: "Inputs") -> None:
        """Do one clock."""
        load, filled = self.load, self.filled
        if self.swept:
            self.defined[self.swept.pop(0)] = int(ILLEGAL)
        if self.filling:
            self.defined[filled] = int(ILLEGAL)
            self.filled += 1
        if inputs.write is not None:
            self.defined[inputs.write] = inputs.data
        if load is not None and inputs.complete:
            self.loaded, self.filled = max(self.loaded, load[1]), max(self.filled, load[1])
        elif load is not None and inputs.abort:
            self.swept = list(range(load[0], min(load[1], filled)))
        self.load = None if inputs.complete or inputs.abort else inputs.begin or load


@dataclass(frozen=True)
class Inputs:
    """What comes in a clock.

    Attributes: begin (first word and end of a load), write (the word that is written), data, complete, abort,
    in_reset, read (the address).
    """

    begin: tuple[int, int] | None
    write: int | None
    data: int
    complete: bool
    abort: bool
    in_reset: bool
    read: int | None

    def drive(self, dut: Any) -> None:
        """Choose the inputs of the coming clock edge; what is not used is random."""
        first, end = self.begin or (random.getrandbits(32), random.getrandbits(32))
        dut.abort_i.value, dut.rst_ni.value = int(self.abort), int(not self.in_reset)
        dut.begin_i.value, dut.complete_i.value = int(self.begin is not None), int(self.complete)
        dut.begin_first_i.value, dut.begin_end_i.value = first, end
        dut.write_i.value, dut.write_data_i.value = int(self.write is not None), self.data
        dut.write_address_i.value = random.getrandbits(32) if self.write is None else self.write
        dut.read_i.value = int(self.read is not None)
        dut.read_address_i.value = random.getrandbits(32) if self.read is None else self.read


def draw_load(model: LoadModel) -> tuple[int, int]:
    """Draw the first word and the end of a load: anywhere, or near what is loaded, short or long."""
    near = model.loaded + random.randint(-3, 3)
    at = min(max(random.choice((near, near, 0, random.randrange(WORDS))), 0), WORDS - 1)
    end = random.choice((at + 1, random.randint(at + 1, WORDS), min(at + random.randint(1, 8), WORDS), WORDS))
    return at, end


def draw_address(model: LoadModel) -> int:
    """Draw an address to read: anywhere, or where something begins or ends."""
    edges = [
        model.loaded,
        model.loaded - 1,
        random.randrange(WORDS),
        BUILT_IN + random.randrange(len(BUILT_IN_WORDS)),
    ]
    edges += [model.load[0], model.load[1] - 1] if model.load else []
    edges += 4 * [model.swept[0], model.swept[0] - 1, model.swept[-1]] if model.swept else []
    edges.append(random.choice((WORDS, 1 << random.randrange(7, 31))) + random.randrange(WORDS))
    return max(random.choice(edges), 0)


@cocotb.test()
async def each_clock(dut: Any) -> None:
    """What may begin, be written and be executed in each clock of random loads, reads, aborts and resets."""
    await reset(dut)
    situations = Situations(ProgramMemorySituation, least=10)
    model = LoadModel()
    place = 0  # word to be written next
    shown: tuple[int | None, bool] | None = None  # the word read last, and whether it is executable
    for _ in situations.rounds(900):
        aborting, resetting = random.choice((0.0, 0.03, 0.1)), random.choice((0.0, 0.0, 0.05))
        writing, beginning = random.choice(CHANCES), random.choice(CHANCES)
        for _ in range(random.choice((20, 60))):
            more, goes_on = model.load is not None and place < model.load[1], random.random() < writing
            complete = model.writable and not more and goes_on
            sharp = 5 if complete or model.swept else 1  # what is rare meets more
            inputs = Inputs(
                begin=draw_load(model) if model.ready and random.random() < beginning else None,
                write=place if model.writable and more and goes_on else None,
                data=random.getrandbits(64),
                complete=complete,
                abort=random.random() < sharp * aborting,
                in_reset=random.random() < sharp * resetting,
                read=draw_address(model) if random.random() < 0.7 else None,
            )
            if inputs.write is not None and inputs.read == inputs.write and model.executable(inputs.write):
                inputs = replace(inputs, read=None)  # the memory forbids both
            inputs.drive(dut)
            await RisingEdge(dut.clk_i)
            state = bool(dut.ready_o.value), bool(dut.writable_o.value), int(dut.loaded_o.value)
            assert state == (model.ready, model.writable, model.loaded)
            if shown is not None:
                assert bool(dut.executable_o.value) == shown[1]
                assert not shown[1] or int(dut.instruction_o.value) == shown[0]
            note(situations, model, inputs)
            if inputs.read is not None:
                shown = model.word(inputs.read), model.executable(inputs.read)
            if inputs.in_reset:
                model = LoadModel()
            else:
                model.clock(inputs)
            place = inputs.begin[0] if inputs.begin else place + (inputs.write is not None)
    dut.rst_ni.value = 1


def note(situations: Situations, model: LoadModel, inputs: Inputs) -> None:
    """Count what meets in a clock."""
    saw, sit = situations.saw, ProgramMemorySituation
    begin, address = inputs.begin, inputs.read
    if inputs.in_reset:
        saw(sit.RESET_FILLING, model.filling)
        saw(sit.RESET_SWEEPING, len(model.swept) > 1)
        saw(sit.RESET_OPEN, model.writable)
        saw(sit.RESET_BEGIN, begin)
        saw(sit.RESET_COMPLETE, inputs.complete)
        return
    if inputs.abort:
        saw(sit.ABORT_BEGIN, begin)
        saw(sit.ABORT_COMPLETE, inputs.complete)
        saw(sit.ABORT_WRITE, inputs.write is not None)
        saw(sit.ABORT_FILLING, model.filling)
        saw(sit.ABORT_SWEEPING, len(model.swept) > 1)
        saw(sit.ABORT_READ, address is not None and model.executable(address))
    if begin is not None:
        saw(sit.BELOW, begin[0] < model.loaded)
        saw(sit.GAP, begin[0] > model.filled)
        saw(sit.WHOLE, begin[1] == WORDS)
    if address is not None:
        saw(sit.READ_COMPLETE, inputs.complete and model.load is not None and address == model.load[1] - 1)
        saw(sit.READ_BEHIND, address == model.loaded)
        if model.swept and address < model.loaded:
            saw(sit.READ_SWEPT, address == model.swept[0] - 1)
            saw(sit.READ_TO_BE_SWEPT, address in model.swept)
            saw(sit.READ_SWEEP_ENDS, [address] == model.swept)
