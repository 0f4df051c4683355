"""Write the contract in SystemVerilog: what npu_pkg and vector_pkg include, and board_pkg."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

from systemrdl.node import AddrmapNode

from spec.contract import BLOCK_MEANINGS, BLOCK_NAMES, PACKET_BYTES, Contract, PacketField, Word
from spec.registers import counters_of, registers_of

_WIDTH: Final = 118


def camel(name: str) -> str:
    """Return trans_a and TRANS_A as TransA."""
    return "".join(part.capitalize() for part in name.split("_"))


def _hex(value: int, bits: int) -> str:
    digits = f"{value:0{-(-bits // 4)}X}"
    # Groups of four count from the right, and only where there are several.
    head = len(digits) % 4
    groups = [digits[:head]] * bool(head) + [digits[i : i + 4] for i in range(head, len(digits), 4)]
    return f"{bits}'h{'_'.join(groups)}"


def _enum(name: str, bits: int, prefix: str, entries: Iterable[tuple[str, int]]) -> list[str]:
    rows = [f"    {prefix}{camel(each)} = {_hex(code, bits)}" for each, code in entries]
    return ["", f"  typedef enum logic [{bits - 1}:0] {{", ",\n".join(rows), f"  }} {name};"]


def _commented(line: str, comment: str) -> list[str]:
    """Return a line with its comment behind it, or before it where that is too long."""
    if not comment:
        return [line]
    both = f"{line}  // {comment}"
    if len(both) <= _WIDTH:
        return [both]
    return [*textwrap.wrap(comment, _WIDTH, initial_indent="  // ", subsequent_indent="  // "), line]


def _constant(name: str, value: int, comment: str = "") -> list[str]:
    return _commented(f"  localparam int unsigned {name} = {value};", comment)


def _listed(head: str, names: Iterable[str], tail: str) -> list[str]:
    return textwrap.wrap(
        head + ", ".join(names) + tail, _WIDTH, initial_indent="    ", subsequent_indent=" " * 8
    )


def _word_struct(word: Word) -> list[str]:
    """Return a packed struct: the first field is the last member, which begins at bit 0."""
    rows = [f"    logic [{each.width - 1}:0] {each.name};" for each in reversed(word.fields)]
    rows = [row.replace("logic [0:0]", "logic") for row in rows]
    return ["", "  typedef struct packed {", *rows, f"  }} {word.name}_t;"]


def _packet_struct(name: str, fields: Sequence[PacketField]) -> list[str]:
    rows = []
    for field in reversed([part for each in fields for part in (each.parts or (each,))]):
        bits = 32 * field.words // field.count
        count = f"[{field.count - 1}:0]" if field.count > 1 else ""
        order = f": {', '.join(field.elements)}" if field.elements else ""
        rows.append(f"    logic {count}[{bits - 1}:0] {field.name};  // byte {field.offset}{order}")
    return ["", "  typedef struct packed {", *rows, f"  }} {name};"]


def _head(notice: str, package: str) -> list[str]:
    return [
        f"// {notice}",
        f"// The contract's part of {package}.",
        "",
        "  // A list is complete, whether all of it has a use or not.",
        "  // verilator lint_off UNUSEDPARAM",
    ]


def _tail() -> list[str]:
    return ["  // verilator lint_on UNUSEDPARAM"]


def npu_text(contract: Contract, notice: str) -> str:
    """Return the text of `rtl/npu_contract.svh`: all but registers and the vector engine."""
    out = _head(notice, "npu_pkg")
    out += ["", "  // ---- address map (physical, byte addresses)"]
    for region in contract.regions:
        name = camel(region.name)
        out += _commented(f"  localparam logic [31:0] {name}Base = {_hex(region.base, 32)};", region.meaning)
        out += [f"  localparam logic [31:0] {name}Last = {_hex(region.last, 32)};"]
    for region in contract.large_regions:
        name = camel(f"large_{region.name}")
        out += _commented(f"  localparam logic [63:0] {name}Base = {_hex(region.base, 64)};", region.meaning)

    out += ["", "  // ---- packets: little-endian, so the first field is the last member"]
    out += _constant("PacketBits", 8 * PACKET_BYTES)
    for packet in contract.packets:
        name = camel(packet.name)
        if packet.slots > 1:
            out += _constant(f"{name}s", packet.slots, "packets that it consists of")
        for field in packet.fields:
            if field.value:
                constant = _hex(field.constant, 32)
                title = f"{name}{camel(field.name)}"
                out.append(f'  localparam logic [31:0] {title} = {constant};  // "{field.value}"')
    for packet in contract.packets:
        name = "packet_t" if packet.name == "command" else f"{packet.name}_t"
        out += _packet_struct(name, packet.fields)

    out += ["", "  // ---- commands"]
    out += _enum("opcode_e", 32, "Op", ((each.name, each.code) for each in contract.opcodes))[1:]
    out += ["", "  // Flags: the number of the lowest bit."]
    for flag in contract.flags:
        comment = f"{flag.width} bits: {flag.meaning}" if flag.width > 1 else flag.meaning
        out += _constant(f"Flag{camel(flag.name)}", flag.bit, comment)
    out += _functions(contract)

    out += ["", "  // ---- states and error codes"]
    out += _enum("state_e", 2, "State", ((each.name, each.code) for each in contract.states))[1:]
    out += _enum("error_e", 8, "Err", ((each.name, each.code) for each in contract.errors))
    out += ["", "  // ---- data types of a matrix product"]
    out += _enum("matrix_type_e", 2, "Type", ((each.name, each.code) for each in contract.data_types))[1:]
    out += _enum("result_type_e", 2, "Out", ((each.name, each.code) for each in contract.out_types))
    formats = [(each.name, each.code) for each in contract.block_formats]
    out += [
        "",
        "  // ---- formats of a right operand in packed blocks",
        *_enum("blocks_e", 2, "Blocks", formats)[1:],
    ]
    out += _tile_bytes(contract)
    out += [""]
    for name, meaning in BLOCK_MEANINGS.items():
        out += _constant(camel(BLOCK_NAMES[name]), getattr(contract.blocks, name), meaning)
    out += ["", "  // ---- limits"]
    for each in contract.limits:
        line = f"  localparam logic [63:0] {camel(each.name)} = {_hex(each.value, 64)};"
        out += _commented(line, each.meaning)
    return "\n".join([*out, *_tail()]) + "\n"


def _tile_bytes(contract: Contract) -> list[str]:
    """Return the function that gives the bytes of a packed tile."""
    cases = [
        f"      Blocks{camel(each.name)}: tile_bytes = 11'd{each.tile_bytes};"
        for each in contract.block_formats
        if each.code
    ]
    return [
        "",
        "  // Bytes of a packed tile.",
        "  function automatic logic [10:0] tile_bytes(input blocks_e format);",
        "    unique case (format)",
        *cases,
        "      default: tile_bytes = '0;",
        "    endcase",
        "  endfunction",
    ]


def _functions(contract: Contract) -> list[str]:
    """Return the functions of what a packet's opcode says."""
    out = [
        "",
        "  // The flags that an opcode understands.",
        "  function automatic logic [31:0] legal_flags(input logic [31:0] opcode);",
        "    unique case (opcode_e'(opcode))",
    ]
    for opcode in contract.opcodes:
        flags = _hex(contract.legal_flags(opcode), 32)
        out.append(f"      Op{camel(opcode.name)}: legal_flags = {flags};")
    out += ["      default: legal_flags = '0;", "    endcase", "  endfunction"]
    names = [f"Op{camel(each.name)}" for each in contract.opcodes]
    fences = [f"Op{camel(each.name)}" for each in contract.opcodes if each.engine == "none"]
    matrix = [f"Op{camel(each.name)}" for each in contract.opcodes if each.engine == "matrix"]
    for function, what, members in (
        ("is_opcode", "Whether there is such an opcode.", names),
        ("is_fence_opcode", "Whether a command has no engine and waits for all before it.", fences),
        ("is_matrix_opcode", "Whether a command is the matrix engine's.", matrix),
    ):
        out += [
            "",
            f"  // {what}",
            f"  function automatic logic {function}(input logic [31:0] opcode);",
            *_listed(f"{function} = opcode_e'(opcode) inside {{", members, "};"),
            "  endfunction",
        ]
    return out


