"""The generated files are up to date, and agree with the contract in every language."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyslang
import pytest
from pyslang import ast, syntax

from echo_npu.commands.packets import ExtensionPacket, NpuCommandPacket
from echo_npu.formats import FORMATS
from echo_npu.spec import contract as generated
from echo_npu.spec import registers as regs
from echo_npu.spec.instructions import BANKS, BUILTIN_ENTRY, INSTRUCTIONS, Op
from echo_npu.spec.memory_map import MEMORY_REGIONS
from echo_npu.vector.isa import Instruction
from echo_sim.contract import CHANNELS, KNOBS, MEMORY_BYTES, STATISTICS, CaseOperation
from spec.contract import BLOCK_NAMES, ROOT, SOURCE, Contract, ContractError, PacketField, flag_mask, load
from spec.generate import stale
from spec.markdown import PAGES, page_text
from spec.registers import SOURCE as REGISTER_MAP
from spec.systemverilog import camel

CONTRACT = load()
GENERATED = (
    *PAGES,
    *map(
        Path,
        (
            "spec/contract.rdl",
            "rtl/npu_contract.svh",
            "rtl/special_function_table.svh",
            "rtl/vector_contract.svh",
            "rtl/regs/npu_regs.sv",
            "rtl/regs/npu_regs_pkg.sv",
            "runtime/echo_npu/spec/contract.py",
            "runtime/echo_npu/spec/instructions.py",
            "runtime/echo_npu/spec/registers.py",
            "runtime/echo_npu/spec/special_functions.py",
            "runtime/echo_sim/contract.py",
            "runtime/echo_sim/board/contract.hpp",
            "runtime/echo_sim/board/board_pkg.sv",
            "plugins/runtime/echo_npu_contract.h",
            "docs/registers.md",
        ),
    ),
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Copy the sources and all generated files to a new folder."""
    for path in (SOURCE, REGISTER_MAP, *GENERATED):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    return tmp_path


def test_what_is_generated_is_up_to_date() -> None:
    assert stale() == []


def test_a_change_of_the_contract_makes_files_stale(tree: Path) -> None:
    text = (tree / SOURCE).read_text(encoding="utf-8")
    (tree / SOURCE).write_text(text.replace("code = 0xFF", "code = 0xFE"), encoding="utf-8")
    assert {str(path) for path in stale(tree)} == {
        "rtl/npu_contract.svh",
        "runtime/echo_npu/spec/contract.py",
        "runtime/echo_sim/board/contract.hpp",
        "docs/packets.md",
    }


def test_generated_files_that_were_edited_are_stale(tree: Path) -> None:
    for path in GENERATED:
        text = (tree / path).read_text(encoding="utf-8")
        mark = "<!-- table of make spec"
        where = text.index(mark) + 60 if mark in text else 0
        (tree / path).write_text(text[:where] + "x" + text[where:], encoding="utf-8")
    assert set(stale(tree)) == set(GENERATED)


def test_a_page_without_the_marks_of_a_table_is_refused() -> None:
    page = Path("docs/packets.md")
    text = (ROOT / page).read_text(encoding="utf-8").replace("make spec: flags", "make spec: flag")
    with pytest.raises(ContractError, match=r"docs/packets\.md: it has no marks for the table flags"):
        page_text(CONTRACT, page, text)


def test_python_says_what_the_contract_says() -> None:
    for enumeration, entries in (
        (generated.Opcode, CONTRACT.opcodes),
        (generated.State, CONTRACT.states),
        (generated.ErrorCode, CONTRACT.errors),
        (generated.DataType, CONTRACT.data_types),
        (generated.OutType, CONTRACT.out_types),
    ):
        assert {each.name: int(each) for each in enumeration} == {each.name: each.code for each in entries}
    flags = {name: int(flag) for name, flag in generated.Flags.__members__.items() if flag}
    assert flags == {flag.name: flag_mask(flag) for flag in CONTRACT.flags}
    for opcode in CONTRACT.opcodes:
        facts = generated.OPCODES[opcode.code]
        assert (facts.flags, facts.extensions) == (CONTRACT.legal_flags(opcode), opcode.extensions)
    for limit in CONTRACT.limits:
        assert getattr(generated, limit.name) == limit.value, limit.name
    assert {r.name: (r.base, r.bytes) for r in CONTRACT.regions} == dict(generated.REGIONS)
    assert sum(region.size for region in MEMORY_REGIONS.values()) == CONTRACT.memory_bytes == MEMORY_BYTES


