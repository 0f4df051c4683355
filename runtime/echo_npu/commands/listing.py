"""Describe commands in words, from their packets, for listings and timelines."""

from dataclasses import dataclass
from typing import Any

from echo_npu.commands.command import Command
from echo_npu.commands.packets import (
    BLOCKS_SHIFT,
    DTYPE_SHIFT,
    FENCES,
    OPCODES,
    OUT_SHIFT,
    VECTOR_EXTENSIONS,
    ExtensionPacket,
    Flags,
    NpuCommandPacket,
    Opcode,
)
from echo_npu.commands.vector_command import VectorExtension
from echo_npu.spec.data_types import Blocks, DataType, OutType
from echo_npu.spec.entries import OpcodeFacts

_UNKNOWN = OpcodeFacts("vector", 0, 0, ("src1", "dst"), "{m}x{k}x{n}")
_MODIFIERS = ~int(Flags.EXT | Flags.IRQ | Flags.DTYPE | Flags.HALF_B | Flags.OUT | Flags.BLOCKS)


@dataclass(frozen=True, slots=True)
class Listed:
    """One command.

    Attributes:
        opcode: its name; "opcode 0x.." for one that does not exist.
        name: what it does in a few words: the vector program's name, else the opcode.
        shape: its sizes, e.g. "16x64x32"; with the types of a product that is not all float32.
        facts: all other fields that are not defaults, by their names in packets; addresses as text.
    """

    opcode: str
    name: str
    shape: str
    facts: dict[str, Any]

    def __str__(self) -> str:
        name = self.opcode if self.name == self.opcode else f"{self.opcode} {self.name}"
        facts = " ".join(f"{key}={value}" for key, value in self.facts.items())
        return " ".join(part for part in (name, self.shape, facts) if part)


def list_command(command: Command, program: str | None = None) -> Listed:
    """Describe a command, valid or not.

    Args:
        program: the name of the vector program that a VECTOR command runs, if it is known.
    """
    packet, slots = command.packet, command.slots
    names = {each.value: each.name for each in Opcode}
    opcode = names.get(packet.opcode, f"opcode 0x{packet.opcode:x}")
    facts: dict[str, Any] = {}
    if packet.flags & _MODIFIERS:
        facts["flags"] = str(Flags(packet.flags & _MODIFIERS).name or hex(packet.flags & _MODIFIERS))
    if packet.opcode in FENCES:
        return Listed(opcode, opcode, "", facts)
    if packet.opcode == Opcode.VECTOR and len(slots) == 1 + VECTOR_EXTENSIONS:
        return _vector(packet, VectorExtension.unpack(slots[1:]), program, facts)
    known = OPCODES.get(packet.opcode, _UNKNOWN)
    addresses = {"src1": packet.src1_addr, "src2": packet.src2_addr, "dst": packet.dst_addr}
    facts |= {name: _hex(addresses[name]) for name in known.operands}
    rows = 1
    if len(slots) == 2:
        extension = ExtensionPacket.unpack(slots[1])
        if max(extension.batch0, extension.batch1) > 1:
            facts["batch"] = f"{extension.batch0 or 1}x{extension.batch1 or 1}"
        rows = extension.rows
        if packet.flags & (Flags.COL_SCALE | Flags.BIAS):
            facts["column_vectors"] = _hex(extension.rows << 32 | extension.column_vectors)
        if packet.flags & Flags.ROW_SCALE:
            facts["row_scales"] = _hex(extension.row_scales_high << 32 | extension.row_scales)
    count = packet.m * max(packet.k, 1) * max(packet.n, 1)
    sizes = known.shape.format(m=packet.m, k=packet.k, n=packet.n, count=count)
    if packet.opcode == Opcode.MATMUL:
        sizes += _types(packet.flags)
    elif rows > 1:
        sizes = f"{rows}x{sizes}"
    return Listed(opcode, opcode, sizes, facts)


def _vector(
    packet: NpuCommandPacket, extension: VectorExtension, program: str | None, facts: dict[str, Any]
) -> Listed:
    for index, address in enumerate((packet.src1_addr, packet.src2_addr, *extension.addresses)):
        if extension.descriptor(index)[-1]:
            facts[f"s{index}"] = _hex(address)
    facts["dst"] = _hex(packet.dst_addr)
    if extension.table_rows:
        facts["table_rows"] = extension.table_rows
    if packet.k > 1:
        facts["repeats"] = packet.k
    if max(extension.batch) > 1:
        facts["batch"] = f"{extension.batch[0] or 1}x{extension.batch[1] or 1}"
    name = program or f"program at {extension.entry}"
    return Listed(Opcode.VECTOR.name, name, f"{packet.m}x{packet.n}", facts)


def _types(flags: int) -> str:
    """Return the type of a product's operands, and that of its result if it differs."""
    operands = DataType((flags & Flags.DTYPE) >> DTYPE_SHIFT)
    if flags & Flags.BLOCKS:
        return f" {operands.label} by {Blocks((flags & Flags.BLOCKS) >> BLOCKS_SHIFT).label}"
    if flags & Flags.HALF_B:
        return " fp32 by fp16"
    result = (flags & Flags.OUT) >> OUT_SHIFT
    if result == OutType.OWN or operands == DataType.FP32:
        return "" if operands == DataType.FP32 else f" {operands.label}"
    return f" {operands.label} to {'int32' if result == OutType.INT32 else 'fp32'}"


def _hex(address: int) -> str:
    return f"0x{address:08x}"