def vector_text(contract: Contract, notice: str) -> str:
    """Return the text of `rtl/vector_contract.svh`: the instruction set, and the descriptors of streams."""
    out = _head(notice, "vector_pkg")
    out += ["", "  // ---- instructions"]
    out += _word_struct(contract.word("instruction"))[1:]
    width = next(each.width for each in contract.word("instruction").fields if each.name == "opcode")
    out += _enum("vop_e", width, "Vop", ((each.name, each.code) for each in contract.instructions))
    bits = next(each.width for each in contract.word("instruction").fields if each.name == "dst")
    out += ["", "  // Operand codes: the first of a bank, then its members."]
    for operand in contract.operands:
        last = f"..{operand.name}{operand.count - 1}" if operand.count > 1 else ""
        zero = "0" if operand.count > 1 else ""
        name = f"Operand{camel(operand.id)}"
        line = f"  localparam logic [{bits - 1}:0] {name} = {bits}'d{operand.first};"
        out += _commented(line, f"{operand.name}{zero}{last}")
    for operand in contract.operands:
        if operand.count > 1:
            low, high = (
                f"code >= {bits}'d{operand.first}",
                f"code <= {bits}'d{operand.first + operand.count - 1}",
            )
            terms = [low] * (operand.first > 0) + [high] * (operand.first + operand.count < 1 << bits)
            out += [
                "",
                f"  function automatic logic is_{operand.id}(input logic [{bits - 1}:0] code);",
                f"    is_{operand.id} = {' && '.join(terms)};",
                "  endfunction",
            ]
    builtin = f"  localparam logic [31:0] BuiltinEntry = {_hex(contract.builtin_entry, 32)};"
    accumulators = next(each.count for each in contract.operands if each.kind == "accumulator")
    out += [
        "",
        *_constant("Accumulators", accumulators),
        *_constant("Partials", contract.partials, "partial results of an accumulator, whatever the lanes"),
        *_constant("Inputs", contract.inputs),
        *_constant("Streams", contract.inputs + 1),
        *_constant("Output", contract.inputs, "index of the output among the streams"),
        *_commented(builtin, "of the program of ADD_TENSOR, which is not in program memory"),
        "",
        "  // ---- stream descriptors of a VECTOR command",
        *_word_struct(contract.word("descriptor"))[1:],
    ]
    return "\n".join([*out, *_tail()]) + "\n"


