"""The functional model at its registers: submission, states, interrupts, errors, what commands compute."""

import itertools
import struct
from collections.abc import Iterator

import numpy as np
import pytest

from echo_npu.backends.cmodel import CmodelBackend
from echo_npu.commands.builders import (
    add_packets,
    gather_packets,
    load_program_packets,
    memcpy_packets,
    nop_packet,
    sync_packet,
)
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import ExtensionPacket, Flags, NpuCommandPacket, Opcode, Packet, packet_bytes
from echo_npu.commands.vector_command import RowIndices, Stream, vector_command
from echo_npu.errors import NpuBusError, NpuPointerError
from echo_npu.model.functional import FunctionalModel
from echo_npu.model.memory import DeviceMemory
from echo_npu.spec import registers as regs
from echo_npu.spec.status import ErrorCode, State
from echo_npu.vector import Builder
from echo_sim.config import load_config
from tests.refusals import refuses

WGT, ACT = 0x0, 0x1000_0000
RING = ACT + 0x10_0000


class BareHost:
    """Drives the registers as a bare host, without the runtime's Device."""

    def __init__(self, config: str = "default") -> None:
        self.backend = CmodelBackend(load_config(config))

    def read(self, offset: int) -> int:
        return self.backend.read_reg(offset)

    def write(self, offset: int, value: int) -> None:
        self.backend.write_reg(offset, value)

    def read64(self, offset: int) -> int:
        low = self.read(offset)
        return low | self.read(offset + 4) << 32

    def doorbell(self, *packets: Packet) -> None:
        """Submit packets through the command window, one doorbell each."""
        for packet in packets:
            for index, word in enumerate(struct.unpack("<16I", packet_bytes(packet))):
                self.write(regs.CMD_WINDOW + 4 * index, word)
            self.write(regs.DOORBELL, 0)

    def run(self, *packets: Packet) -> State:
        """Submit packets through the command window; return the state when they have ended."""
        self.doorbell(*packets)
        return self.finish()

    def enable_ring(self, slots: int = 8, base: int = RING) -> None:
        self.write(regs.RING_BASE, base)
        self.write(regs.RING_SIZE, slots)
        self.write(regs.CONTROL, regs.CONTROL_RING_ENABLE.mask)

    def put(self, slot: int, *packets: Packet) -> None:
        """Write packets into the ring, the first one to `slot`."""
        for place, packet in enumerate(packets, slot):
            self.poke(RING + 64 * place, np.frombuffer(packet_bytes(packet), np.uint8))

    def poke(self, address: int, values: np.ndarray) -> None:
        self.backend.write_mem(address, np.ascontiguousarray(values).reshape(-1).view(np.uint8))

    def peek(self, address: int, nbytes: int) -> np.ndarray:
        return self.backend.read_mem(address, nbytes)

    @property
    def state(self) -> State:
        return State(regs.STATUS_STATE.get(self.read(regs.STATUS)))

    def finish(self) -> State:
        while self.state == State.BUSY:
            pass
        return self.state

    def error(self) -> tuple[ErrorCode, int, int]:
        """Return code, command and address of the error state."""
        code = ErrorCode(self.read(regs.ERROR_CODE))
        return code, self.read(regs.ERROR_INDEX), self.read64(regs.ERROR_ADDR)

    def clear_error(self) -> None:
        self.write(regs.CONTROL, regs.CONTROL_CLEAR_ERROR.mask)

    def expect_error(self, code: ErrorCode, index: int = 0, address: int = 0) -> None:
        """Check that the execution ends in the error state, with this code, command and address."""
        assert (self.finish(), self.error()) == (State.ERROR, (code, index, address))


@pytest.fixture
def host() -> Iterator[BareHost]:
    made = BareHost()
    yield made
    made.backend.close()


def test_constants_say_what_the_configuration_is() -> None:
    for name, blocks in (("default", True), ("small", True), ("random-7", False)):
        config = load_config(name)
        host = BareHost(name)
        assert host.read(regs.ID).to_bytes(4, "big") == b"ECHO"
        assert host.read(regs.VERSION) == 1 << 16
        assert host.read(regs.CAP_ARRAY) == config.array_rows | config.array_cols << 16
        assert host.read(regs.CAP_VECTOR) == config.vector_lanes | config.data_width << 16
        assert host.read(regs.CAP_TYPES) == 0b1111 | 1 << 24 | (0b111 << 17 if blocks else 0)
        assert host.read(regs.CAP_QUEUE) == config.queue_depth | 16 << 16
        assert host.read(regs.CAP_VECTOR_LENGTH) == config.vector_length
        assert host.read(regs.CAP_VECTOR_ROW) == config.row_elements
        assert host.read(regs.CAP_PROGRAM) == config.program_words
        host.backend.close()


def test_every_register_reads_its_reset_value(host: BareHost) -> None:
    for name, register in regs.REGISTERS.items():
        if name.startswith("CAP_") or not register.readable:
            continue
        for index in range(register.count):
            assert host.read(register.offset + index * register.stride) == register.reset & 0xFFFF_FFFF, name


