"""matrix_engine: random products, two at a time, on a memory at any pace, and aborts.

The model knows every byte that a command must write, every byte that it may read, and the order in which the
bytes of a destination are written. It does not prescribe how the engine divides a product into blocks.
"""

import random
from collections import deque
from dataclasses import replace
from enum import Enum
from itertools import takewhile
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from echo_npu.spec.data_types import Blocks, DataType, OutType
from tb.blocks import parameter
from tests.rtl.channels import ReadChannel, WriteChannel
from tests.rtl.matrix.commands import MatrixCommand
from tests.rtl.matrix.epilogues import draw_epilogue
from tests.rtl.matrix.products import DrawnProduct, draw_product
from tests.rtl.matrix.regions import Places
from tests.rtl.situations import Situations
from tests.rtl.stimulus import CHANCES, reset

CONFIGURATIONS = [
    {
        "DataWidth": 64, "Tile": 4, "BlockM": 16, "BlockKTiles": 4, "BlockNTiles": 4,
        "AccEntries": 64, "Blocks": 1, "Pipeline": 0,
    },
    {
        "DataWidth": 64, "Tile": 4, "BlockM": 16, "BlockKTiles": 2, "BlockNTiles": 4,
        "AccEntries": 32, "Blocks": 0, "Pipeline": 0,
    },
    {
        "DataWidth": 128, "Tile": 16, "BlockM": 32, "BlockKTiles": 2, "BlockNTiles": 4,
        "AccEntries": 64, "Blocks": 1, "Pipeline": 0,
    },
    {
        "DataWidth": 64, "Tile": 4, "BlockM": 16, "BlockKTiles": 4, "BlockNTiles": 4,
        "AccEntries": 64, "Blocks": 1, "Pipeline": 1,
    },
    {
        "DataWidth": 256, "Tile": 16, "BlockM": 64, "BlockKTiles": 4, "BlockNTiles": 8,
        "AccEntries": 256, "Blocks": 1, "Pipeline": 1,
    },
]  # fmt: skip
TILE, BLOCK_M = parameter("Tile"), parameter("BlockM")
BLOCK_K = TILE * parameter("BlockKTiles")
BLOCK_N = TILE * parameter("BlockNTiles")
MANY_ROWS = (1 + parameter("Pipeline")) * TILE + 8
"""From this many rows on, a sum has left the array when it is needed again."""
WITH_BLOCKS = bool(parameter("Blocks"))
MOST_WORDS = 500 * TILE * TILE
"""Limit of a command's words of K times rows times columns, for a short simulation."""
PATIENCE = 4000
"""Clocks within which something must happen while a command is inside."""
GAP = 3
"""Clocks that the array may rest between two commands."""
SETTLED = 60
"""Clocks that operands may take from the chip's memories to the array."""
BEHIND = 0.3
"""The chance that a command starts in the clock in which the only one inside ends."""
WANTED, TRIES = 0.5, 30
"""The chance that a command is drawn again until it makes a situation that is missing, and how often."""
COUNTED_PANELS = 256
"""More panels than a counter of panels can count."""
CALM, STORMY = 40, 20
"""Numbers of consecutive rounds without and with aborts and resets."""


class MatrixEngineSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    FP32 = "float32"
    BF16 = "bfloat16"
    FP16 = "float16"
    INT8 = "int8"
    HALF_LEFT = "float32 whose left operand is float16"
    HALF_RIGHT = "float32 whose right operand is float16"
    OWN_BF16 = "results of bfloat16"
    OWN_FP16 = "results of float16"
    OWN_INT8 = "results of int8"
    INT32 = "results of int32"
    NEITHER = "no operand transposed"
    LEFT = "the left operand transposed"
    RIGHT = "the right operand transposed"
    BOTH = "both operands transposed"
    PART_WORD = "a depth of int8 that is no whole number of words"
    Q8_0 = "weights in blocks of q8_0"
    Q4_0 = "weights in blocks of q4_0"
    Q4_1 = "weights in blocks of q4_1"
    BLOCKS_FP16 = "weights in blocks beside float16"
    HALF_TILE = "several K blocks of weights in blocks, the last tile of a single block"
    SPECIAL = "operands at the edges of their type"
    INNER = "inner batches alone"
    OUTER = "outer batches alone"
    BATCHES = "inner and outer batches"
    SAME_AGAIN = "an operand that all batches share"
    OVERLAP = "batches of a result that overlap"
    ALPHA = "alpha"
    ROW_SCALE = "row scales"
    COL_SCALE = "column scales"
    BIAS = "bias"
    RELU = "relu"
    ALL_STEPS = "every step of the epilogue"
    MANY_M = "several M blocks, the last of them not whole"
    MANY_K = "several K blocks, the last of them not whole"
    MANY_N = "several N blocks, the last of them not whole"
    FLAT = "a product of few rows with many columns and many K blocks"
    JUST_MANY = "as many rows as the array is deep, several tiles of K and of N"
    ONE = "one element"
    BEHIND = "a command that starts in the clock in which another one is done"
    LEFT_NEXT = "a left operand that is fetched for the younger command"
    RIGHT_NEXT = "a right operand that is fetched for the younger command"
    HELD = "weights of the older command while it is held"
    HELD_NEXT = "weights of the younger command while it is held"
    RUN_AHEAD = "multiply-adds of the younger command"
    COMPUTED = "a younger command that is multiplied while the older one cannot drain"
    UNWRITTEN = "results that are on their way to memory"
    READ_STALL = "an array that waits for operands"
    WRITE_STALL = "an array that waits for room"
    WRAPPED = "more panels than the counters of panels can count"
    ABORT_READ = "an abort with operands on their way"
    ABORT_WRITE = "an abort in the midst of a transfer of results"
    ABORT_TWO = "an abort of two commands"
    ABORT_IDLE = "an abort of no command"
    RESET = "a reset with a command inside"


