"""Which command a bus error can belong to."""

import pytest

from echo_npu.commands.builders import gather_packets, memcpy_packets
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import NpuCommandPacket, Opcode, Packet, packet_bytes
from echo_npu.commands.vector_command import RowIndices, Stream, vector_command
from echo_sim.config import load_config
from tb.stimulus.steps import Fault
from tb.uvm.faults import Suspects, commands_of, explains_address, suspects

A, B, C = 0x1000, 0x2000, 0x1000_0000
BEAT = 8
CONFIG = load_config("small")


def listed(*commands: list[Packet]) -> list[bytes]:
    return [packet_bytes(packet) for command in commands for packet in command]


def copy(src: int, dst: int) -> list[Packet]:
    return [NpuCommandPacket(Opcode.MEMCPY, 0, src, 0, dst, m=16)]


def of(fault: Fault, *commands: list[Packet]) -> Suspects:
    return suspects(commands_of(listed(*commands), CONFIG), [fault], BEAT)


def test_commands_of() -> None:
    """Extensions belong to their command; a refused one keeps its number."""
    extended = list(memcpy_packets(A, C, 4, rows=2, row_strides=(8, 8)))
    found = commands_of(listed([NpuCommandPacket(0x77)], extended, copy(A, C)), CONFIG)
    assert [None if each is None else each.packet.opcode for each in found] == [None, 3, 3]


def test_the_first_that_must_fail() -> None:
    found = of(Fault(A, A + 1), copy(B, C), copy(A, C), copy(A, C + 64))
    assert found == ({1, 2}, 1)
    assert found.explain(1)
    assert not any(found.explain(number) for number in (None, 0, 2))


@pytest.mark.parametrize(("low", "hit"), [(A + 23, False), (A + 15, True), (A + 16, False), (A - 1, False)])
def test_beats_fail_as_a_whole(low: int, hit: bool) -> None:
    """Bytes A..A+15 fail, which are two beats; byte A+12, of another copy, is in one of them."""
    assert of(Fault(low, low + 1), copy(A, C)).explain(0 if hit else None)
    assert of(Fault(A + 12, A + 13), [NpuCommandPacket(Opcode.MEMCPY, 0, A, 0, C, m=9)]).certain == 0


def test_reads_and_writes_apart() -> None:
    assert of(Fault(A, A + 8, write=True), copy(A, C)).certain is None
    assert of(Fault(C, C + 8, write=True), copy(A, C)).certain == 0
    assert of(Fault(C, C + 8), copy(A, C)).certain is None


def test_who_may_and_need_not() -> None:
    """A command may leave rows of a table and streams unread, but not indices and results."""
    gather = list(gather_packets(A, B, C, 4, 16, 8))
    assert of(Fault(A, A + 8), gather) == ({0}, None)
    assert of(Fault(B, B + 8), gather) == ({0}, 0)
    vector = vector_command(0, rows=1, cols=4, inputs=[Stream(A)], output=Stream(C)).packets()
    assert of(Fault(A, A + 8), vector) == ({0}, None)
    assert of(Fault(C, C + 8, write=True), vector) == ({0}, 0)
    scatter = vector_command(
        0, rows=1, cols=4, inputs=[Stream(A)], output=Stream(C, row_stride=16), indices=RowIndices(B, 9)
    ).packets()
    assert of(Fault(C, C + 8, write=True), scatter) == ({0}, None)
    assert of(Fault(C + 128, C + 136, write=True), scatter) == ({0}, None)
    found = of(Fault(A, A + 8), gather, list(matmul_packets(A, B, C, 2, 2, 2)))
    assert found == ({0, 1}, 1)
    assert found.explain(0)
    assert found.explain(1)
    assert not found.explain(None)


def test_addresses() -> None:
    faults = [Fault(0x1800, 0x1808)]
    assert explains_address(faults, 0x1000)
    assert explains_address(faults, 0x1800)
    assert not explains_address(faults, 0x1808)
    assert not explains_address(faults, 0x0FF8)
