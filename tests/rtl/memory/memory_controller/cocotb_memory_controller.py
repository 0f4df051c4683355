"""memory_controller: all clients at once, a memory with stalls, reordering and errors, aborts and resets."""

import random
from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from tb.blocks import parameter
from tests.rtl.memory.memory_controller.address_port import HOST, AddressPort
from tests.rtl.memory.memory_controller.channels import Client, ReadClient, WriteClient
from tests.rtl.memory.memory_controller.dram import AnswerOrder, BurstMemory, as_b, as_r
from tests.rtl.memory.memory_controller.host import HostTraffic
from tests.rtl.situations import Situations
from tests.rtl.stimulus import CHANCES, start_clock
from tests.rtl.transfers import PAGE, check_burst

CONFIGURATIONS = [{"DataWidth": 64, "WritesAhead": 4}]
BUS = parameter("DataWidth") // 8
WRITES_AHEAD = parameter("WritesAhead")
COMMAND, MATRIX_READS, READS, WRITES = 0, range(1, 4), 8, 2
ROOM = {COMMAND: 32}
OTHERS_ROOM = 128
"""Beats that a read channel may have requested and not yet given."""
ON_THEIR_WAY = 2
"""Beats in alignment, which have left the buffer."""
SETTLING = 4
"""Clocks after the end of all work within which a channel must report that it is idle."""
ROUNDS = 15
DRAIN = 60_000
"""Clocks in which all work must end when nobody stalls any more."""
INPUTS = (
    *("prot_i", "abort_i", "rd_next_i", "rd_desc_valid_i", "rd_ready_i", "wr_desc_valid_i", "wr_valid_i"),
    *("host_awvalid_i", "host_wvalid_i", "host_arvalid_i"),
    *("m_axi_awready", "m_axi_wready", "m_axi_bvalid", "m_axi_arready", "m_axi_rvalid"),
)
OFFERS = (
    *("rd_valid_o", "host_bvalid_o", "host_rvalid_o"),
    *("m_axi_awvalid", "m_axi_wvalid", "m_axi_arvalid"),
)


class Owner(Enum):
    """Bits of error_o."""

    MATRIX = 0
    VECTOR = 1
    NEXT = 2


class MemoryControllerSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    ALL = "data of all channels and of the host in one round"
    READ_PAGE = "a row that a page's end cuts, read"
    WRITE_PAGE = "a row that a page's end cuts, written"
    AS_ONE = "rows that are read as one"
    ODD_HOST = "a burst of the host of another size or kind than the channels'"
    READ_TURN = "a read of the host that all channels overtake"
    WRITE_TURN = "a write of the host that all channels overtake"
    LATE_DATA = "read data before that of an older burst of another client"
    CUT_DATA = "beats of two bursts in turn"
    LATE_ANSWER = "a write response before that of an older burst of another client"
    EARLY = "a burst of data that memory takes before its address"
    AHEAD = "as many addresses ahead of their data as may be"
    AR_STALLS = "a read address that waits long"
    AW_STALLS = "a write address that waits long"
    W_STALLS = "write data that waits long"
    FULL = "a read channel that has asked for all that it has room for"
    STUCK_READ = "a read channel whose data nobody takes, while all others end"
    STUCK_WRITE = "a write channel whose data does not come, while all others end"
    FETCH_ERROR = "a read error of the command fetch"
    MATRIX_READ = "a read error of the older matrix command"
    NEXT_READ = "a read error of the younger matrix command"
    VECTOR_READ = "a read error of a vector command"
    MATRIX_WRITE = "a write error of a matrix command"
    VECTOR_WRITE = "a write error of a vector command"
    HOST_ERROR = "an error that is the host's"
    TWO_ERRORS = "errors of two owners in a clock"
    SAME_OWNER = "a read error and a write error of one owner in a clock"
    DROPPED_ERROR = "an error of a read that an abort has dropped"
    ABORT_READ = "an abort with read data on its way"
    ABORT_WRITE = "an abort with data of a burst on its way whose address is out"
    ABORT_HOST = "an abort that the host's traffic does not notice"
    IDLE = "the idle state after work"
    RESET = "a reset with work inside"


class ResetSituation(Enum):
    """What a reset has to stop."""

    READ = "a reset in the clock in which a read would go out"
    WRITE = "a reset in the clock in which a write would go out"


