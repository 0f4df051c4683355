"""Write the contract in C++, for the simulated board, and in C, for plugins."""

from collections.abc import Iterable

from systemrdl.node import AddrmapNode, RegNode

from spec.contract import BLOCK_MEANINGS, BLOCK_NAMES, PACKET_BYTES, Contract
from spec.registers import mask_of, parts_of, registers_of
from spec.systemverilog import camel


def _enum(name: str, prefix: str, entries: Iterable[tuple[str, int]]) -> list[str]:
    return [
        f"enum {name} : uint32_t {{",
        *(f"    {prefix}{camel(each)} = {code}," for each, code in entries),
        "};",
    ]


def header_text(contract: Contract, top: AddrmapNode, notice: str) -> str:
    """Return the text of `board/contract.hpp`."""
    out = [
        f"// {notice}",
        "#pragma once",
        "",
        "#include <cstddef>",
        "#include <cstdint>",
        "",
        "namespace echo {",
        "",
    ]
    out += ["// Device memory begins at physical address 0: an offset into it is an address."]
    out += [f"constexpr uint64_t kMemoryBytes = 0x{contract.memory_bytes:X};", ""]
    for region in contract.regions:
        out.append(
            f"constexpr uint32_t k{camel(region.name)}Base = 0x{region.base:08X};  // {region.meaning}"
        )
    out += ["", "// Registers: offsets in their window."]
    out += [
        f"constexpr uint32_t kReg{camel(each.inst_name)} = 0x{each.raw_address_offset:03X};"
        for each in registers_of(top)
    ]
    out += ["", "// Their fields, and of a register that has several the bits of all."]
    out += _fields(registers_of(top))
    out += ["", "// Packets: words, the first word of an extension, the lowest bits of the flags."]
    out += [f"constexpr uint32_t kPacketWords = {PACKET_BYTES // 4};"]
    magic = next(each for each in contract.packet("extension").fields if each.name == "magic")
    out += [f"constexpr uint32_t kExtensionMagic = 0x{magic.constant:08X};"]
    out += [f"constexpr uint32_t kFlag{camel(each.name)} = {each.bit};" for each in contract.flags]
    out += [""]
    out += _enum("DeviceState", "kState", ((each.name, each.code) for each in contract.states))
    out += ["", *_enum("ErrorCode", "kErr", ((each.name, each.code) for each in contract.errors))]
    out += ["", *_enum("Opcode", "kOpcode", ((each.name, each.code) for each in contract.opcodes))]
    out += ["// In the order of the contract."]
    out += [
        "constexpr Opcode kOpcodes[] = {",
        *(f"    kOpcode{camel(each.name)}," for each in contract.opcodes),
        "};",
    ]
    out += _names("kOpcodeNames", (each.name for each in contract.opcodes))
    out += ["", "// First words of the fields of packets, counted on from one slot to the next."]
    for packet in contract.packets:
        name = camel(packet.name)
        places = [part for field in packet.fields for part in (field, *field.parts)]
        out += _enum(f"{name}Word", f"k{name}Word", ((each.name, each.offset // 4) for each in places))
    out += [f"constexpr uint32_t kVectorExtensions = {contract.packet('vector_extension').slots};"]
    out += ["", "// Lowest bits of the fields of a stream descriptor."]
    descriptor = contract.word("descriptor")
    out += _enum("DescriptorBit", "kDescriptor", ((each.name, each.shift) for each in descriptor.fields))
    out += [f"constexpr uint32_t kDescriptorWords = {descriptor.bits // 32};", ""]
    out += ["// Entry of the program of ADD_TENSOR, which is not in program memory."]
    out += [f"constexpr uint32_t kBuiltinEntry = 0x{contract.builtin_entry:X};"]

    out += ["", "// ---- the memory model ----", ""]
    out += _enum("Channel", "kChannel", ((each, place) for place, each in enumerate(contract.channels)))
    out += _names("kChannelNames", contract.channels)
    out += ["", "// Defaults are native: chances and bandwidths in units of 1/65536."]
    out += _enum("Knob", "kKnob", ((each.name, place) for place, each in enumerate(contract.knobs)))
    out += _names("kKnobNames", (each.name for each in contract.knobs))
    defaults = [round((each.default or 0) * each.scale) for each in contract.knobs]
    out += ["constexpr uint64_t kKnobDefaults[] = {", *(f"    {value}," for value in defaults), "};"]
    out += [
        "",
        *_enum("Statistic", "kStat", ((each, place) for place, each in enumerate(contract.statistics))),
    ]
    out += _names("kStatisticNames", contract.statistics)

    out += ["", "// ---- the record behind timelines ----", ""]
    out += _enum("TraceKind", "kTrace", ((each, place) for place, each in enumerate(contract.trace_kinds)))

    out += ["", "// ---- the player of native cases ----", ""]
    out += _enum("Operation", "k", ((each, place) for place, each in enumerate(contract.operations)))
    return "\n".join([*out, "", "}  // namespace echo"]) + "\n"


def _fields(registers: Iterable[RegNode]) -> list[str]:
    """Return the fields that are not their whole registers, as constants of a type of their own."""
    out = [
        "struct Field {",
        "    uint32_t shift, mask;",
        "    constexpr uint32_t get(uint32_t word) const { return (word & mask) >> shift; }",
        "};",
    ]
    for register in registers:
        parts, name = parts_of(register), f"k{camel(register.inst_name)}"
        out += [
            f"constexpr Field {name}{camel(each.inst_name)} = {{{each.low}, 0x{mask_of(each):08X}}};"
            for each in parts
        ]
        if len(parts) > 1:
            out.append(f"constexpr uint32_t {name}Mask = 0x{mask_of(*parts):08X};")
    return out


def _names(name: str, values: Iterable[str]) -> list[str]:
    return [f"constexpr const char* {name}[] = {{", *(f'    "{value}",' for value in values), "};"]


def plugin_text(contract: Contract, notice: str) -> str:
    """Return the text of `plugins/runtime/echo_npu_contract.h`: packed tiles of weights in blocks."""
    out = [f"// {notice}", "#ifndef ECHO_NPU_CONTRACT_H", "#define ECHO_NPU_CONTRACT_H", ""]
    for name, meaning in BLOCK_MEANINGS.items():
        out += [
            f"// {meaning}",
            f"#define ECHO_NPU_{BLOCK_NAMES[name].upper()} {getattr(contract.blocks, name)}",
        ]
    out += ["// Bytes of a packed tile."]
    out += [
        f"#define ECHO_NPU_TILE_BYTES_{each.name} {each.tile_bytes}"
        for each in contract.block_formats
        if each.code
    ]
    return "\n".join([*out, "", "#endif"]) + "\n"
