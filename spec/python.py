"""Write the contract as Python modules of the runtime and of the simulator."""

import subprocess
import sys
import textwrap
from collections.abc import Iterable
from typing import Final

from spec.contract import (
    BLOCK_MEANINGS,
    BLOCK_NAMES,
    PACKET_BYTES,
    Contract,
    FlagEntry,
    Packet,
    PacketField,
    Word,
    flag_mask,
)

_FORMATS: Final = {"u32": "I", "u64": "Q", "i64": "q", "f32": "f"}
_WIDTH: Final = 104


def formatted(lines: Iterable[str]) -> str:
    """Return the module in the form that `make lint` asks for."""
    result = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--line-length", "110", "-"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout


def _docstring(text: str, indent: str = "") -> list[str]:
    """Return a docstring of one line or more."""
    lines = textwrap.wrap(text, _WIDTH - len(indent), break_long_words=False, break_on_hyphens=False)
    lines[0] = f'"""{lines[0]}'
    lines[-1] += '"""'
    return [indent + line for line in lines]


def _member(name: str, value: str, meaning: str) -> list[str]:
    return [f"    {name} = {value}", *_docstring(meaning, "    ")]


def _class(name: str, base: str, meaning: str, members: Iterable[list[str]]) -> list[str]:
    out = ["", "", f"class {name}({base}):", *_docstring(meaning, "    "), ""]
    for member in members:
        out += member
    return out


def _constant(name: str, value: str, meaning: str = "") -> list[str]:
    return [f"{name}: Final = {value}", *(_docstring(meaning) if meaning else [])]