def test_python_has_the_places_of_fields_and_the_geometry_of_blocks() -> None:
    for name, offsets in (
        ("command", generated.COMMAND_OFFSETS),
        ("extension", generated.EXTENSION_OFFSETS),
    ):
        fields = [part for field in CONTRACT.packet(name).fields for part in (field, *field.parts)]
        assert dict(offsets) == {field.name: field.offset for field in fields}
    for name, python in BLOCK_NAMES.items():
        assert getattr(generated, python.upper()) == getattr(CONTRACT.blocks, name)
    assert {each.name.lower(): each.tile_bytes for each in CONTRACT.block_formats if each.code} == {
        name: block_format.tile_bytes for name, block_format in FORMATS.items()
    }


def test_python_has_the_instruction_set() -> None:
    assert {op.name.lower(): int(op) for op in Op} == {e.mnemonic: e.code for e in CONTRACT.instructions}
    for each in CONTRACT.instructions:
        facts = INSTRUCTIONS[Op(each.code)]
        assert (facts.form, facts.sources, facts.accumulates) == (each.form, each.sources, each.accumulates)
    operands = [(each.name, each.first, each.count) for each in CONTRACT.operands]
    assert [(name, first, count) for name, _, first, count in BANKS] == operands
    assert CONTRACT.builtin_entry == BUILTIN_ENTRY
    for field in CONTRACT.word("instruction").fields:
        value = (1 << field.width) - 1
        if field.name != "opcode":
            filled = Instruction(Op.ADD, **{field.name: bool(value) if field.name == "one" else value})
            assert filled.encode() == value << field.shift
            assert Instruction.decode(filled.encode()) == filled


def test_the_simulator_has_the_knobs_and_statistics() -> None:
    assert tuple(KNOBS) == tuple(knob.name for knob in CONTRACT.knobs)
    for knob in CONTRACT.knobs:
        for field in ("unit", "least", "most", "default"):
            assert getattr(KNOBS[knob.name], field) == getattr(knob, field), f"{knob.name}: {field}"
    assert tuple(CONTRACT.statistics) == STATISTICS
    assert CONTRACT.channels == CHANNELS
    assert CONTRACT.operations == tuple(CaseOperation.__members__)


def _read(data: bytes, field: PacketField, word: int = 0) -> int:
    size = 4 * field.words // field.count
    start = field.offset + size * word
    return int.from_bytes(data[start : start + size], "little")


def test_every_field_of_a_packet_lies_at_its_offset() -> None:
    names = ("opcode", "flags", "src1_addr", "src2_addr", "dst_addr", "m", "k", "n")
    values = {name: 0x11 * place for place, name in enumerate(names, 1)}
    data = NpuCommandPacket(**values, alpha=1.0).pack()
    fields = [part for field in CONTRACT.packet("command").fields for part in (field.parts or (field,))]
    values |= {"alpha": 0x3F80_0000, "reserved": 0}
    assert {field.name: _read(data, field) for field in fields} == values


def test_every_word_of_an_extension_lies_at_its_offset() -> None:
    names = ExtensionPacket.unpack(bytes(64)).__dataclass_fields__
    data = ExtensionPacket(**{name: 100 + place for place, name in enumerate(names)}).pack()
    for field in CONTRACT.packet("extension").fields:
        for word in range(field.count):
            name = f"{field.elements[word]}_{field.name}" if field.elements else field.name
            assert _read(data, field, word) == 100 + list(names).index(name)


@pytest.fixture(scope="module")
def constants() -> dict[str, int]:
    """Return the elaborated parameters and enumerators of npu_pkg, vector_pkg and board_pkg."""
    manager = pyslang.SourceManager()
    manager.addUserDirectories(str(ROOT / "rtl"))
    compilation = ast.Compilation()
    board = "runtime/echo_sim/board/board_pkg.sv"
    for name in ("rtl/npu_pkg.sv", "rtl/vector/vector_pkg.sv", board):
        compilation.addSyntaxTree(syntax.SyntaxTree.fromFile(str(ROOT / name), manager))
    found: dict[str, int] = {}
    for package in ("npu_pkg", "vector_pkg", "board_pkg"):
        symbol: Any = compilation.getPackage(package)
        for member in symbol:
            if isinstance(member, ast.TransparentMemberSymbol):
                member = member.wrapped
            if isinstance(member, ast.ParameterSymbol | ast.EnumValueSymbol):
                found[member.name] = int(member.value.convertToInt().value)
    return found