class MemoryControllerTestbench:
    """The ports, and a model that follows the controller clock by clock."""

    def __init__(self, dut: Any, situations: Situations) -> None:
        self.dut, self.situations = dut, situations
        self.dram = BurstMemory(dut, BUS)
        self.host = HostTraffic(dut, BUS)
        self.reads = [ReadClient(dut, i, BUS) for i in range(READS)]
        self.writes = [WriteClient(dut, i, BUS) for i in range(WRITES)]
        self.clients: list[Client] = [*self.reads, *self.writes]
        self.ar = AddressPort(dut, "ar", self.host.reads, BUS)
        self.aw = AddressPort(dut, "aw", self.host.writes, BUS)
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        for client in self.clients:
            client.forget()
        for part in (self.ar, self.aw):
            part.forget()
        self.dram.forget()
        self.host.forget()
        self.order: deque[tuple[int, deque[tuple[int, int]]]] = deque()  # owner and number
        self.w_expected: tuple[int, int] | None = None  # expected value of W, with its mask
        self.w_waited = 0
        self.room = True  # room for one more address ahead of its data
        self.idle = True
        self.settled = [0] * (1 + WRITES)
        self.served: set[tuple[str, int]] = set()
        self.aborting = False

    async def reset(self) -> tuple[bool, bool]:
        """Reset with anything under way: from the next clock on, nothing is offered.

        Returns: whether a read, and whether a write, would have gone out in the clock of the reset.
        """
        dut = self.dut
        dut.rst_ni.value = 0
        self.forget()
        for name in INPUTS:
            getattr(dut, name).value = 0
        await RisingEdge(dut.clk_i)
        read = bool(dut.dut.ar_request.value.to_unsigned()) and not dut.m_axi_arvalid.value
        write = bool(dut.dut.order_push.value)
        for _ in range(2):
            await RisingEdge(dut.clk_i)
            offered = [name for name in OFFERS if getattr(dut, name).value]
            assert not offered, f"{offered[0]} is high in a reset"
        dut.rst_ni.value = 1
        return read, write

    async def clock(self, *, abort: bool = False) -> None:
        """One clock: choose inputs, judge the outputs, follow."""
        dut = self.dut
        dut.abort_i.value = int(abort)
        self.aborting = abort
        self._drive()
        await RisingEdge(dut.clk_i)
        self._addresses()
        self._idle()
        write_ended = self._write_data()
        self._outputs()
        self._answers()
        self._transfers()
        self.dram.follow(self.ar.taken, self.aw.taken, write_ended)
        if abort:
            for client in self.clients:
                client.abort()

    def vary(self) -> None:
        """Draw a pace for every side; most of them work."""
        dram, host = self.dram, self.host
        all_at_work = random.random() < 0.4
        paces = CHANCES if all_at_work else (*CHANCES, 1.0, 0.02)
        works = (1.0, 0.3) if all_at_work else (1.0, 0.1, 0.01, 0.0)
        dram.accept_ar, dram.give_r, dram.accept_aw, dram.accept_w, dram.give_b = random.choices(paces, k=5)
        dram.order = random.choice(list(AnswerOrder))
        dram.failing = random.choice((0.0, 0.05, 0.5))
        host.reading, host.writing = random.choices(works, k=2)
        host.reads.chance, host.writes.chance = random.choices(CHANCES, k=2)
        for client in self.clients:
            client.asking = random.choice(works)
            client.moving = random.choice(paces if all_at_work else (*paces, 0.0))
        self.served.clear()

    async def drain(self, stuck: Sequence[Client]) -> None:
        """End all work, first that of all clients except these, which move no data."""
        dram, host = self.dram, self.host
        dram.accept_ar = dram.give_r = dram.accept_aw = dram.accept_w = dram.give_b = 1.0
        host.reading = host.writing = 0.0
        for client in self.clients:
            client.asking, client.moving = 0.0, float(client not in stuck)
        await self._until_done([client for client in self.clients if client not in stuck])
        for client in stuck:
            kind = "READ" if isinstance(client, ReadClient) else "WRITE"
            self.situations.saw(MemoryControllerSituation[f"STUCK_{kind}"], client.waits)
            client.moving = 1.0
        await self._until_done(self.clients)
        for _ in range(SETTLING + 1):
            await self.clock()
        assert self.idle
        self.situations.saw(MemoryControllerSituation.IDLE, self.served)

    async def _until_done(self, clients: Sequence[Client]) -> None:
        for _ in range(DRAIN):
            if not self.host.busy and not any(client.busy or client.offered for client in clients):
                return
            await self.clock()
        raise AssertionError("work does not end although nobody stalls")

    async def abort(self) -> None:
        """Abort until the channels report that they are idle."""
        situations = self.situations
        situations.saw(MemoryControllerSituation.ABORT_READ, any(client.under_way for client in self.reads))
        situations.saw(MemoryControllerSituation.ABORT_WRITE, any(owner != HOST for owner, _ in self.order))
        situations.saw(MemoryControllerSituation.ABORT_HOST, self.host.unread and self.host.unanswered)
        for client in self.clients:
            client.asking = 0.0
        # Work under way at the slowest pace would take longer than DRAIN.
        for pace in ("accept_ar", "give_r", "accept_aw", "accept_w", "give_b"):
            setattr(self.dram, pace, max(getattr(self.dram, pace), 0.2))
        for _ in range(DRAIN):
            await self.clock(abort=True)
            if self.idle:
                return
        raise AssertionError("an abort does not end")

    def _drive(self) -> None:
        dut = self.dut
        if random.random() < 0.05:
            dut.prot_i.value = random.getrandbits(3)
        if random.random() < 0.1:
            for i in MATRIX_READS:
                self.reads[i].next = random.random() < 0.5
        dut.rd_next_i.value = bits(client.next for client in self.reads)
        for client in self.reads:
            client.ready = random.random() < client.moving
        dut.rd_desc_valid_i.value = bits(client.offer() for client in self.reads)
        dut.rd_ready_i.value = bits(client.ready for client in self.reads)
        dut.wr_desc_valid_i.value = bits(client.offer() for client in self.writes)
        dut.wr_valid_i.value = bits(client.offer_data() for client in self.writes)
        self.host.drive()
        self.dram.drive()

    def _addresses(self) -> None:
        """Follow both address channels."""
        situations = self.situations
        self.aw.expect(self.room)
        for port in (self.ar, self.aw):
            others = READS if port is self.ar else WRITES
            waiting = len(port.overtaken_by) == others
            port.follow()
            turn = MemoryControllerSituation[f"{'READ' if port is self.ar else 'WRITE'}_TURN"]
            situations.saw(turn, waiting and port.new is not None and port.new.client == HOST)
        situations.saw(MemoryControllerSituation.AR_STALLS, self.ar.waited > 30)
        situations.saw(MemoryControllerSituation.AW_STALLS, self.aw.waited > 30)
        for client in self.reads:
            new = self.ar.new
            if new is not None and new.client == client.index + 1:
                check_burst(new.start, new.beats, BUS)
                client.asked(new.start, new.beats)
                limit = ROOM.get(client.index, OTHERS_ROOM)
                assert client.held <= limit + ON_THEIR_WAY, f"read channel {client.index} asks for too much"
                situations.saw(MemoryControllerSituation.FULL, client.held > limit - 16)
            client.settle_abort(self.aborting)
        assert self.ar.new is None or self.ar.new.client <= READS
        if self.aw.new is not None:
            assert self.room, "too many addresses ahead of their data"
            self._issued()
        if self.aw.granted:
            self.host.address_taken()
        self.room = len(self.order) < WRITES_AHEAD
        situations.saw(MemoryControllerSituation.AHEAD, not self.room)
        odd = (BUS.bit_length() - 1) << 2 | 1
        for port in (self.ar, self.aw):
            if port.taken is not None and port.taken >> 52 == HOST:
                situations.saw(MemoryControllerSituation.ODD_HOST, port.taken >> 3 & 0x1F != odd)

    def _issued(self) -> None:
        """A write address is new: its data follows that of earlier ones."""
        new = self.aw.new
        assert new is not None
        assert new.client <= WRITES
        if new.client == HOST:
            self.order.append((HOST, deque([(0, 0)] * new.beats)))
            return
        check_burst(new.start, new.beats, BUS)
        burst = self.writes[new.client - 1].issue(new.start, new.beats)
        self.order.append((new.client, deque(burst.beats)))

    def _write_data(self) -> bool:
        """Follow write data; return whether memory took the last beat of a burst."""
        dut, situations = self.dut, self.situations
        shown = self.w_expected
        assert bool(dut.m_axi_wvalid.value) == (shown is not None), "write data comes when it is due"
        taken = shown is not None and bool(dut.m_axi_wready.value)
        last = False
        if shown is not None:
            value = int(dut.m_axi_w.value)
            mask, expected = shown
            assert value & mask == expected, "not the data that is next in the order of the addresses"
            last = bool(value & 1)
        self.w_waited = 0 if shown is None or taken else self.w_waited + 1
        situations.saw(MemoryControllerSituation.W_STALLS, self.w_waited > 30)
        situations.saw(MemoryControllerSituation.EARLY, self.dram.early)
        free = shown is None or taken
        of_host = bool(self.order) and self.order[0][0] == HOST
        turn = free and of_host
        assert bool(dut.host_wready_o.value) == turn, "the host's data is taken when it is its turn"
        if free:
            self.w_expected = self._next_beat() if self.order else None
        return taken and last

    def _next_beat(self) -> tuple[int, int]:
        """Return the beat of write data that the next clock must show."""
        owner, beats = self.order[0]
        strobes, data = beats.popleft()
        last = not beats
        if last:
            self.order.popleft()
        self.served.add(("write", owner))
        if owner == HOST:
            word = self.host.give()
            assert bool(word & 1) == last
            return (1 << 9 * BUS + 1) - 1, word
        lanes = sum(0xFF << 8 * lane for lane in range(BUS) if strobes >> lane & 1)
        mask = (lanes << BUS | (1 << BUS) - 1) << 1 | 1
        return mask, (data << BUS | strobes) << 1 | last

    def _outputs(self) -> None:
        """Follow what the read channels give their clients."""
        dut = self.dut
        valid = int(dut.rd_valid_o.value)
        if not valid:
            return
        ends = int(dut.rd_row_last_o.value)
        for client in self.reads:
            if valid >> client.index & 1:
                data, last = int(dut.rd_data_o[client.index].value), bool(ends >> client.index & 1)
                if client.shown(data, last):
                    self.served.add(("read", client.index + 1))

    def _answers(self) -> None:
        """Follow read data and responses to their clients, and errors to their owners."""
        dut, situations, beat, answer = self.dut, self.situations, self.dram.beat, self.dram.answer
        assert dut.m_axi_rready.value
        assert dut.m_axi_bready.value
        host_read = beat is not None and beat.axi_id >> 4 == HOST
        host_answer = answer is not None and answer.axi_id >> 4 == HOST
        assert bool(dut.host_rvalid_o.value) == host_read
        assert bool(dut.host_bvalid_o.value) == host_answer
        fetch_error: int | None = None
        errors: dict[Owner, set[tuple[bool, int]]] = {owner: set() for owner in Owner}  # write, start
        if beat is not None:
            situations.saw(MemoryControllerSituation.LATE_DATA, beat.late)
            situations.saw(MemoryControllerSituation.CUT_DATA, beat.cut)
            if host_read:
                assert int(dut.host_r_o.value) == as_r(beat, BUS) & ((1 << 8 * BUS + 7) - 1)
                self.host.unread -= beat.last
                self.served.add(("read", HOST))
            else:
                client = self.reads[(beat.axi_id >> 4) - 1]
                dropped = client.under_way[0].dropped
                start = client.bring(beat)
                if beat.response and client.index == COMMAND:
                    fetch_error = start
                elif beat.response:
                    errors[read_owner(client)].add((False, start))
                situations.saw(MemoryControllerSituation.DROPPED_ERROR, beat.response and dropped)
        if answer is not None:
            situations.saw(MemoryControllerSituation.LATE_ANSWER, answer.late)
            if host_answer:
                assert int(dut.host_b_o.value) == as_b(answer) & 0x3F
                self.host.unanswered -= 1
            else:
                writer = self.writes[(answer.axi_id >> 4) - 1]
                start = writer.answered()
                if answer.response:
                    errors[Owner(writer.index)].add((True, start))
        situations.saw(MemoryControllerSituation.HOST_ERROR, host_read and beat is not None and beat.response)
        self._errors(errors, fetch_error)

    def _errors(self, errors: dict[Owner, set[tuple[bool, int]]], fetch_error: int | None) -> None:
        """Compare reported errors. Of two errors of one owner in a clock, either may be reported."""
        dut, situations = self.dut, self.situations
        assert bool(dut.fetch_error_o.value) == (fetch_error is not None)
        if fetch_error is not None:
            assert int(dut.fetch_error_addr_o.value) == fetch_error
        assert int(dut.error_o.value) == bits(bool(errors[owner]) for owner in Owner), errors
        writes = int(dut.error_write_o.value) if any(errors.values()) else 0
        for owner, of_owner in errors.items():
            if of_owner:
                said = bool(writes >> owner.value & 1), int(dut.error_addr_o[owner.value].value)
                assert said in of_owner, f"{owner}: {said}"
                for write, _ in of_owner:
                    situations.saw(MemoryControllerSituation[f"{owner.name}_{'WRITE' if write else 'READ'}"])
        situations.saw(MemoryControllerSituation.FETCH_ERROR, fetch_error is not None)
        situations.saw(MemoryControllerSituation.TWO_ERRORS, sum(map(bool, errors.values())) > 1)
        situations.saw(MemoryControllerSituation.SAME_OWNER, max(map(len, errors.values())) > 1)

    def _transfers(self) -> None:
        """Follow what the channels take from their clients."""
        dut, situations = self.dut, self.situations
        ready = int(dut.rd_desc_ready_o.value)
        for reader in self.reads:
            if reader.offered is not None and ready >> reader.index & 1:
                starts = reader.offered.row_starts()
                ends = (start + reader.offered.row_bytes - 1 for start in starts)
                pages = any(start // PAGE != end // PAGE for start, end in zip(starts, ends, strict=True))
                situations.saw(MemoryControllerSituation.READ_PAGE, pages)
                situations.saw(MemoryControllerSituation.AS_ONE, reader.accept())
        ready, data_ready = int(dut.wr_desc_ready_o.value), int(dut.wr_ready_o.value)
        for writer in self.writes:
            if writer.valid and data_ready >> writer.index & 1:
                writer.give()
            if writer.offered is not None and ready >> writer.index & 1:
                row = writer.offered
                crosses = row.addr // PAGE != (row.addr + row.row_bytes - 1) // PAGE
                situations.saw(MemoryControllerSituation.WRITE_PAGE, crosses)
                writer.accept()

    def _idle(self) -> None:
        """Compare the idle outputs: low at once when work comes, high soon after its end."""
        dut = self.dut
        write_idle = int(dut.write_idle_o.value)
        busy = [any(client.busy for client in self.clients), *(w.busy for w in self.writes)]
        said = [bool(dut.idle_o.value), *(bool(write_idle >> i & 1) for i in range(WRITES))]
        for i, (works, idle) in enumerate(zip(busy, said, strict=True)):
            assert not (works and idle), "idle with work unfinished"
            self.settled[i] = 0 if works or idle else self.settled[i] + 1
            assert self.settled[i] <= SETTLING, "not idle although all is done"
        self.idle = said[0]


def bits(values: Iterable[object]) -> int:
    """Return truth values as a number, the first one the lowest bit."""
    return sum(bool(value) << i for i, value in enumerate(values))


def read_owner(client: ReadClient) -> Owner:
    """Return the owner of an error of a channel other than the command channel."""
    if client.index not in MATRIX_READS:
        return Owner.VECTOR
    return Owner.NEXT if client.next else Owner.MATRIX


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """Every byte is read or written for its own client, in order, whoever waits."""
    situations = Situations(MemoryControllerSituation)
    dut.rst_ni.value = 0
    await start_clock(dut, *INPUTS)
    testbench = MemoryControllerTestbench(dut, situations)
    await testbench.reset()
    for _ in situations.rounds(ROUNDS):
        testbench.vary()
        for _ in range(random.choice((100, 300, 800))):
            await testbench.clock()
        situations.saw(MemoryControllerSituation.ALL, len(testbench.served) == READS + WRITES + 2)
        end = random.random()
        if end < 0.4:
            await testbench.drain([random.choice(testbench.reads), random.choice(testbench.writes)])
        elif end < 0.7:
            await testbench.abort()
        elif end < 0.8:
            situations.saw(MemoryControllerSituation.RESET, not testbench.idle)
            await testbench.reset()


@cocotb.test()
async def resets(dut: Any) -> None:
    """A reset in any clock of the traffic stops it at once."""
    situations = Situations(ResetSituation, least=5)
    dut.rst_ni.value = 0
    await start_clock(dut, *INPUTS)
    testbench = MemoryControllerTestbench(dut, Situations(MemoryControllerSituation))
    await testbench.reset()
    for _ in situations.rounds(100):
        testbench.vary()
        for _ in range(random.randint(5, 40)):
            await testbench.clock()
        read, write = await testbench.reset()
        situations.saw(ResetSituation.READ, read)
        situations.saw(ResetSituation.WRITE, write)