def board_text(contract: Contract, top: AddrmapNode, notice: str) -> str:
    """Return the text of `board/board_pkg.sv`: registers, places of counters, bits of the trace."""
    out = [
        f"// {notice}",
        "// What checkers, proofs and testbenches know of the contract beyond npu_pkg. No device needs it.",
        "package board_pkg;",
        "",
        "  // A list is complete, whether all of it has a use or not.",
        "  // verilator lint_off UNUSEDPARAM",
        "",
        "  // ---- registers: offsets in their window, and the lowest bits of fields of a part of a register",
    ]
    for register in registers_of(top):
        name = camel(register.inst_name)
        out.append(f"  localparam logic [15:0] Reg{name} = {_hex(register.raw_address_offset, 16)};")
        if register.is_array:
            out += _constant(f"{name}Words", register.n_elements)
        for field in register.fields():
            if field.width < register.get_property("regwidth"):
                out += _constant(f"{name}{camel(field.inst_name)}Bit", field.low)
    out += ["", "  // ---- performance counters: their places from the first one on, 8 bytes each"]
    counters = counters_of(top)
    for place, register in enumerate(counters):
        out += _constant(f"Counter{camel(register.inst_name)}", place)
    out += _constant("Counters", len(counters))
    out += ["", "  // ---- the record behind timelines: bits of its levels"]
    for place, (level, meaning) in enumerate(contract.trace_levels.items()):
        out += _constant(f"Level{camel(level)}", place, meaning)
    out += _constant("Levels", len(contract.trace_levels))
    return "\n".join([*out, *_tail(), "endpackage"]) + "\n"