def test_holes_read_only_and_write_only_registers_are_refused(host: BareHost) -> None:
    readable, writable = set(), set()
    for register in regs.REGISTERS.values():
        for index in range(register.count):
            for half in range(0, register.width // 8, 4):
                offset = register.offset + index * register.stride + half
                readable |= {offset} if register.readable else set()
                writable |= {offset} if register.writable else set()
    for offset in range(0, 0x300, 4):
        if offset in readable:
            host.read(offset)
        else:
            refuses(NpuBusError, f"read of register offset 0x{offset:04x}", host.read, offset)
        if offset in writable:
            host.write(offset, 0)
        else:
            refuses(NpuBusError, f"write of register offset 0x{offset:04x}", host.write, offset, 0)
    for offset in (-4, 2, 0x10000):
        refuses(ValueError, "offset", host.read, offset)
    refuses(ValueError, "32 bits", host.write, regs.RING_BASE, 1 << 32)


def test_fields_keep_only_the_bits_that_they_have(host: BareHost) -> None:
    for offset, kept in ((regs.IRQ_ENABLE, 7), (regs.RING_BASE, 0xFFFF_FFFF), (regs.RING_SIZE, 0xFFFF)):
        host.write(offset, 0xFFFF_FFFF)
        assert host.read(offset) == kept
    host.write(regs.CONTROL, 0xFFFF_FFF8)
    assert host.read(regs.CONTROL) == regs.CONTROL_RING_ENABLE.mask


def test_a_64_bit_counter_is_one_moments_value(host: BareHost) -> None:
    counters = host.backend.model._counters
    counters[regs.MACS] = 0x1_FFFF_FFFF
    low = host.read(regs.MACS)
    counters[regs.MACS] += 1
    assert (low, host.read(regs.MACS + 4)) == (0xFFFF_FFFF, 1)
    assert host.read64(regs.MACS) == 0x2_0000_0000


def test_idle_busy_done(host: BareHost) -> None:
    assert host.state == State.IDLE
    host.doorbell(nop_packet())
    assert host.state == State.BUSY
    assert host.state == State.DONE
    assert host.read(regs.RETIRED) == 1
    assert host.read64(regs.COMMANDS) == 1


def test_nothing_happens_before_time_passes(host: BareHost) -> None:
    host.poke(ACT, np.arange(8, dtype=np.uint8))
    host.doorbell(*memcpy_packets(ACT, ACT + 64, 8))
    assert not host.peek(ACT + 64, 8).any()
    host.finish()
    assert host.peek(ACT + 64, 8).tolist() == list(range(8))


def test_queue_level_and_overflow(host: BareHost) -> None:
    depth = regs.CAP_QUEUE_DEPTH.get(host.read(regs.CAP_QUEUE))
    host.doorbell(*[nop_packet()] * depth)
    status = host.read(regs.STATUS)
    assert regs.STATUS_QUEUE_LEVEL.get(status) == depth
    assert regs.STATUS_QUEUE_FULL.get(status) == 1
    host.doorbell(nop_packet(), nop_packet())  # the read above executed one
    host.expect_error(ErrorCode.QUEUE_FULL, 1)
    host.doorbell(nop_packet())  # ignored
    host.clear_error()
    assert host.state == State.IDLE
    assert regs.STATUS_QUEUE_LEVEL.get(host.read(regs.STATUS)) == 0
    assert host.run(nop_packet()) == State.DONE
    assert host.read(regs.RETIRED) == 2


def test_interrupts(host: BareHost) -> None:
    host.doorbell(nop_packet(irq=True))
    assert not host.backend.wait_irq(1000)  # nothing is enabled
    assert host.read(regs.IRQ_STATUS) == regs.IRQ_STATUS_DONE.mask | regs.IRQ_STATUS_COMMAND.mask
    host.write(regs.IRQ_ENABLE, regs.IRQ_ENABLE_COMMAND.mask)
    assert host.backend.wait_irq(0)
    host.write(regs.IRQ_STATUS, regs.IRQ_STATUS_COMMAND.mask)
    assert not host.backend.wait_irq(0)
    assert host.read(regs.IRQ_STATUS) == regs.IRQ_STATUS_DONE.mask
    host.write(regs.IRQ_STATUS, 7)
    host.doorbell(nop_packet(), NpuCommandPacket(0x99))
    host.write(regs.IRQ_ENABLE, regs.IRQ_ENABLE_ERROR.mask)
    assert host.backend.wait_irq(1000)
    assert host.read(regs.IRQ_STATUS) == regs.IRQ_STATUS_ERROR.mask  # no done: the second one failed


def test_wait_irq_stops_at_the_first_interrupt(host: BareHost) -> None:
    host.write(regs.IRQ_ENABLE, regs.IRQ_ENABLE_COMMAND.mask)
    host.doorbell(nop_packet(), nop_packet(irq=True), nop_packet())
    assert host.backend.wait_irq(1000)
    assert host.backend.model._retired == 2


def test_the_error_stops_the_queue_and_only_clearing_helps(host: BareHost) -> None:
    host.poke(ACT, np.full(16, 7, np.uint8))
    host.doorbell(nop_packet(), NpuCommandPacket(Opcode.MEMCPY, 0, ACT, 0, 0x2000_0040, m=4))
    host.doorbell(*memcpy_packets(ACT, ACT + 64, 16))
    host.expect_error(ErrorCode.REGISTER_WINDOW, 1, 0x2000_0040)
    assert not host.peek(ACT + 64, 16).any()
    assert host.read(regs.RETIRED) == 1
    host.clear_error()
    assert host.state == State.IDLE
    assert host.error() == (ErrorCode.NONE, 0, 0)
    assert host.run(*memcpy_packets(ACT, ACT + 64, 16)) == State.DONE
    assert (host.peek(ACT + 64, 16) == 7).all()


def test_clear_error_without_an_error_does_nothing(host: BareHost) -> None:
    host.doorbell(nop_packet())
    host.clear_error()
    assert host.finish() == State.DONE


def test_error_index_counts_commands_not_slots(host: BareHost) -> None:
    host.doorbell(*memcpy_packets(ACT, ACT + 4096, 4, rows=2), nop_packet(), NpuCommandPacket(0x55))
    host.expect_error(ErrorCode.BAD_OPCODE, 2)
    host.clear_error()
    host.run(NpuCommandPacket(0x55))
    assert host.error()[1] == 3  # the failed one counts too


def test_soft_reset(host: BareHost) -> None:
    host.enable_ring()
    host.write(regs.IRQ_ENABLE, 3)
    host.put(0, NpuCommandPacket(0x55))
    host.write(regs.RING_TAIL, 1)
    assert host.finish() == State.ERROR
    host.write(regs.CONTROL, regs.CONTROL_SOFT_RESET.mask)
    assert host.state == State.IDLE
    kept = {regs.IRQ_ENABLE: 3, regs.RING_BASE: RING, regs.RING_SIZE: 8}
    for name, register in regs.REGISTERS.items():
        if register.readable and not name.startswith("CAP_"):
            expected = kept.get(register.offset, register.reset)
            assert host.read(register.offset) == expected & 0xFFFF_FFFF, name


def test_clear_counters(host: BareHost) -> None:
    host.run(matmul_packets(0x1000, 0x2000, ACT, 2, 3, 4)[0])
    assert host.read64(regs.MACS) == 24
    host.write(regs.CONTROL, regs.CONTROL_CLEAR_COUNTERS.mask)
    assert host.read64(regs.MACS) == 0
    assert host.read(regs.RETIRED) == 1


def test_a_command_waits_for_its_extension(host: BareHost) -> None:
    main, extension = memcpy_packets(ACT, ACT + 4096, 4, rows=2)
    host.doorbell(main)
    for _ in range(5):
        assert host.state == State.BUSY
    assert host.run(extension) == State.DONE


def test_an_extension_that_never_comes_is_an_error(host: BareHost) -> None:
    host.doorbell(memcpy_packets(ACT, ACT + 4096, 4, rows=2)[0])
    assert not host.backend.wait_irq(60000)
    assert host.state == State.BUSY
    host.backend.wait_irq(60000)
    host.expect_error(ErrorCode.BAD_EXTENSION)


def test_a_bad_command_does_not_wait_for_its_extension(host: BareHost) -> None:
    host.doorbell(NpuCommandPacket(Opcode.NOP, Flags.EXT))
    host.expect_error(ErrorCode.BAD_FLAGS)


def vector_packets() -> list[Packet]:
    """o = 3, one element, by a program at word 5, which is at ACT."""
    command = vector_command(5, rows=1, cols=1, output=Stream(ACT + 4096))
    return command.packets()


def loaded(host: BareHost) -> None:
    b = Builder("three")
    b.mov(b.out, 3)
    program = b.build()
    host.poke(ACT, np.frombuffer(program.code, np.uint8))
    assert host.run(*load_program_packets(ACT, len(program), 5)) == State.DONE


def test_a_vector_command_waits_for_three_extensions(host: BareHost) -> None:
    loaded(host)
    *first, last = vector_packets()
    for packet in first:
        host.doorbell(packet)
        for _ in range(5):
            assert host.state == State.BUSY
    assert host.run(last) == State.DONE
    assert host.peek(ACT + 4096, 4).view(np.int32)[0] == 3
    assert host.read(regs.RETIRED) == 2


@pytest.mark.parametrize("came", [1, 2, 3])
def test_each_extension_has_its_own_time(host: BareHost, came: int) -> None:
    """An extension that comes in time restarts the time for the next one."""
    loaded(host)
    for packet in vector_packets()[:came]:
        host.doorbell(packet)
        assert not host.backend.wait_irq(60000)
        assert host.state == State.BUSY
    host.backend.wait_irq(60000)
    host.expect_error(ErrorCode.BAD_EXTENSION, 1)


def test_a_vector_command_without_extensions(host: BareHost) -> None:
    host.doorbell(NpuCommandPacket(Opcode.VECTOR, m=1, n=1))
    host.expect_error(ErrorCode.BAD_EXTENSION)


def test_a_vector_command_through_the_ring_wraps(host: BareHost) -> None:
    loaded(host)
    host.enable_ring(slots=6)
    tail = 0
    for _ in range(4):
        for packet in vector_packets():
            host.put(tail, packet)
            tail = (tail + 1) % 6
        host.write(regs.RING_TAIL, tail)
        assert host.finish() == State.DONE
        assert host.read(regs.RING_HEAD) == tail


def test_program_memory_and_its_end(host: BareHost) -> None:
    """Words that were never loaded are no entry; a soft reset keeps loaded ones."""
    command = vector_command(7, rows=1, cols=1, output=Stream(ACT + 4096))
    loaded(host)
    host.doorbell(*command.packets())
    host.expect_error(ErrorCode.BAD_PROGRAM, 1, 7)
    host.write(regs.CONTROL, regs.CONTROL_SOFT_RESET.mask)
    assert host.run(*vector_packets()) == State.DONE


def test_a_broken_program_reports_its_instruction(host: BareHost) -> None:
    loaded(host)
    host.poke(ACT, np.array([0x44], np.uint64))  # END, with nothing written
    host.doorbell(*load_program_packets(ACT, 1, 9))
    host.doorbell(*vector_command(9, rows=2, cols=1, output=Stream(ACT + 4096, row_stride=4)).packets())
    host.expect_error(ErrorCode.BAD_PROGRAM, 2, 9)
    assert host.read(regs.RETIRED) == 2
    host.clear_error()
    assert host.run(*vector_packets()) == State.DONE


def test_ring_wraps_and_head_follows(host: BareHost) -> None:
    host.enable_ring(slots=5)
    tail = 0
    for step in range(7):
        copy = memcpy_packets(ACT, ACT + 4096 + 64 * step, 8, rows=2, row_strides=(8, 16))
        host.poke(ACT, np.full(16, step + 1, np.uint8))
        for packet in (*copy, sync_packet()):
            host.put(tail, packet)
            tail = (tail + 1) % 5
        host.write(regs.RING_TAIL, tail)
        assert host.state == State.BUSY
        assert host.finish() == State.DONE
        assert host.read(regs.RING_HEAD) == host.read(regs.RING_TAIL) == tail
        assert (host.peek(ACT + 4096 + 64 * step, 8) == step + 1).all()
    assert host.read(regs.RETIRED) == 14


def test_the_window_goes_before_the_ring(host: BareHost) -> None:
    host.enable_ring()
    host.poke(ACT, np.arange(1, 3, dtype=np.uint8))
    host.put(0, memcpy_packets(ACT, ACT + 64, 1)[0])
    host.write(regs.RING_TAIL, 1)
    host.run(memcpy_packets(ACT + 1, ACT + 64, 1)[0])
    assert host.peek(ACT + 64, 1)[0] == 1


def test_a_tail_that_moves_nothing_submits_nothing(host: BareHost) -> None:
    host.enable_ring()
    host.write(regs.RING_TAIL, 0)
    assert host.state == State.IDLE


@pytest.mark.parametrize(
    ("base", "slots", "tail", "enable", "code"),
    [
        (RING, 8, 1, False, ErrorCode.RING_CONFIG),
        (RING + 32, 8, 1, True, ErrorCode.RING_CONFIG),
        (RING, 1, 0, True, ErrorCode.RING_CONFIG),
        (RING, 0, 0, True, ErrorCode.RING_CONFIG),
        (0x2000_0000, 8, 1, True, ErrorCode.RING_CONFIG),
        (0xFFFF_FFC0, 8, 1, True, ErrorCode.RING_CONFIG),
        (0x0FFF_FFC0, 8, 1, True, ErrorCode.RING_CONFIG),
        (0x1FFF_FE40, 8, 1, True, ErrorCode.RING_CONFIG),
        (0x1FFF_FE00, 8, 1, True, ErrorCode.NONE),
        (0, 65535, 1, True, ErrorCode.NONE),
        (RING, 8, 8, True, ErrorCode.RING_INDEX),
        (RING, 8, 65535, True, ErrorCode.RING_INDEX),
        (RING, 8, 7, True, ErrorCode.NONE),
    ],
)
def test_ring_configuration(
    host: BareHost, base: int, slots: int, tail: int, enable: bool, code: ErrorCode
) -> None:
    host.enable_ring(slots, base)
    if not enable:
        host.write(regs.CONTROL, 0)
    host.write(regs.RING_TAIL, tail)
    assert host.finish() == (State.ERROR if code else State.DONE)
    assert host.error() == (code, 0, 0)
    if code:  # and it goes on working
        host.clear_error()
        host.enable_ring()
        assert host.read(regs.RING_HEAD) == 0
        host.write(regs.RING_TAIL, 2)
        assert host.finish() == State.DONE


def test_a_ring_stays_where_it_is_until_it_is_empty(host: BareHost) -> None:
    host.enable_ring()
    host.write(regs.RING_TAIL, 3)
    host.write(regs.RING_SIZE, 2)
    host.write(regs.RING_BASE, RING + 64)
    assert host.finish() == State.DONE
    assert host.read(regs.RETIRED) == 3
    host.write(regs.RING_TAIL, 1)  # the head, 3, is not in the ring
    host.expect_error(ErrorCode.RING_CONFIG, 3)


@pytest.mark.parametrize("offset", [regs.RING_BASE, regs.RING_SIZE])
def test_a_ring_that_holds_packets_is_not_moved(host: BareHost, offset: int) -> None:
    host.enable_ring()
    host.write(regs.RING_TAIL, 3)
    host.write(offset, {regs.RING_BASE: RING + 64, regs.RING_SIZE: 5}[offset])
    host.write(regs.RING_TAIL, 4)
    assert host.error()[0] == ErrorCode.RING_CONFIG


def test_clear_error_drops_the_rest_of_the_ring(host: BareHost) -> None:
    host.enable_ring()
    host.poke(ACT, np.full(4, 9, np.uint8))
    host.put(0, nop_packet(), NpuCommandPacket(0x42), *memcpy_packets(ACT, ACT + 64, 4))
    host.write(regs.RING_TAIL, 3)
    host.expect_error(ErrorCode.BAD_OPCODE, 1)
    for tail in (5, 4, 8, 3):  # the first one is dropped with the rest, the others are refused
        host.write(regs.RING_TAIL, tail)
    host.write(regs.CONTROL, regs.CONTROL_CLEAR_ERROR.mask | regs.CONTROL_RING_ENABLE.mask)
    assert host.state == State.IDLE
    assert (host.read(regs.RING_HEAD), host.read(regs.RING_TAIL)) == (5, 5)
    assert not host.peek(ACT + 64, 4).any()


@pytest.mark.parametrize("tail", [0, 1, 2])
def test_a_tail_is_not_moved_back(host: BareHost, tail: int) -> None:
    host.enable_ring()
    host.put(0, *[nop_packet()] * 3)
    host.write(regs.RING_TAIL, 3)
    host.write(regs.RING_TAIL, tail)
    assert host.error() == (ErrorCode.RING_INDEX, 0, 0)


def test_a_command_overwrites_a_later_slot(host: BareHost) -> None:
    """The model reads a slot when all commands before it have run."""
    host.enable_ring()
    host.poke(ACT, np.frombuffer(memcpy_packets(ACT, ACT + 256, 4)[0].pack(), np.uint8))
    host.put(0, *memcpy_packets(ACT, RING + 128, 64), nop_packet(), NpuCommandPacket(0x42))
    host.write(regs.RING_TAIL, 3)
    assert host.finish() == State.DONE
    assert np.array_equal(host.peek(ACT + 256, 4), host.peek(ACT, 4))


@pytest.mark.parametrize(("place", "legal"), [(-4, True), (-3, False), (63, False), (64, True)])
def test_nothing_is_written_to_the_protected_range(host: BareHost, place: int, legal: bool) -> None:
    base = ACT + 1024
    host.write(regs.GUARD_BASE, base + 5)  # the lowest bits do not exist
    host.write(regs.GUARD_SIZE, 64)
    assert host.run(memcpy_packets(ACT, base + place, 4)[0]) == (State.DONE if legal else State.ERROR)
    if not legal:
        assert host.error() == (ErrorCode.PROTECTED, 0, base + place)


@pytest.mark.parametrize(("base", "size", "legal"), [(0, 1024, True), (64, 1024, False), (0, 64, False)])
def test_the_ring_lies_in_the_protected_range(host: BareHost, base: int, size: int, legal: bool) -> None:
    host.enable_ring()
    host.put(0, nop_packet())
    host.write(regs.GUARD_BASE, RING + base)
    host.write(regs.GUARD_SIZE, size)
    host.write(regs.RING_TAIL, 1)
    assert host.finish() == (State.DONE if legal else State.ERROR)
    if not legal:
        assert host.error()[0] == ErrorCode.RING_CONFIG


@pytest.mark.parametrize(("limit", "ends"), [(0, False), (1, True), (63, True), (10_000, False)])
def test_a_command_that_no_hardware_could_finish_in_time(host: BareHost, limit: int, ends: bool) -> None:
    """2048 bytes are at least 64 beats of 256 bits; a program takes a clock for each instruction and row."""
    host.write(regs.WATCHDOG, limit)
    assert host.run(memcpy_packets(ACT, ACT + 4096, 2048)[0]) == (State.ERROR if ends else State.DONE)
    if ends:
        assert host.error() == (ErrorCode.TIMEOUT, 0, 0)


PRODUCT = matmul_packets(WGT, WGT, ACT + 0x2_0000, 16, 32, 16)
"""At least 32 clocks on `default`."""
SHORT_COPY = memcpy_packets(ACT, ACT + 4096, 64)
LONG_COPY = memcpy_packets(ACT, ACT + 4096, 4096)
"""At least 128 clocks."""


@pytest.mark.parametrize(
    ("before", "limit", "ends"),
    [
        ([], 127, True),
        ([], 128, False),
        # The copy may overlap the product, so that it is the oldest for any part of its time.
        (PRODUCT, 120, False),
        ([*PRODUCT, nop_packet()], 127, True),
        ([NpuCommandPacket(Opcode.SYNC)], 127, True),
        # Commands of the vector engine do not overlap.
        (SHORT_COPY, 127, True),
        ([*PRODUCT, *SHORT_COPY], 127, True),
    ],
)
def test_only_the_time_as_the_oldest_counts(
    host: BareHost, before: list[Packet], limit: int, ends: bool
) -> None:
    host.write(regs.WATCHDOG, limit)
    assert host.run(*before, *LONG_COPY) == (State.ERROR if ends else State.DONE)
    if ends:
        assert host.error() == (ErrorCode.TIMEOUT, len(before), 0)


def test_what_overlaps_ends_too(host: BareHost) -> None:
    """At most two commands are older, and each of them ends in time."""
    beats = 3 * (200 + 1000)
    host.write(regs.WATCHDOG, 200)
    assert host.run(*PRODUCT, *memcpy_packets(ACT, ACT + 0x10_0000, 32 * beats)) == State.ERROR
    assert host.error() == (ErrorCode.TIMEOUT, 1, 0)
    host.clear_error()
    assert host.run(*LONG_COPY) == State.DONE


def test_a_host_that_does_not_wait(host: BareHost) -> None:
    """What was under way when the next command came may be so until the host has read that nothing is."""
    host.write(regs.WATCHDOG, 127)
    short = matmul_packets(WGT, WGT, ACT + 0x2_0000, 4, 4, 4)
    host.doorbell(*short)
    assert host.state == State.BUSY  # the model has executed it now
    assert host.run(*LONG_COPY) == State.DONE
    assert host.run(*LONG_COPY) == State.ERROR


def test_a_limit_that_comes_while_a_command_is_under_way(host: BareHost) -> None:
    """It may come when the command is over; one that the host waits for before the next command counts."""
    host.doorbell(*LONG_COPY)
    host.write(regs.WATCHDOG, 1)
    assert host.finish() == State.DONE
    assert host.run(*LONG_COPY) == State.ERROR


def test_a_restored_model_has_the_program_memory_of_its_state() -> None:
    """An empty one, too: programs that were loaded later are gone."""
    model = FunctionalModel(load_config("default"), DeviceMemory())
    empty = model.save()
    model.programs.load(0, np.arange(100, dtype=np.uint64))
    full = model.save()
    model.restore(empty)
    assert model.programs.loaded == 0
    assert model.programs[0] is None
    model.restore(full)
    assert model.programs.words.tolist() == list(range(100))


def reference(memory: np.ndarray, packet: NpuCommandPacket, ext: ExtensionPacket) -> None:
    """Execute one command on a copy of memory, one element at a time, by the specification."""

    def load(address: int) -> np.float32:
        return memory[address : address + 4].view(np.float32)[0]

    def store(address: int, value: np.float32) -> None:
        if np.isnan(value):
            value = np.uint32(0x7FC00000).view(np.float32)
        memory[address : address + 4] = np.array([value]).view(np.uint8)

    alpha = np.uint32(packet.param[6]).view(np.float32)
    s1, s2, d = packet.src1_addr, packet.src2_addr, packet.dst_addr
    m, k, n = packet.m, packet.k, packet.n
    for outer, inner in itertools.product(range(ext.batch1 or 1), range(ext.batch0 or 1)):
        p1 = s1 + outer * ext.src1_batch1_stride + inner * ext.src1_batch0_stride
        p2 = s2 + outer * ext.src2_batch1_stride + inner * ext.src2_batch0_stride
        pd = d + outer * ext.dst_batch1_stride + inner * ext.dst_batch0_stride
        if packet.opcode == Opcode.MEMCPY:
            size = m * max(k, 1) * max(n, 1)
            for row in range(ext.rows or 1):
                source = p1 + row * (ext.src1_row_stride or size)
                target = pd + row * (ext.dst_row_stride or size)
                memory[target : target + size] = memory[source : source + size]
        elif packet.opcode == Opcode.ADD_TENSOR:
            for i in range(m * max(k, 1) * max(n, 1)):
                store(pd + 4 * i, np.float32(load(p1 + 4 * i) + np.float32(alpha * load(p2 + 4 * i))))
        elif packet.opcode == Opcode.MATMUL:
            ta, tb = packet.flags & 1, packet.flags & 2
            r1 = ext.src1_row_stride or 4 * (m if ta else k)
            r2 = ext.src2_row_stride or 4 * (k if tb else n)
            for i, j in itertools.product(range(m), range(n)):
                total = np.float32(0)
                for x in range(k):
                    left = load(p1 + (x * r1 + 4 * i if ta else i * r1 + 4 * x))
                    right = load(p2 + (j * r2 + 4 * x if tb else x * r2 + 4 * j))
                    total = np.float32(total + np.float32(left * right))
                if packet.flags & 4:
                    total = np.float32(total * alpha)
                store(pd + i * (ext.dst_row_stride or 4 * n) + 4 * j, total)


def random_command(rng: np.random.Generator) -> list[NpuCommandPacket | ExtensionPacket]:
    """Draw a legal command on the first 64 KiB of either region."""

    def pick(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    kind = pick(0, 2)
    base1, base2, base_dst = 4 * pick(0, 255), 0x4000 + 4 * pick(0, 255), ACT + 4 * pick(0, 255)
    if kind == 0:
        size, dst = pick(1, 40), base1 if pick(0, 1) else base_dst
        return list(add_packets(base1, base2, dst, size, alpha=float(rng.normal())))
    if kind == 1:
        size, rows, batch = pick(1, 50), pick(1, 5), (pick(1, 3), pick(1, 3))
        stride = size + pick(0, 9)
        block = rows * stride
        return memcpy_packets(
            base1 + pick(0, 3), base_dst + pick(0, 3), size,
            rows=rows, row_strides=(pick(0, 60), stride), batch=batch,
            src_batch_strides=(pick(0, 99), pick(0, 99)), dst_batch_strides=(block, block * batch[0]),
        )  # fmt: skip
    m, k, n, batch = pick(1, 6), pick(1, 6), pick(1, 6), (pick(1, 3), pick(1, 2))
    ta, tb = bool(pick(0, 1)), bool(pick(0, 1))
    pad = [4 * pick(0, 3) for _ in range(3)]
    widths = (4 * (m if ta else k), 4 * (k if tb else n), 4 * n)
    strides = tuple(width + extra if pick(0, 1) else 0 for width, extra in zip(widths, pad, strict=True))
    dst_size = m * (strides[2] or 4 * n)
    return matmul_packets(
        base1, base2, base_dst, m, k, n,
        trans_a=ta, trans_b=tb, alpha=float(rng.normal()) if pick(0, 1) else None,
        row_strides=strides, batch=batch, src1_batch_strides=(4 * pick(0, 50), 4 * pick(0, 50)),
        src2_batch_strides=(4 * pick(0, 50), 0), dst_batch_strides=(dst_size, dst_size * batch[0]),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_random_commands_change_memory_as_the_words_say(host: BareHost, seed: int) -> None:
    """Both windows are compared completely, so a stray write is found too."""
    rng = np.random.default_rng(seed)
    size = 0x8000
    image = rng.standard_normal(2 * size // 4, dtype=np.float32)
    image[:: max(1, 97 - seed)] = [np.nan, -0.0, np.inf, 1e-42][seed % 4]
    memory = np.zeros(ACT + size, np.uint8)  # lazily allocated, so only what is touched costs anything
    for address, part in ((0, image[: size // 4]), (ACT, image[size // 4 :])):
        host.poke(address, part)
        memory[address : address + size] = part.view(np.uint8)
    with np.errstate(all="ignore"):
        for _ in range(40):
            packets = random_command(rng)
            assert host.run(*packets) == State.DONE, packets
            ext = packets[1] if len(packets) > 1 else ExtensionPacket()
            assert isinstance(packets[0], NpuCommandPacket)
            assert isinstance(ext, ExtensionPacket)
            reference(memory, packets[0], ext)
            for address in (0, ACT):
                assert np.array_equal(host.peek(address, size), memory[address : address + size]), packets


def test_macs_are_counted_for_every_batch(host: BareHost) -> None:
    host.run(*matmul_packets(0x1000, 0x2000, ACT, 2, 3, 4, batch=(5, 2), dst_batch_strides=(64, 512)))
    assert host.read64(regs.MACS) == 2 * 3 * 4 * 10
    assert host.read64(regs.CYCLES) == host.read64(regs.READ_BEATS) == 0


def test_memcpy_keeps_nan_payloads(host: BareHost) -> None:
    payload = np.array([0x7F812345, 0xFFFFFFFF], np.uint32)
    host.poke(ACT, payload)
    host.run(memcpy_packets(ACT, ACT + 64, 8)[0])
    assert host.peek(ACT + 64, 8).view(np.uint32).tolist() == payload.tolist()


@pytest.mark.parametrize("strides", [(1, 2), (2, 1), (5, 3), (7, 40), (40, 7)])
def test_the_later_batch_of_a_copy_wins(host: BareHost, strides: tuple[int, int]) -> None:
    image = np.random.default_rng(2).integers(0, 256, (2, 3, 2, 7), dtype=np.uint8)
    host.poke(ACT, image)
    rows = {"rows": 2, "dst_row_stride": 9, "batch0": 3, "batch1": 2}
    sources = {"src1_batch0_stride": 14, "src1_batch1_stride": 42}
    extension = ExtensionPacket(**rows, **sources, dst_batch0_stride=strides[0], dst_batch1_stride=strides[1])
    host.run(NpuCommandPacket(Opcode.MEMCPY, Flags.EXT, ACT, 0, ACT + 4096, m=7), extension)
    expected = np.zeros(256, dtype=np.uint8)
    for outer, inner, row in np.ndindex(2, 3, 2):
        start = outer * strides[1] + inner * strides[0] + 9 * row
        expected[start : start + 7] = image[outer, inner, row]
    assert np.array_equal(host.peek(ACT + 4096, 256), expected)


def test_a_failing_command_touches_nothing(host: BareHost) -> None:
    rng = np.random.default_rng(5)
    image = rng.integers(0, 256, 4096, dtype=np.uint8)
    host.poke(ACT, image)
    bad = [
        NpuCommandPacket(Opcode.MATMUL, 0, ACT, ACT + 64, ACT + 128, m=4, k=4, n=0),
        NpuCommandPacket(Opcode.MATMUL, 0, ACT, ACT + 64, ACT + 32, m=4, k=4, n=4),
        NpuCommandPacket(Opcode.ADD_TENSOR, 0, ACT, ACT + 64, ACT + 128, m=1 << 40),
        NpuCommandPacket(Opcode.MEMCPY, 0, ACT, 0, 0x1FFF_FFFF, m=2),
        NpuCommandPacket(Opcode.MEMCPY, 1, ACT, 0, ACT + 128, m=2),
    ]
    for packet in bad:
        assert host.run(packet) == State.ERROR
        assert np.array_equal(host.peek(ACT, 4096), image)
        host.clear_error()


@pytest.mark.parametrize("seed", range(4))
def test_no_64_bytes_hang_or_break_the_model(host: BareHost, seed: int) -> None:
    """Random bytes, and legal packets with one wrong field."""
    rng = np.random.default_rng(seed)
    for _ in range(200):
        raw = bytearray(packet_bytes(random_command(rng)[0]))
        if rng.random() < 0.3:
            raw = bytearray(rng.bytes(64))
        for _ in range(rng.integers(0, 3)):
            raw[rng.integers(0, 64)] = rng.integers(0, 256)
        raw[7] &= 0x7F  # no extension: waiting for one has its own test
        host.doorbell(bytes(raw))
        if host.finish() == State.ERROR:
            assert host.read(regs.ERROR_CODE) != 0
            host.clear_error()
    assert host.run(nop_packet()) == State.DONE


def test_memory_ends_where_it_ends(host: BareHost) -> None:
    assert host.peek(0x1FFF_FFFF, 1)[0] == 0
    refuses(NpuPointerError, "0x20000000", host.peek, 0x1FFF_FFFF, 2)
    refuses(NpuPointerError, None, host.poke, 0x2000_0000, np.zeros(1, np.uint8))


def test_a_bad_index_is_found_before_time_is_up(host: BareHost) -> None:
    """The hardware stops at the first bad index, however long the rest would take."""
    for place, code in ((0, ErrorCode.BAD_INDEX), (4000, ErrorCode.TIMEOUT)):
        indices = np.zeros(4096, np.int32)
        indices[place] = 64
        host.poke(ACT, indices)
        host.write(regs.WATCHDOG, 2000)
        assert host.run(gather_packets(ACT + 0x10000, ACT, ACT + 0x20000, 4096, 64, 64)[0]) == State.ERROR
        assert host.error()[0] == code
        host.clear_error()


@pytest.mark.parametrize("wide", [False, True])
def test_a_bad_index_of_a_scatter_is_found_before_time_is_up(host: BareHost, wide: bool) -> None:
    """Behind the rows before it, the program's first one at least. A bad program is found first of all."""
    loaded(host)
    kind = np.dtype(np.int64 if wide else np.int32)
    for place, limit, code in (
        (0, 200, ErrorCode.BAD_INDEX),
        (4000, 200, ErrorCode.TIMEOUT),
        (4000, 0, ErrorCode.BAD_INDEX),
        (1, 1, ErrorCode.TIMEOUT),
    ):
        indices = np.zeros(4096, kind)
        indices[place] = -1
        host.poke(ACT + 0x1_0000, indices)
        host.write(regs.WATCHDOG, limit)
        command = vector_command(
            5,
            rows=4096,
            cols=4,
            inputs=[Stream(ACT), Stream(ACT)],
            output=Stream(ACT + 0x10_0000, row_stride=16),
            indices=RowIndices(ACT + 0x1_0000, 64, wide),
        )
        host.doorbell(*command.packets())
        assert host.finish() == State.ERROR
        address = ACT + 0x1_0000 + kind.itemsize * place
        assert host.error()[:1] == (code,)
        if code == ErrorCode.BAD_INDEX:
            assert host.error()[-1] == address
        host.clear_error()