def _expected(contract: Contract) -> dict[str, int]:
    """Return the constants that the packages must have."""
    wanted = {f"Flag{camel(flag.name)}": flag.bit for flag in contract.flags}
    for prefix, entries in (
        ("Op", contract.opcodes),
        ("State", contract.states),
        ("Err", contract.errors),
        ("Type", contract.data_types),
        ("Out", contract.out_types),
        ("Vop", contract.instructions),
    ):
        wanted |= {f"{prefix}{camel(each.name)}": each.code for each in entries}  # type: ignore[attr-defined]
    for region in contract.regions:
        wanted |= {f"{camel(region.name)}Base": region.base, f"{camel(region.name)}Last": region.last}
    wanted |= {camel(limit.name): limit.value for limit in contract.limits}
    wanted |= {f"Operand{camel(each.id)}": each.first for each in contract.operands}
    wanted |= {camel(python): getattr(contract.blocks, name) for name, python in BLOCK_NAMES.items()}
    wanted["BuiltinEntry"] = contract.builtin_entry
    wanted |= {f"Reg{camel(name)}": register.offset for name, register in regs.REGISTERS.items()}
    wanted |= {f"Counter{camel(name)}": place for place, name in enumerate(regs.COUNTERS)}
    wanted |= {f"Level{camel(name)}": place for place, name in enumerate(contract.trace_levels)}
    for packet in contract.packets:
        for field in packet.fields:
            if field.value:
                wanted[f"{camel(packet.name)}{camel(field.name)}"] = field.constant
    return wanted


def test_systemverilog_says_what_the_contract_says(constants: dict[str, int]) -> None:
    wanted = _expected(CONTRACT)
    assert {name: constants.get(name) for name in wanted} == wanted


def test_cpp_says_what_the_contract_says(tmp_path: Path) -> None:
    wanted = {
        "kMemoryBytes": CONTRACT.memory_bytes,
        **{f"kState{camel(each.name)}": each.code for each in CONTRACT.states},
        **{f"kErr{camel(each.name)}": each.code for each in CONTRACT.errors},
        **{f"kOpcode{camel(each.name)}": each.code for each in CONTRACT.opcodes},
        **{f"kOpcodes[{place}]": each.code for place, each in enumerate(CONTRACT.opcodes)},
        "sizeof kOpcodes": 4 * len(CONTRACT.opcodes),
        "sizeof kOpcodeNames": 8 * len(CONTRACT.opcodes),
        **{
            f"k{camel(packet.name)}Word{camel(each.name)}": each.offset // 4
            for packet in CONTRACT.packets
            for field in packet.fields
            for each in (field, *field.parts)
        },
        "kVectorExtensions": CONTRACT.packet("vector_extension").slots,
        **{f"kDescriptor{camel(each.name)}": each.shift for each in CONTRACT.word("descriptor").fields},
        "32 * kDescriptorWords": CONTRACT.word("descriptor").bits,
        "kBuiltinEntry": CONTRACT.builtin_entry,
        **{f"kReg{camel(name)}": register.offset for name, register in regs.REGISTERS.items()},
        **{f"k{camel(each.name)}": int(each) for each in CaseOperation},
        **{
            f"kKnobDefaults[kKnob{camel(name)}]": round((k.default or 0) * k.scale)
            for name, k in KNOBS.items()
        },
    }
    lines = ["#include <string_view>", '#include "contract.hpp"', "using namespace echo;"]
    lines += [f"static_assert({name} == {value}ull);" for name, value in wanted.items()]
    lines += [
        f'static_assert(std::string_view(kOpcodeNames[{place}]) == "{each.name}");'
        for place, each in enumerate(CONTRACT.opcodes)
    ]
    source = tmp_path / "check.cpp"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    board = ROOT / "runtime/echo_sim/board"
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{board}", str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("folder", ["tests/formal", "ip", "runtime/echo_sim/checkers"])
def test_systemverilog_beside_the_rtl_names_registers(folder: str) -> None:
    found = [
        f"{path.name}: {literal}"
        for path in sorted((ROOT / folder).glob("*.sv*"))
        for literal in re.findall(r"16'h[0-9A-Fa-f_]+", path.read_text(encoding="utf-8"))
    ]
    assert found == [], "board_pkg has the offsets of registers"