def npu_text(contract: Contract, notice: str) -> str:
    """Return the text of `echo_npu/spec/contract.py`: all but registers and instructions."""
    out = [
        *('"""The contract between programs and the NPU.', "", notice, '"""', ""),
        "from collections.abc import Mapping",
        "from dataclasses import dataclass",
        "from enum import IntEnum, IntFlag",
        "from struct import Struct",
        "from types import MappingProxyType",
        "from typing import Final",
        "",
        "from echo_npu.spec.entries import BlockCode, Field, OpcodeFacts, OperandType, ResultType",
    ]
    out += _class(
        "Opcode",
        "IntEnum",
        "What a command does.",
        ([f"    {each.name} = 0x{each.code:02X}"] for each in contract.opcodes),
    )
    out += _class(
        "Flags", "IntFlag", _FLAGS, [["    NONE = 0"], *(_flag(contract, f) for f in contract.flags)]
    )
    states = (_member(each.name, str(each.code), each.meaning) for each in contract.states)
    out += _class("State", "IntEnum", "Values of `STATUS.state`.", states)
    errors = (_member(each.name, str(each.code), each.meaning) for each in contract.errors)
    out += _class("ErrorCode", "IntEnum", "Values of `ERROR_CODE.code`.", errors)
    for name, base, entries, meaning in (
        ("DataType", "OperandType", contract.data_types, _DATA_TYPE),
        ("OutType", "ResultType", contract.out_types, _OUT_TYPE),
    ):
        out += _class(name, base, meaning, (_member(e.name, str(e.code), e.meaning) for e in entries))
        stored = tuple(each.storage for each in entries)
        out += [
            "",
            "    @classmethod",
            "    def _storage_names(cls) -> tuple[str, ...]:",
            f"        return {stored}",
        ]
    formats = (_member(e.name, str(e.code), f"{e.tile_bytes} bytes a tile.") for e in contract.block_formats)
    out += _class("Blocks", "BlockCode", _BLOCKS, formats)
    out += [
        "",
        "    @property",
        "    def tile_bytes(self) -> int:",
        '        """Bytes of a packed tile; 0 for NONE."""',
        f"        return {tuple(each.tile_bytes for each in contract.block_formats)}[self]",
    ]

    out += ["", "", "OPCODES: Final[Mapping[int, OpcodeFacts]] = MappingProxyType({"]
    for opcode in contract.opcodes:
        flags = " | ".join(f"Flags.{name}" for name in opcode.flags)
        facts = f"{opcode.engine!r}, int({flags}), {opcode.extensions}, {tuple(opcode.operands or ())}"
        out.append(f"    Opcode.{opcode.name}: OpcodeFacts({facts}, {opcode.shape!r}),")
    out += ["})", '"""What is common to all commands of an opcode."""', ""]
    out += ["ERROR_STAGES: Final = MappingProxyType({"]
    out += [f"    ErrorCode.{each.name}: {tuple(each.stages)!r}," for each in contract.errors]
    out += ["})", *_docstring(_STAGES), ""]
    for flag in contract.flags:
        if flag.width > 1:
            out += _constant(f"{flag.name}_SHIFT", str(flag.bit))
    for limit in contract.limits:
        out += _constant(limit.name, f"0x{limit.value:X}", f"The greatest legal value of {limit.meaning}.")

    for name, meaning in BLOCK_MEANINGS.items():
        value = str(getattr(contract.blocks, name))
        out += _constant(BLOCK_NAMES[name].upper(), value, _ended(meaning))

    out += [
        "",
        *_constant("PACKET_BYTES", str(PACKET_BYTES)),
        *_constant("PACKET_WORDS", str(PACKET_BYTES // 4)),
    ]
    for packet in contract.packets:
        out += _packet(packet)
    out += _extension_class(contract.packet("extension"))
    out += ["", "", *_word_fields(contract.word("descriptor"))]
    out += ["", "REGIONS: Final = MappingProxyType({"]
    out += [f'    "{r.name}": (0x{r.base:08X}, 0x{r.bytes:X}),' for r in contract.regions]
    out += ["})", '"""Base address and bytes of each region of the address map."""', ""]
    out += ["LARGE_REGIONS: Final = MappingProxyType({"]
    out += [f'    "{r.name}": (0x{r.base:X}, 0x{r.bytes:X}),' for r in contract.large_regions]
    meaning = "Base address and most bytes of each kind of memory in a configuration that has more of either."
    out += ["})", f'"""{meaning}"""', ""]
    memory = tuple(region.name for region in contract.regions if region.kind == "memory")
    out += _constant("MEMORY_REGION_NAMES", repr(memory), "Those that hold data.")
    return formatted(out)


_FLAGS: Final = "Modifiers of a command; the device refuses a flag that its opcode does not know."
_DATA_TYPE: Final = "Type of an operand of a MATMUL; the number is that of its DTYPE flags."
_OUT_TYPE: Final = "Type of the result of a MATMUL; the number is that of its OUT flags."
_BLOCKS: Final = "Format of src2 of a MATMUL in packed blocks; the number is that of its BLOCKS flags."
_STAGES: Final = 'Where each error is found: the "check" of a packet, its "submit", or its "engine".'


def _flag(contract: Contract, flag: FlagEntry) -> list[str]:
    users = [each.name for each in contract.opcodes if flag.name in each.flags]
    whose = "" if len(users) == len(contract.opcodes) else f"{', '.join(users)}: "
    value = f"0x{flag_mask(flag):X}" if flag.width > 1 else f"1 << {flag.bit}"
    return _member(flag.name, value, f"{whose}{flag.meaning}." if whose else _ended(flag.meaning))


def _packet(packet: Packet) -> list[str]:
    """Return the Struct of a packet, its constants and the places of its parts."""
    upper = packet.name.upper()
    formats = "".join(
        f"{each.count if each.count > 1 else ''}{_FORMATS[each.type]}" for each in packet.fields
    )
    out = _constant(f"{upper}_STRUCT", f'Struct("<{formats}")')
    if packet.slots > 1:
        out += _constant(f"{upper}S", str(packet.slots), "Packets that it consists of.")
    for field in packet.fields:
        if field.value:
            name = f"{upper}_{field.name.upper()}"
            out += _constant(name, f"0x{field.constant:08X}", f'The bytes "{field.value}".')
        for part in field.parts:
            word = (part.offset - field.offset) // 4
            name = f"{field.name}_{part.name}".upper()
            out += _constant(name, str(word), f"The first word of {part.name} in `{field.name}`.")
    if packet.slots == 1:
        places = [part for field in packet.fields for part in (field, *field.parts)]
        out += [f"{upper}_OFFSETS: Final = MappingProxyType({{"]
        out += [f'    "{each.name}": {each.offset},' for each in places]
        out += ["})", '"""Bytes from the start of the packet to each field."""']
    if packet.slots > 1:
        out += [f"{upper}_WORDS: Final = MappingProxyType({{"]
        out += [f'    "{f.name}": slice({f.offset // 4}, {f.end // 4}),' for f in packet.fields]
        out += ["})", '"""The words of each field."""']
    return out


def _element_names(field: PacketField) -> list[str]:
    return [f"{element}_{field.name}" for element in field.elements] or [field.name]


def _extension_class(packet: Packet) -> list[str]:
    out = ["", "", "@dataclass(frozen=True, slots=True, kw_only=True)", "class ExtensionFields:"]
    out += ['    """The words of an extension packet, in their order. Strides are bytes."""', ""]
    for field in packet.fields:
        default = f"{packet.name.upper()}_{field.name.upper()}" if field.value else "0"
        for name in _element_names(field):
            out.append(f"    {name}: int = {default}")
    return out


def _word_fields(word: Word) -> list[str]:
    out = []
    for each in word.fields:
        name = f"{word.name}_{each.name}".upper()
        out += _constant(name, f"Field({each.shift}, {each.width})", _ended(each.meaning))
    return out


def _ended(meaning: str) -> str:
    return meaning and f"{meaning[0].upper()}{meaning[1:]}."


_BUILTIN: Final = "Entry of the program of ADD_TENSOR, which is not in program memory."


def instructions_text(contract: Contract, notice: str) -> str:
    """Return the text of `echo_npu/spec/instructions.py`: the vector engine's instruction set."""
    out = [
        *('"""The vector engine\'s instruction set: opcodes, operands, encoding.', "", notice, '"""', ""),
        "from enum import IntEnum, StrEnum",
        "from types import MappingProxyType",
        "from typing import Final",
        "",
        "from echo_npu.spec.entries import Field, InstructionFacts",
        "",
        *_constant("PARTIALS", str(contract.partials), "Partial results of an accumulator."),
        *_constant("INPUTS", str(contract.inputs), "Input streams."),
        *_constant("BUILTIN_ENTRY", f"0x{contract.builtin_entry:X}", _BUILTIN),
    ]
    opcodes = ([f"    {each.mnemonic.upper()} = 0x{each.code:02X}"] for each in contract.instructions)
    out += _class("Op", "IntEnum", "Opcodes. The mnemonic is the name in lower case.", opcodes)
    out += ["", "    @property", "    def mnemonic(self) -> str:", "        return self.name.lower()"]
    kinds: dict[str, list[str]] = {}
    for operand in contract.operands:
        kinds.setdefault(operand.kind, []).append(operand.name)
    labels = (
        [f'    {kind.upper()} = "{names[0] if len(names) == 1 else kind}"'] for kind, names in kinds.items()
    )
    out += _class("Kind", "StrEnum", "What an operand code stands for.", labels)
    out += ["", "", "INSTRUCTIONS: Final = MappingProxyType({"]
    for each in contract.instructions:
        facts = f'"{each.form}", {each.sources}, {each.accumulates}'
        out.append(f"    Op.{each.mnemonic.upper()}: InstructionFacts({facts}),")
    out += ["})", '"""How each opcode uses its fields."""', "", "FOLDED: Final = MappingProxyType({"]
    names = {each.name: each.mnemonic.upper() for each in contract.instructions}
    out += [f"    Op.{names[e.name]}: Op.{names[e.folds]}," for e in contract.instructions if e.folds]
    out += ["})", '"""The operation of the fifteen steps of a fold."""', ""]
    out += ["BANKS: Final = ("]
    out += [f'    ("{e.name}", Kind.{e.kind.upper()}, {e.first}, {e.count}),' for e in contract.operands]
    out += [
        ")",
        *_docstring(
            "Name, kind, first code and number of operands; a name is a prefix where there are several."
        ),
    ]
    out += ["", *_word_fields(contract.word("instruction"))]
    return formatted(out)


def simulation_text(contract: Contract, notice: str) -> str:
    """Return the text of `echo_sim/contract.py`: what the simulated board and Python share."""
    out = [
        *('"""What the simulated board and Python share: memory, knobs, statistics, operations.', ""),
        *(notice, '"""', ""),
        "from dataclasses import dataclass",
        "from enum import IntEnum",
        "from types import MappingProxyType",
        "from typing import Final",
        "",
        *_constant(
            "MEMORY_BYTES", f"0x{contract.memory_bytes:X}", "Bytes of device memory, from address 0 on."
        ),
        *_constant("CHANNELS", repr(contract.channels), "The channels of an AXI bus."),
        *("", "", "@dataclass(frozen=True, slots=True)", "class Knob:"),
        '    """A setting of the memory model.',
        "",
        "    Attributes:",
        "        unit: of its value.",
        "        least, most: its range.",
        "        default: None where it is drawn.",
        "        scale: native units in one unit.",
        '    """',
        "",
        *(
            "    unit: str",
            "    least: float",
            "    most: float",
            "    default: float | None",
            "    scale: int",
        ),
        *("", "", "KNOBS: Final = MappingProxyType({"),
    ]
    out += [
        f'    "{k.name}": Knob("{k.unit}", {k.least}, {k.most}, {k.default}, {k.scale}),'
        for k in contract.knobs
    ]
    out += ["})", '"""The knobs by name. The board knows them by their places."""', ""]
    out += _constant(
        "STATISTICS", repr(tuple(contract.statistics)), "What the memory model counts, likewise."
    )
    levels = repr(tuple(contract.trace_levels.values()))
    out += _constant("TRACE_LEVELS", levels, "The meanings of the bits of the trace's LEVELS, from bit 0.")
    for name, meaning, names in (
        ("TraceEventKind", "Kinds of events in the record behind timelines.", contract.trace_kinds),
        ("CaseOperation", "Operations of native cases (board/cases.cpp).", contract.operations),
    ):
        members = ([f"    {each} = {place}"] for place, each in enumerate(names))
        out += _class(name, "IntEnum", meaning, members)
    return formatted(out)