def draw() -> MatrixCommand:
    """Draw a command of any kind, small enough for many of them."""
    command = draw_epilogue(MatrixCommand())
    while True:
        m, depth, n = (
            random.choice((1, TILE, TILE + 1, block, block + 1, 2 * block, random.randint(1, 3 * block)))
            for block in (BLOCK_M, BLOCK_K, BLOCK_N)
        )
        if random.random() < 0.1:
            m = MANY_ROWS
            depth, n = random.choice(((depth, n), (4 * TILE, 2 * TILE)))
        batch0, batch1 = random.choice(((1, 1), (1, 1), (1, 3), (2, 1), (2, 2), (3, 2)))
        if random.random() < 0.3:
            m = random.randint(1, BLOCK_M // 4)
            n = random.randint(1, 6 * BLOCK_N)
        if random.random() < 0.1:
            # Just wider than a tile in each dimension: other draws seldom are, and small enough.
            m, depth, n = (random.randint(TILE + 1, TILE + 4) for _ in range(3))
            batch0, batch1 = 1, 1
        if m * depth * n * batch0 * batch1 <= MOST_WORDS:
            break
    k = 4 * depth - random.randrange(4) if command.kind == DataType.INT8 else depth
    single = random.random() < 0.03
    if single:
        m = k = n = 1
    trans_a, trans_b = (random.random() < 0.5 for _ in range(2))
    command = replace(command, batch0=batch0, batch1=batch1, m=m, k=k, n=n, trans_a=trans_a, trans_b=trans_b)
    if WITH_BLOCKS and not single and random.random() < 0.5:
        blocks, k = random.choice([each for each in Blocks if each]), 4 * depth + 31 & -32
        kind = random.choice((DataType.FP32, DataType.FP16))
        command = replace(command, kind=kind, result=OutType.FLOAT32, blocks=blocks, k=k)
        command = replace(command, trans_a=False, trans_b=True)
    elif command.kind == DataType.FP32:
        half = random.choice((None, None, "src1_half", "src2_half"))
        command = replace(command, **{half: True} if half else {})
    return command


def draw_small() -> MatrixCommand:
    """Draw a command of a few tiles, in few clocks."""
    command = MatrixCommand(kind=random.choice((DataType.FP32, DataType.INT8)))
    m, k, n = (random.randint(TILE + 1, TILE + TILE // 2) for _ in range(3))
    k *= 4 if command.kind == DataType.INT8 else 1
    return replace(command, m=m, k=k, n=n)


def situations_of(command: MatrixCommand) -> set[MatrixEngineSituation]:
    """Return the situations that a command alone makes, wherever its operands are."""
    integer = command.kind == DataType.INT8
    depth = -(-command.k // 4) if integer or command.blocks else command.k
    deep = (depth - 1) % (2 * TILE) >= TILE  # the last K block, which is two tiles at most
    own = command.result == OutType.OWN and command.kind != DataType.FP32
    sides = (
        (MatrixEngineSituation.NEITHER, MatrixEngineSituation.RIGHT),
        (MatrixEngineSituation.LEFT, MatrixEngineSituation.BOTH),
    )
    met = {
        MatrixEngineSituation[command.blocks.name if command.blocks else command.kind.name]: True,
        MatrixEngineSituation.BLOCKS_FP16: command.blocks and command.kind == DataType.FP16,
        MatrixEngineSituation.HALF_TILE: command.blocks and depth > BLOCK_K and command.k % 64,
        MatrixEngineSituation.HALF_LEFT: command.src1_half,
        MatrixEngineSituation.HALF_RIGHT: command.src2_half,
        MatrixEngineSituation.INT32: command.result == OutType.INT32,
        sides[command.trans_a][command.trans_b]: min(command.m, depth, command.n) > TILE,
        MatrixEngineSituation.PART_WORD: integer and command.k % 4 and depth > BLOCK_K,
        MatrixEngineSituation.INNER: command.batch0 > 1 and command.batch1 == 1,
        MatrixEngineSituation.OUTER: command.batch0 == 1 and command.batch1 > 1,
        MatrixEngineSituation.BATCHES: command.batch0 > 1 and command.batch1 > 1,
        **{MatrixEngineSituation[step]: wanted for step, wanted in command.steps.items()},
        MatrixEngineSituation.ALL_STEPS: all(command.steps.values()),
        MatrixEngineSituation.MANY_M: command.m > BLOCK_M and command.m % BLOCK_M,
        MatrixEngineSituation.MANY_K: depth > BLOCK_K and depth % TILE,
        MatrixEngineSituation.MANY_N: command.n > BLOCK_N and command.n % TILE,
        MatrixEngineSituation.FLAT: (
            command.m <= BLOCK_M // 4 and command.n > 2 * BLOCK_N and depth > BLOCK_K
        ),
        MatrixEngineSituation.JUST_MANY: (
            command.m == MANY_ROWS and depth > 2 * TILE and deep and command.n > TILE
        ),
        MatrixEngineSituation.ONE: command.m == command.k == command.n == 1,
    }
    return {each for each, happened in met.items() if happened} | (
        {MatrixEngineSituation[f"OWN_{command.kind.name}"]} if own else set()
    )


class MatrixEngineTestbench:
    """The ports, and a model of the allowed behaviour of the commands inside.

    Attributes: starting (the chance that a command starts where one may), resting (none starts), holding (the
    chance that it is held at first), draw (draws a command).
    """

    def __init__(self, dut: Any, situations: Situations) -> None:
        self.dut, self.situations = dut, situations
        self.left, self.right, self.vectors = (ReadChannel(dut, prefix) for prefix in ("a_", "b_", "e_"))
        self.results = WriteChannel(dut, "c_")
        self.starting = 1.0
        self.resting = False
        self.holding = 0.3
        self.draw = draw
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        for channel in (self.left, self.right, self.vectors, self.results):
            channel.forget()
        self.inside: deque[DrawnProduct] = deque()
        self.held: dict[int, int] = {}  # clocks for which a command is held, by its id
        self.odd = False  # the next command is
        self.oddness: dict[int, bool] = {}
        self.macs = 0  # of the commands inside
        self.quiet = 0  # clocks without any event
        self.idle = 0  # clocks without a multiply-add
        self.fed = 0  # clocks with work left, but no operand requested or on its way
        self.nameless = 0  # clocks in which the array neither worked nor waited, with rows on their way
        self.first_right: set[int] = set()  # commands whose first panel of B, or of A, has been requested
        self.first_left: set[int] = set()

    @property
    def work(self) -> int:
        """Return the multiply-adds of the commands before the first one that is held."""
        return sum(product.macs for product in takewhile(lambda each: not self.is_held(each), self.inside))

    def is_held(self, product: DrawnProduct) -> bool:
        """Return whether only the right operand of a command may be read."""
        return self.held.get(id(product), 0) > 0

    def product(self) -> DrawnProduct:
        """Draw the next command with its operands; often one of a situation that is missing."""
        command = self.draw()
        if random.random() < WANTED:
            for _ in range(TRIES):
                if self.situations.lacks(*situations_of(command)):
                    break
                command = self.draw()
        return draw_product(command, Places(other.places for other in self.inside))

    def hold(self) -> None:
        """Drive held_i. The younger command is held no shorter than the older one."""
        for key in self.held:
            self.held[key] -= 1
        if self.inside and self.is_held(self.inside[0]):
            self.quiet = 0
        levels = [self.oddness[id(each)] for each in self.inside if self.is_held(each)]
        self.dut.held_i.value = sum(1 << odd for odd in levels)

    async def clock(self, end: str = "") -> None:
        """Do one clock: choose inputs, judge outputs, update the model. `end` "abort" or "reset" ends all
        work."""
        dut = self.dut
        abort = bool(end)
        for channel in (self.left, self.right, self.vectors, self.results):
            channel.drive(abort=abort)
        ending = len(self.inside) == 1 and not self.inside[0].result.left and self.results.idle
        chance = 0 if self.resting else BEHIND if ending else self.starting
        start = len(self.inside) < 2 and not abort and random.random() < chance
        width = len(dut.command_i)
        product = self.product() if start else None
        dut.start_i.value = int(start)
        dut.abort_i.value, dut.rst_ni.value = int(end == "abort"), int(end != "reset")
        dut.command_i.value = product.command.bits(width) if product else random.getrandbits(width)
        self.hold()
        await RisingEdge(dut.clk_i)
        if abort:
            self.note_abort(end)
            self.forget()
            return
        assert bool(dut.ready_o.value) == (len(self.inside) < 2)
        assert bool(dut.busy_o.value) == bool(self.inside)
        self.quiet += 1
        self.follow_macs()
        done = self.follow_done()
        self.follow_reads()
        self.follow_results()
        if done:
            self.finish(self.inside.popleft())
        self.situations.saw(MatrixEngineSituation.BEHIND, done and start)
        if product:
            self.inside.append(product)
            self.oddness[id(product)], self.odd = self.odd, not self.odd
            if random.random() < self.holding:
                self.held[id(product)] = random.choice((2, 3, 10, 100, 400))
        if product or not self.results.accepting:
            self.quiet = 0
        assert not self.inside or self.quiet < PATIENCE, "nothing happens any more"

    def pace(self) -> None:
        """Choose how fast memory is: in every other call as fast as it can be."""
        fast = random.random() < 0.5
        for channel in (self.left, self.right, self.vectors):
            channel.accepting = 1.0 if fast else random.choice(CHANCES)
            channel.bringing = 1.0 if fast else random.choice((1.0, *CHANCES))
        self.results.accepting = 1.0 if fast else random.choice((*CHANCES, 0))
        self.results.taking = 1.0 if fast else random.choice(CHANCES)

    async def rest(self) -> None:
        """Start nothing until all commands have ended, or memory takes too long for it."""
        self.resting = True
        for _ in range(PATIENCE):
            if not self.inside:
                break
            await self.clock()
        self.resting = False

    def follow_macs(self) -> None:
        """Count multiply-adds and stalls."""
        dut, saw = self.dut, self.situations.saw
        macs = int(dut.macs_o.value)
        stalls = bool(dut.stall_read_o.value), bool(dut.stall_write_o.value)
        assert (macs > 0) + sum(stalls) <= 1, "an array that waits and works"
        self.macs += macs
        assert self.macs <= self.work, "more multiply-adds than the commands have"
        assert self.macs < self.work or not any(stalls), "an array that waits for nothing"
        if macs:
            self.quiet = 0
            ahead = self.macs > self.inside[0].macs
            saw(MatrixEngineSituation.RUN_AHEAD, ahead)
            saw(MatrixEngineSituation.COMPUTED, ahead and self.results.accepting == 0)
        saw(MatrixEngineSituation.READ_STALL, stalls[0])
        saw(MatrixEngineSituation.WRITE_STALL, stalls[1])
        self.check_stalls(*stalls, working=macs > 0)

    def check_stalls(self, read: bool, write: bool, *, working: bool) -> None:
        """A sufficiently long wait must be reported as a stall of what is missing."""
        channels = self.left, self.right
        self.idle = 0 if working else self.idle + 1
        self.nameless = self.nameless + 1 if self.macs < self.work and not (working or read or write) else 0
        assert self.nameless <= GAP, "an array that waits for rows and does not say so"
        fed = self.macs < self.work and not any(channel.owners or channel.wanted() for channel in channels)
        self.fed = self.fed + 1 if fed else 0
        if min(self.fed, self.idle) > SETTLED:
            # The first of two planes is no multiply-add, and no wait.
            assert write or self.nameless, "an array that waits for room and does not say so"

    def follow_done(self) -> bool:
        """Return whether the oldest command has ended, which must be when all of it is in memory."""
        written = bool(self.inside) and self.inside[0].result.left == 0
        done = bool(self.dut.done_o.value)
        assert done == (written and self.results.idle)
        self.situations.saw(MatrixEngineSituation.UNWRITTEN, written and not self.results.idle)
        return done

    def follow_reads(self) -> None:
        """Judge requests and their owner, and bring the data."""
        dut, saw = self.dut, self.situations.saw
        for channel, following in ((self.left, dut.a_next_o), (self.right, dut.b_next_o)):
            if channel.owners:
                younger = channel.owners[0] is not self.inside[0]
                assert bool(following.value) == younger, "an operand's transfers have another owner"
        saw(MatrixEngineSituation.LEFT_NEXT, self.left.owners and dut.a_next_o.value)
        saw(MatrixEngineSituation.RIGHT_NEXT, self.right.owners and dut.b_next_o.value)
        for channel in (self.left, self.right, self.vectors):
            # Data of this clock still belongs to the same command.
            self.follow_read(channel)
            if channel.took():
                self.quiet = 0
        saw(MatrixEngineSituation.WRAPPED, min(self.left.asked, self.right.asked) > COUNTED_PANELS)

    def follow_read(self, channel: ReadChannel) -> None:
        """Judge the request on a channel."""
        transfer = channel.wanted()
        assert transfer is None or self.inside, f"{transfer} of no command"
        if transfer is None or not channel.accepted:
            return
        for product in self.inside:
            choices = {self.left: (product.left,), self.right: (product.right,)}
            for source in choices.get(channel, product.vectors):
                if source.begins(transfer):
                    rows = source.read(transfer)
                    break
            else:
                continue
            break
        else:
            raise AssertionError(f"{transfer} is of no command")
        assert all(owner is product for owner in channel.owners), "operands of two commands at a time"
        assert channel is self.right or not self.is_held(product), "an operand of a command that is held"
        if self.is_held(product):
            self.situations.saw(MatrixEngineSituation.HELD, product is self.inside[0])
            self.situations.saw(MatrixEngineSituation.HELD_NEXT, product is not self.inside[0])
        if channel is self.vectors:
            assert product is self.inside[0], "vectors of a command whose turn has not come"
        self.quiet = 0
        self.check_order(channel, product)
        channel.bring(product, rows)

    def check_order(self, channel: ReadChannel, product: DrawnProduct) -> None:
        """If a product is not wider than high, its weights must come first."""
        if product.command.m < product.command.n:
            return
        if channel is self.left:
            assert id(product) in self.first_right, "rows before the first weights"
            self.first_left.add(id(product))
        elif channel is self.right:
            again = id(product) in self.first_right
            assert not again or id(product) in self.first_left, "more weights before the first rows"
            self.first_right.add(id(product))

    def follow_results(self) -> None:
        """Judge the written bytes and the announced transfers."""
        written = self.results.follow()
        if written is not None:
            self.quiet = 0
            self.inside[0].result.write(*written)
        transfer = self.results.wanted()
        assert transfer is None or self.inside, f"{transfer} of no command"
        if transfer is None or not self.results.accepted:
            return
        self.quiet = 0
        assert not self.is_held(self.inside[0]), "results of a command that is held"
        self.inside[0].result.check(transfer)
        self.results.expect(transfer)

    def finish(self, product: DrawnProduct) -> None:
        """Remove the oldest command, which has ended."""
        for channel in (self.left, self.right, self.vectors):
            assert all(owner is not product for owner in channel.owners), "operands of no use"
        self.first_left.discard(id(product))
        self.first_right.discard(id(product))
        self.held.pop(id(product), None)
        del self.oddness[id(product)]
        self.macs -= product.macs
        assert self.macs >= 0, "fewer multiply-adds than the command has"
        assert self.inside or not self.macs, "more multiply-adds than the command has"
        self.quiet = 0
        self.note(product)

    def note_abort(self, end: str) -> None:
        """Count the situations of an abort or a reset."""
        saw = self.situations.saw
        saw(MatrixEngineSituation.RESET, end == "reset" and self.inside)
        if end != "abort":
            return
        saw(MatrixEngineSituation.ABORT_READ, self.left.owners or self.right.owners)
        saw(MatrixEngineSituation.ABORT_WRITE, self.results.active)
        saw(MatrixEngineSituation.ABORT_TWO, len(self.inside) == 2)
        saw(MatrixEngineSituation.ABORT_IDLE, not self.inside)

    def note(self, product: DrawnProduct) -> None:
        """Count the situations of a finished command."""
        command, saw = product.command, self.situations.saw
        for each in situations_of(command):
            saw(each)
        saw(MatrixEngineSituation.SPECIAL, product.special)
        strides = command.src1.batch0_stride, command.src2.batch0_stride
        saw(MatrixEngineSituation.SAME_AGAIN, command.batch0 > 1 and 0 in strides)
        saw(MatrixEngineSituation.OVERLAP, product.result.overlapping)


@cocotb.test()
async def random_products(dut: Any) -> None:
    """Every byte of every result is written once, in its turn; only operands are read, each for its
    command."""
    situations = Situations(MatrixEngineSituation)
    for each in ("Q8_0", "Q4_0", "Q4_1", "BLOCKS_FP16", "HALF_TILE"):
        situations.saw(MatrixEngineSituation[each], not WITH_BLOCKS)
    # Products that are large beside a large array have few panels; the counters are those of the others.
    situations.saw(MatrixEngineSituation.WRAPPED, WITH_BLOCKS)
    await reset(dut)
    testbench = MatrixEngineTestbench(dut, situations)
    for number in situations.rounds(40):
        testbench.starting = random.choice((1.0, 0.1, 0.005, 0.0005))
        testbench.pace()
        for _ in range(random.randint(200, 1500)):
            await testbench.clock()
        # Counters wrap only in a long run without an abort.
        if number % (CALM + STORMY) >= CALM and random.random() < 0.5:
            if situations.lacks(MatrixEngineSituation.ABORT_IDLE):
                await testbench.rest()
            await testbench.clock(random.choice(("abort", "abort", "reset")))


@cocotb.test()
async def an_end_in_each_clock(dut: Any) -> None:
    """An abort or a reset of one clock, in each clock of a small product, leaves nothing of it: the next one
    is right."""
    await reset(dut)
    testbench = MatrixEngineTestbench(dut, Situations())
    testbench.draw = draw_small
    testbench.holding = 0.0

    async def start() -> None:
        testbench.starting = 1.0
        await testbench.clock()
        testbench.starting = 0.0

    clocks = 0
    while True:
        await start()
        for _ in range(clocks):
            if testbench.inside:
                await testbench.clock()
        if not testbench.inside:
            return
        await testbench.clock(random.choice(("abort", "abort", "abort", "reset")))
        await start()
        while testbench.inside:
            await testbench.clock()
        clocks += 1
