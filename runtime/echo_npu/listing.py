"""Commands in words, from the packets that the device gets: for listings and timelines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from echo_npu.data_types import DataType, OutType
from echo_npu.packets import (
    DTYPE_SHIFT,
    OUT_SHIFT,
    VECTOR_EXTENSIONS,
    ExtensionPacket,
    Flags,
    NpuCommandPacket,
    Opcode,
)
from echo_npu.vector.command import VectorExtension

_MODIFIERS = ~int(Flags.EXT | Flags.IRQ | Flags.DTYPE | Flags.OUT)


@dataclass(frozen=True, slots=True)
class Listed:
    """One command.

    Attributes:
        opcode: its name; "opcode 0x.." for one that does not exist.
        name: what it does in a few words: the vector program's name, else the opcode.
        shape: its sizes, e.g. "16x64x32"; with the types of a product that is not all float32.
        facts: everything else that is not a default, under the names that packets use; addresses as text.
    """

    opcode: str
    name: str
    shape: str
    facts: dict[str, Any]

    def __str__(self) -> str:
        name = self.opcode if self.name == self.opcode else f"{self.opcode} {self.name}"
        facts = " ".join(f"{key}={value}" for key, value in self.facts.items())
        return " ".join(part for part in (name, self.shape, facts) if part)


def list_command(slots: Sequence[bytes], program: str | None = None) -> Listed:
    """A command packet and its extensions, right or wrong, in words.

    Args:
        slots: 64 bytes each.
        program: the name of the vector program that a VECTOR command runs, if it is known.
    """
    packet = NpuCommandPacket.unpack(slots[0])
    names = {each.value: each.name for each in Opcode}
    opcode = names.get(packet.opcode, f"opcode 0x{packet.opcode:x}")
    facts: dict[str, Any] = {}
    if packet.flags & _MODIFIERS:
        facts["flags"] = str(Flags(packet.flags & _MODIFIERS).name or hex(packet.flags & _MODIFIERS))
    if packet.opcode in (Opcode.NOP, Opcode.SYNC):
        return Listed(opcode, opcode, "", facts)
    if packet.opcode == Opcode.VECTOR and len(slots) == 1 + VECTOR_EXTENSIONS:
        return _vector(packet, VectorExtension.unpack(slots[1:]), program, facts)
    facts["src1"] = _hex(packet.src1_addr)
    if packet.opcode in (Opcode.MATMUL, Opcode.ADD_TENSOR, Opcode.GATHER):
        facts["src2"] = _hex(packet.src2_addr)
    if packet.opcode != Opcode.LOAD_PROGRAM:
        facts["dst"] = _hex(packet.dst_addr)
    rows = 1
    if len(slots) == 2:
        extension = ExtensionPacket.unpack(slots[1])
        if max(extension.batch0, extension.batch1) > 1:
            facts["batch"] = f"{extension.batch0 or 1}x{extension.batch1 or 1}"
        rows = extension.rows
        if extension.column_vectors:
            facts["column_vectors"] = _hex(extension.column_vectors)
        if extension.row_scales:
            facts["row_scales"] = _hex(extension.row_scales)
    if packet.opcode == Opcode.LOAD_PROGRAM:
        return Listed(opcode, opcode, f"{packet.m} words at {packet.k}", facts)
    if packet.opcode in (Opcode.MEMCPY, Opcode.ADD_TENSOR):
        count = packet.m * max(packet.k, 1) * max(packet.n, 1)
        unit = "bytes" if packet.opcode == Opcode.MEMCPY else "elements"
        return Listed(opcode, opcode, f"{rows}x{count} {unit}" if rows > 1 else f"{count} {unit}", facts)
    sizes = f"{packet.m}x{packet.k}x{packet.n}"
    if packet.opcode == Opcode.MATMUL:
        sizes += _types(packet.flags)
    return Listed(opcode, opcode, sizes, facts)


def _vector(
    packet: NpuCommandPacket, extension: VectorExtension, program: str | None, facts: dict[str, Any]
) -> Listed:
    for index, address in enumerate((packet.src1_addr, packet.src2_addr, *extension.addresses)):
        if extension.descriptor(index)[-1]:
            facts[f"s{index}"] = _hex(address)
    facts["dst"] = _hex(packet.dst_addr)
    if packet.k > 1:
        facts["repeats"] = packet.k
    if max(extension.batch) > 1:
        facts["batch"] = f"{extension.batch[0] or 1}x{extension.batch[1] or 1}"
    name = program or f"program at {extension.entry}"
    return Listed(Opcode.VECTOR.name, name, f"{packet.m}x{packet.n}", facts)


def _types(flags: int) -> str:
    """The type of a product's operands, and of its result where that is another one."""
    operands = DataType((flags & Flags.DTYPE) >> DTYPE_SHIFT)
    result = (flags & Flags.OUT) >> OUT_SHIFT
    if result == OutType.OWN or operands == DataType.FP32:
        return "" if operands == DataType.FP32 else f" {operands.label}"
    return f" {operands.label} to {'int32' if result == OutType.INT32 else 'fp32'}"


def _hex(address: int) -> str:
    return f"0x{address:08x}"
