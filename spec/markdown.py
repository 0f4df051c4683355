"""Write the contract's tables into docs/, each between two marks of its page."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from spec.contract import Contract, ContractError, InstructionEntry, OperandEntry, PacketField
from spec.marked_page import with_part

Maker: TypeAlias = Callable[[Contract], list[str]]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(head)} |",
        "| " + " | ".join("---" for _ in head) + " |",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def _hex_address(value: int) -> str:
    digits = f"{value:08X}"
    return f"0x{digits[:-8]}{'_' * (len(digits) > 8)}{digits[-8:-4]}_{digits[-4:]}"


def _regions(contract: Contract) -> list[str]:
    rows = ((f"{_hex_address(r.base)} to {_hex_address(r.last)}", r.meaning) for r in contract.regions)
    return _table(("range", "what"), rows)


def _large_regions(contract: Contract) -> list[str]:
    rows = ((f"from {_hex_address(r.base)} on", r.meaning) for r in contract.large_regions)
    return _table(("range", "what"), rows)


def _words(field: PacketField) -> str:
    first = field.offset // 4
    return (
        ", ".join(map(str, range(first, first + field.words)))
        if field.words <= 3
        else (f"{first}..{first + field.words - 1}")
    )


def _packet(contract: Contract) -> list[str]:
    rows = []
    for field in contract.packet("command").fields:
        for part in field.parts or (field,):
            place = (part.offset - field.offset) // 4
            last = f":{place + part.words - 1}" if part.words > 1 else ""
            name = f"`{field.name}[{place}{last}]`" if field.parts else f"`{field.name}`"
            kind = "" if part.name == "reserved" else f", {part.type}"
            rows.append((str(part.offset), _words(part), name + kind, part.meaning))
    return _table(("byte", "word", "field", "meaning"), rows)


def _extension(contract: Contract, name: str) -> list[str]:
    rows = []
    for field in contract.packet(name).fields:
        meaning = f'0x{field.constant:08X}, the bytes "{field.value}"' if field.value else field.meaning
        if field.elements:
            meaning = f"of {', '.join(field.elements)}; {meaning}"
        rows.append((str(field.offset), _words(field), f"`{field.name}`", meaning))
    return _table(("byte", "word", "field", "meaning"), rows)


def _opcodes(contract: Contract) -> list[str]:
    rows = ((f"0x{each.code:02X}", each.name, each.engine, each.meaning) for each in contract.opcodes)
    return _table(("opcode", "name", "engine", "what it does"), rows)


def _flags(contract: Contract) -> list[str]:
    rows = []
    for flag in contract.flags:
        if flag.width == 1:
            users = [each.name for each in contract.opcodes if flag.name in each.flags]
            whose = "all" if len(users) == len(contract.opcodes) else ", ".join(users)
            rows.append((flag.name, str(flag.bit), whose, flag.meaning))
    return _table(("flag", "bit", "for", "meaning"), rows)


def _values(contract: Contract) -> list[str]:
    rows = []
    for flag in contract.flags:
        if flag.values:
            names = {each.code: each.meaning for each in contract.codes(flag.values)}
            listed = [names.get(code, "reserved") for code in range(1 << flag.width)]
            rows.append((f"{flag.name}, {flag.meaning}", f"{flag.bit + flag.width - 1}:{flag.bit}", *listed))
    return _table(("field", "bits", *map(str, range(len(rows[0]) - 2))), rows)


def _errors(contract: Contract) -> list[str]:
    rows = ((str(each.code), each.name, each.meaning, each.address) for each in contract.errors)
    return _table(("code", "name", "why", "ERROR_ADDR"), rows)


def _limits(contract: Contract) -> list[str]:
    return _table(("name", "most", "of"), ((e.name, str(e.value), e.meaning) for e in contract.limits))


def _encoding(contract: Contract) -> list[str]:
    rows = []
    for field in contract.word("instruction").fields:
        high = field.shift + field.width - 1
        bits = f"{high}:{field.shift}" if field.width > 1 else str(high)
        rows.append((bits, f"{field.name}: {field.meaning}" if field.meaning else field.name))
    return _table(("bits", "field"), rows)


def _descriptor(contract: Contract) -> list[str]:
    rows = []
    for field in contract.word("descriptor").fields:
        word, low = divmod(field.shift, 32)
        high = low + field.width - 1
        bits = f"{high}:{low}" if field.width > 1 else str(low)
        rows.append((str(word), bits, field.name, field.meaning))
    return _table(("word", "bits", "field", "meaning"), rows)


def _operand_names(operand: OperandEntry) -> tuple[str, str]:
    if operand.count == 1:
        return operand.name, str(operand.first)
    names = [f"{operand.name}{i}" for i in range(operand.count)]
    codes = [str(operand.first + i) for i in range(operand.count)]
    mark = ", " if operand.count == 2 else ".."
    return (mark.join((names[0], names[-1])), mark.join((codes[0], codes[-1])))


def _operands(contract: Contract) -> list[str]:
    rows = ((*_operand_names(each), each.dst, each.src) for each in contract.operands)
    return _table(("operand", "code", "as dst", "as a, b, c"), rows)


def _syntax(each: InstructionEntry) -> str:
    if each.sources:
        return f"{each.mnemonic} d, {', '.join('abc'[: each.sources])}"
    return f"{each.mnemonic} m" if each.form == "step" else each.mnemonic


def _instructions(contract: Contract, head: str, forms: Sequence[str]) -> list[str]:
    listed = (each for each in contract.instructions if each.form in forms)
    rows = ((f"0x{each.code:02X}", _syntax(each), each.meaning) for each in listed)
    return _table(("opcode", "mnemonic", head), rows)


def _knobs(contract: Contract) -> list[str]:
    rows = []
    for knob in contract.knobs:
        least = "1/65536" if 0 < knob.least < 1 else f"{knob.least:g}"
        most = f"2^{int(knob.most).bit_length()} - 1" if knob.most >= 1 << 31 else f"{knob.most:g}"
        default = "drawn" if knob.default is None else f"{knob.default:g}"
        rows.append((f"`{knob.name}`", knob.unit, f"{least} to {most}", default, knob.meaning))
    return _table(("knob", "unit", "range", "default", "meaning"), rows)


def _statistics(contract: Contract) -> list[str]:
    return _table(
        ("statistic", "counts"), ((f"`{n}`", meaning) for n, meaning in contract.statistics.items())
    )


_TABLES: Final[Mapping[Path, Mapping[str, Maker]]] = {
    Path("docs/architecture.md"): {
        "regions": _regions,
        "large_regions": _large_regions,
        "knobs": _knobs,
        "statistics": _statistics,
    },
    Path("docs/packets.md"): {
        "packet": _packet,
        "opcodes": _opcodes,
        "flags": _flags,
        "types": _values,
        "extension": lambda contract: _extension(contract, "extension"),
        "limits": _limits,
        "errors": _errors,
    },
    Path("docs/vector.md"): {
        "encoding": _encoding,
        "operands": _operands,
        "arithmetic": lambda contract: _instructions(contract, "d =", ("alu",)),
        "accumulators": lambda contract: _instructions(contract, "what it does", ("aset", "fold")),
        "control": lambda contract: _instructions(contract, "what it does", ("loop", "step", "end")),
        "extension": lambda contract: _extension(contract, "vector_extension"),
        "descriptor": _descriptor,
    },
}
PAGES: Final = tuple(_TABLES)


def page_text(contract: Contract, page: Path, text: str) -> str:
    """Return `text`, which is that of `page`, with its tables made anew.

    Raises: ContractError for a page without the marks of a table.
    """
    for name, make in _TABLES[page].items():
        try:
            text = with_part(text, f"make spec: {name}", make(contract))
        except ValueError as error:
            raise ContractError(f"{page}: it has no marks for the table {name}, or has them twice") from error
    return text
