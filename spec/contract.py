"""Read and check `spec/contract.toml`."""

from __future__ import annotations

import string
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeVar

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = Path("spec/contract.toml")

PACKET_BYTES: Final = 64
FLAG_BITS: Final = 32
TYPE_BYTES: Final = {"u32": 4, "u64": 8, "i64": 8, "f32": 4}
SCALARS: Final = ("int", "str", "bool")
SIZES: Final = ("m", "k", "n", "count")
"""What `shape` of an opcode may name in braces."""
CODE_BITS: Final = {
    "opcodes": 32,
    "data_types": 2,
    "out_types": 2,
    "block_formats": 2,
    "states": 2,
    "errors": 8,
}
VALUES: Final = ("data_types", "out_types", "block_formats")
"""The tables that a flag of several bits may name."""
ENGINES: Final = ("none", "matrix", "vector")
STAGES: Final = ("check", "submit", "engine")
FORMS: Final = ("alu", "aset", "fold", "loop", "step", "end")
FRACTIONAL_UNITS: Final = ("chance", "bytes a cycle")
"""Units of knobs that are held as 1/65536."""
UNITS: Final = (*FRACTIONAL_UNITS, "cycles", "bursts", "switch", "number")

BLOCK_NAMES: Final = {
    "values": "block_values",
    "tile_columns": "tile_columns",
    "tile_depth": "tile_depth",
    "tile_alignment": "tile_alignment",
}
"""The names outside of the contract of what `BlockGeometry` has."""
BLOCK_MEANINGS: Final = {
    "values": "values of a block, neighbours along K",
    "tile_columns": "columns of the product in a packed tile",
    "tile_depth": "values along K in a packed tile",
    "tile_alignment": "packed tiles, and the strides between them, are multiples of so many bytes",
}

_Entry = TypeVar("_Entry")


class ContractError(ValueError):
    """The contract contradicts itself; the message names the table and the entry."""


@dataclass(frozen=True, kw_only=True)
class RegionEntry:
    """A range of physical addresses."""

    name: str
    base: int
    bytes: int
    kind: str
    meaning: str

    @property
    def last(self) -> int:
        """Return its last byte."""
        return self.base + self.bytes - 1


@dataclass(frozen=True, kw_only=True)
class OpcodeEntry:
    """A command."""

    name: str
    code: int
    engine: str
    flags: list[str]
    meaning: str
    extensions: int = 0
    operands: list[str] | None = None
    shape: str = ""


@dataclass(frozen=True, kw_only=True)
class FlagEntry:
    """A modifier of commands, of one bit or more."""

    name: str
    bit: int
    meaning: str
    width: int = 1
    values: str = ""


@dataclass(frozen=True, kw_only=True)
class ElementTypeEntry:
    """A type of operands or of results."""

    name: str
    code: int
    storage: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class BlockFormatEntry:
    """A format of a right operand in packed blocks; code 0 stands for an operand that is not."""

    name: str
    code: int
    tile_bytes: int
    meaning: str


@dataclass(frozen=True, kw_only=True)
class BlockGeometry:
    """Values of a block, and the size of a packed tile; the alignment is bytes."""

    values: int
    tile_columns: int
    tile_depth: int
    tile_alignment: int


@dataclass(frozen=True, kw_only=True)
class StateEntry:
    """A state of the device."""

    name: str
    code: int
    meaning: str


@dataclass(frozen=True, kw_only=True)
class ErrorEntry:
    """An error code."""

    name: str
    code: int
    stages: list[str]
    address: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class LimitEntry:
    """The greatest legal value of something."""

    name: str
    value: int
    meaning: str


@dataclass(frozen=True, kw_only=True)
class PacketField:
    """Words of a packet."""

    name: str
    offset: int
    type: str
    meaning: str = ""
    count: int = 1
    value: str = ""
    elements: tuple[str, ...] = ()
    parts: tuple[PacketField, ...] = ()

    @property
    def words(self) -> int:
        """Return how many 32-bit words it has."""
        return TYPE_BYTES[self.type] * self.count // 4

    @property
    def end(self) -> int:
        """Return the offset of the first byte behind it."""
        return self.offset + 4 * self.words

    @property
    def constant(self) -> int:
        """Return the number that `value` is in memory."""
        return int.from_bytes(self.value.encode(), "little")


@dataclass(frozen=True, kw_only=True)
class Packet:
    """A layout of one packet, or of several that follow one another."""

    name: str
    slots: int
    fields: tuple[PacketField, ...]


@dataclass(frozen=True, kw_only=True)
class BitField:
    """Bits of a word."""

    name: str
    shift: int
    width: int
    meaning: str = ""


@dataclass(frozen=True, kw_only=True)
class Word:
    """A word of bit fields, of any number of bits."""

    name: str
    bits: int
    fields: tuple[BitField, ...]


@dataclass(frozen=True, kw_only=True)
class OperandEntry:
    """An operand of instructions, or a bank of them with consecutive codes; `id` is its name in RTL."""

    id: str
    name: str
    first: int
    kind: str
    count: int = 1
    dst: str = ""
    src: str = ""


@dataclass(frozen=True, kw_only=True)
class InstructionEntry:
    """An opcode of the vector engine."""

    name: str
    code: int
    form: str
    meaning: str
    sources: int = 0
    accumulates: int = 0
    folds: str = ""

    @property
    def mnemonic(self) -> str:
        """Return its name in programs."""
        return self.name.replace("_", "")


@dataclass(frozen=True, kw_only=True)
class KnobEntry:
    """A setting of the memory model."""

    name: str
    unit: str
    least: float
    most: float
    meaning: str
    default: float | None = None

    @property
    def scale(self) -> int:
        """Return the native units in one unit."""
        return 65536 if self.unit in FRACTIONAL_UNITS else 1


@dataclass(frozen=True, kw_only=True)
class Contract:
    """Everything in `contract.toml`, checked."""

    regions: tuple[RegionEntry, ...]
    large_regions: tuple[RegionEntry, ...]
    opcodes: tuple[OpcodeEntry, ...]
    flags: tuple[FlagEntry, ...]
    data_types: tuple[ElementTypeEntry, ...]
    out_types: tuple[ElementTypeEntry, ...]
    block_formats: tuple[BlockFormatEntry, ...]
    blocks: BlockGeometry
    states: tuple[StateEntry, ...]
    errors: tuple[ErrorEntry, ...]
    limits: tuple[LimitEntry, ...]
    packets: tuple[Packet, ...]
    words: tuple[Word, ...]
    partials: int
    inputs: int
    builtin_entry: int
    operands: tuple[OperandEntry, ...]
    instructions: tuple[InstructionEntry, ...]
    channels: tuple[str, ...]
    knobs: tuple[KnobEntry, ...]
    statistics: Mapping[str, str]
    trace_kinds: tuple[str, ...]
    trace_levels: Mapping[str, str]
    operations: tuple[str, ...]

    def packet(self, name: str) -> Packet:
        """Return the layout called `name`."""
        return next(each for each in self.packets if each.name == name)

    def word(self, name: str) -> Word:
        """Return the word called `name`."""
        return next(each for each in self.words if each.name == name)

    def codes(self, table: str) -> tuple[ElementTypeEntry, ...] | tuple[BlockFormatEntry, ...]:
        """Return the types or formats that a flag's `values` names."""
        tables = {"data_types": self.data_types, "out_types": self.out_types}
        return tables.get(table, self.block_formats)

    def flag(self, name: str) -> FlagEntry:
        """Return the flag called `name`."""
        return next(each for each in self.flags if each.name == name)

    @property
    def memory_bytes(self) -> int:
        """Return the bytes of device memory, which begins at address 0."""
        return sum(region.bytes for region in self.regions if region.kind == "memory")

    def legal_flags(self, opcode: OpcodeEntry) -> int:
        """Return all bits that `opcode` understands."""
        return sum(flag_mask(self.flag(name)) for name in opcode.flags)


def flag_mask(flag: FlagEntry) -> int:
    """Return the bits of a flag."""
    return ((1 << flag.width) - 1) << flag.bit


def load(path: Path = ROOT / SOURCE) -> Contract:
    """Read the contract.

    Raises:
        ContractError: an unknown or missing key, or entries that contradict one another.
    """
    return parse(path.read_text(encoding="utf-8"))


def parse(text: str) -> Contract:
    """Parse the contract that `text` holds; ContractError as `load`."""
    try:
        read = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ContractError(str(error)) from error
    top = {
        *(
            "regions",
            "large_regions",
            "opcodes",
            "flags",
            "data_types",
            "out_types",
            "block_formats",
            "states",
            "errors",
        ),
        *(
            "blocks",
            "limits",
            "packets",
            "words",
            "vector",
            "operands",
            "instructions",
            "model",
            "knobs",
            "statistics",
            "trace",
            "player",
        ),
    }
    _keys("contract", read, top, top)
    for table, keys in (
        ("vector", {"partials", "inputs", "builtin_entry"}),
        ("model", {"channels"}),
        ("trace", {"kinds", "levels"}),
        ("player", {"operations"}),
    ):
        _keys(table, read[table], keys, keys)
    contract = Contract(
        regions=_entries("regions", read["regions"], RegionEntry),
        large_regions=_entries("large_regions", read["large_regions"], RegionEntry),
        opcodes=_entries("opcodes", read["opcodes"], OpcodeEntry),
        flags=_entries("flags", read["flags"], FlagEntry),
        data_types=_entries("data_types", read["data_types"], ElementTypeEntry),
        out_types=_entries("out_types", read["out_types"], ElementTypeEntry),
        block_formats=_entries("block_formats", read["block_formats"], BlockFormatEntry),
        blocks=_entry("blocks", BlockGeometry, read["blocks"]),
        states=_entries("states", read["states"], StateEntry),
        errors=_entries("errors", read["errors"], ErrorEntry),
        limits=_entries("limits", read["limits"], LimitEntry),
        packets=tuple(_packet(name, table) for name, table in read["packets"].items()),
        words=tuple(_word(name, table) for name, table in read["words"].items()),
        partials=read["vector"]["partials"],
        inputs=read["vector"]["inputs"],
        builtin_entry=read["vector"]["builtin_entry"],
        operands=_entries("operands", read["operands"], OperandEntry, key="id"),
        instructions=_entries("instructions", read["instructions"], InstructionEntry),
        channels=tuple(read["model"]["channels"]),
        knobs=_entries("knobs", read["knobs"], KnobEntry),
        statistics=read["statistics"],
        trace_kinds=tuple(read["trace"]["kinds"]),
        trace_levels=read["trace"]["levels"],
        operations=tuple(read["player"]["operations"]),
    )
    _check(contract)
    return contract


# ---- reading -----------------------------------------------------------------------------------------------


def _keys(where: str, table: Mapping[str, Any], known: set[str], needed: set[str]) -> None:
    if unknown := sorted(set(table) - known):
        raise ContractError(
            f"{where}: unknown key {', '.join(unknown)}; it may have {', '.join(sorted(known))}"
        )
    if missing := sorted(needed - set(table)):
        raise ContractError(f"{where}: {', '.join(missing)} is missing")


def _entry(where: str, kind: type[_Entry], table: Mapping[str, Any]) -> _Entry:
    listed = fields(kind)  # type: ignore[arg-type]
    _keys(where, table, {f.name for f in listed}, {f.name for f in listed if f.default is MISSING})
    for each in listed:
        # Annotations are texts here; those of other types are checked where they are read.
        if each.type in SCALARS and type(table.get(each.name, each.default)).__name__ != each.type:
            raise ContractError(f"{where}: {each.name} is {table[each.name]!r}; it must be {each.type}")
    return kind(**table)


def _entries(
    name: str, tables: Mapping[str, Mapping[str, Any]], kind: type[_Entry], key: str = "name"
) -> tuple[_Entry, ...]:
    return tuple(_entry(f"{name}.{each}", kind, {key: each, **table}) for each, table in tables.items())


def _packet_field(where: str, table: Mapping[str, Any]) -> PacketField:
    where = f"{where}.{table.get('name', '?')}"
    values = dict(table)
    values["elements"] = tuple(table.get("elements", ()))
    values["parts"] = tuple(_packet_field(where, each) for each in table.get("parts", ()))
    if values["elements"]:
        values["count"] = len(values["elements"])
    if table.get("type") not in TYPE_BYTES:
        raise ContractError(f"{where}: type {table.get('type')!r}; it is one of {', '.join(TYPE_BYTES)}")
    return _entry(where, PacketField, values)


def _packet(name: str, table: Mapping[str, Any]) -> Packet:
    _keys(f"packets.{name}", table, {"slots", "fields"}, {"slots", "fields"})
    listed = tuple(_packet_field(f"packets.{name}", each) for each in table["fields"])
    return Packet(name=name, slots=table["slots"], fields=listed)


def _word(name: str, table: Mapping[str, Any]) -> Word:
    where = f"words.{name}"
    _keys(where, table, {"bits", "fields"}, {"bits", "fields"})
    listed = tuple(_entry(f"{where}.{each.get('name', '?')}", BitField, each) for each in table["fields"])
    return Word(name=name, bits=table["bits"], fields=listed)


# ---- checking ----------------------------------------------------------------------------------------------


def _check(contract: Contract) -> None:
    for table in CODE_BITS:
        _check_codes(table, getattr(contract, table), CODE_BITS[table])
    _check_regions(contract)
    _check_flags(contract)
    for error in contract.errors:
        for stage in error.stages:
            _one_of(f"errors.{error.name}", "stage", stage, STAGES)
    for packet in contract.packets:
        _check_packet(packet)
    for word in contract.words:
        spans = [(each.name, each.shift, each.shift + each.width) for each in word.fields]
        _check_spans(f"words.{word.name}", spans, word.bits, "bit")
    _check_blocks(contract)
    _check_vector(contract)
    _check_knobs(contract)


def _one_of(where: str, what: str, value: str, legal: Iterable[str]) -> None:
    listed = tuple(legal)
    if value not in listed:
        raise ContractError(f"{where}: {what} {value!r}; it is one of {', '.join(listed)}")


def _check_codes(table: str, entries: Iterable[Any], bits: int) -> None:
    seen: dict[int, str] = {}
    for each in entries:
        if not 0 <= each.code < 1 << bits:
            raise ContractError(f"{table}.{each.name}: code {each.code} does not fit into {bits} bits")
        if each.code in seen:
            raise ContractError(f"{table}.{each.name}: code {each.code} is that of {seen[each.code]} already")
        seen[each.code] = each.name


def _check_spans(
    where: str, spans: Iterable[tuple[str, int, int]], end: int, unit: str, *, complete: bool = False
) -> None:
    """Refuse (name, first, behind the last) that overlap, or leave [0, end)."""
    position, before, names = 0, "", set()
    for name, first, behind in sorted(spans, key=lambda each: each[1]):
        if name in names:
            raise ContractError(f"{where}.{name}: there are two of this name")
        names.add(name)
        if first < 0 or behind > end:
            raise ContractError(f"{where}.{name}: {unit} {behind - 1} is outside of the {end} {unit}s")
        if first < position:
            raise ContractError(f"{where}.{name}: {unit} {first} belongs to {before} already")
        if complete and first > position:
            raise ContractError(f"{where}.{name}: nothing is said of {unit} {position} to {first - 1}")
        position, before = behind, name
    if complete and position < end:
        raise ContractError(f"{where}: nothing is said of {unit} {position} to {end - 1}")


def _check_regions(contract: Contract) -> None:
    spans = [(region.name, region.base, region.base + region.bytes) for region in contract.regions]
    _check_spans("regions", spans, 1 << 32, "byte")
    for region in contract.regions:
        _one_of(f"regions.{region.name}", "kind", region.kind, ("memory", "registers", "reserved"))
        if region.kind == "memory" and region.base >= contract.memory_bytes:
            raise ContractError(f"regions.{region.name}: memory is not one range from address 0 on")
    low = [region.name for region in contract.regions if region.kind == "memory"]
    spans = [(region.name, region.base, region.base + region.bytes) for region in contract.large_regions]
    _check_spans("large_regions", spans, 1 << 64, "byte")
    if [region.name for region in contract.large_regions] != low:
        raise ContractError(f"large_regions: they are {', '.join(low)}")
    for region in contract.large_regions:
        _one_of(f"large_regions.{region.name}", "kind", region.kind, ("memory",))
        if region.base < 1 << 32:
            raise ContractError(f"large_regions.{region.name}: it does not lie above 4 GiB")


def _check_flags(contract: Contract) -> None:
    spans = [(flag.name, flag.bit, flag.bit + flag.width) for flag in contract.flags]
    _check_spans("flags", spans, FLAG_BITS, "bit")
    for flag in contract.flags:
        if (flag.width > 1) != bool(flag.values):
            raise ContractError(
                f"flags.{flag.name}: a flag of several bits, and no other one, names its values"
            )
        if flag.values:
            _one_of(f"flags.{flag.name}", "values", flag.values, VALUES)
    names = [flag.name for flag in contract.flags]
    for opcode in contract.opcodes:
        where = f"opcodes.{opcode.name}"
        _one_of(where, "engine", opcode.engine, ENGINES)
        for _, size, *_ in string.Formatter().parse(opcode.shape):
            if size is not None:
                _one_of(where, "shape names", size, SIZES)
        for name in opcode.flags:
            _one_of(where, "flag", name, names)
        if bool(opcode.extensions) != ("EXT" in opcode.flags):
            raise ContractError(f"{where}: it has extensions if, and only if, it knows the flag EXT")
        for name in opcode.operands or ():
            _one_of(where, "operand", name, ("src1", "src2", "dst"))


def _check_packet(packet: Packet) -> None:
    where = f"packets.{packet.name}"
    spans = [(each.name, each.offset, each.end) for each in packet.fields]
    _check_spans(where, spans, packet.slots * PACKET_BYTES, "byte", complete=True)
    for field in packet.fields:
        if field.offset % TYPE_BYTES[field.type]:
            raise ContractError(f"{where}.{field.name}: offset {field.offset} is not a multiple of its size")
        if field.value and (len(field.value) != 4 or field.type != "u32"):
            raise ContractError(f"{where}.{field.name}: value {field.value!r} has not the 4 bytes of a u32")
        if field.parts:
            parts = [(each.name, each.offset - field.offset, each.end - field.offset) for each in field.parts]
            _check_spans(f"{where}.{field.name}", parts, 4 * field.words, "byte", complete=True)


def _check_blocks(contract: Contract) -> None:
    blocks = contract.blocks
    for name, value in vars(blocks).items():
        if value < 1 or value & (value - 1):
            raise ContractError(f"blocks.{name}: {value} is not a power of two")
    if blocks.tile_depth % blocks.values:
        raise ContractError(f"blocks.tile_depth: {blocks.tile_depth} is not a whole number of blocks")
    for each in contract.block_formats:
        if each.tile_bytes % blocks.tile_alignment:
            raise ContractError(f"block_formats.{each.name}: {each.tile_bytes} bytes are not aligned")


def _check_vector(contract: Contract) -> None:
    fields_ = {each.name: each.width for each in contract.word("instruction").fields}
    _check_codes("instructions", contract.instructions, fields_["opcode"])
    spans = [(each.id, each.first, each.first + each.count) for each in contract.operands]
    _check_spans("operands", spans, 1 << fields_["dst"], "code")
    names = [each.name for each in contract.instructions]
    for each in contract.instructions:
        where = f"instructions.{each.name}"
        _one_of(where, "form", each.form, FORMS)
        if (each.form == "fold") != bool(each.folds):
            raise ContractError(f"{where}: a fold, and nothing else, says what it folds")
        if each.folds:
            _one_of(where, "folds", each.folds, names)
        if not 0 <= each.accumulates < max(each.sources, 1) <= 3:
            raise ContractError(
                f"{where}: it takes {each.sources} sources, and {each.accumulates} to accumulate"
            )
    streams = next(each for each in contract.operands if each.kind == "stream")
    if streams.count != contract.inputs:
        raise ContractError(
            f"vector.inputs: {contract.inputs}, but operands.{streams.id} has {streams.count}"
        )


def _check_knobs(contract: Contract) -> None:
    for knob in contract.knobs:
        where = f"knobs.{knob.name}"
        _one_of(where, "unit", knob.unit, UNITS)
        if not knob.least <= knob.most:
            raise ContractError(f"{where}: its range {knob.least}..{knob.most} is empty")
        if knob.default is not None and not knob.least <= knob.default <= knob.most:
            raise ContractError(f"{where}: its default {knob.default} is not in {knob.least}..{knob.most}")
    stalls = {knob.name for knob in contract.knobs if knob.name.startswith("stall_")}
    if stalls != {f"stall_{channel}" for channel in contract.channels}:
        raise ContractError(
            f"knobs: the channels are {', '.join(contract.channels)}, the stalls {sorted(stalls)}"
        )
    for what, names in (
        ("operations", contract.operations),
        ("channels", contract.channels),
        ("kinds", contract.trace_kinds),
    ):
        if len(set(names)) < len(names):
            raise ContractError(f"{what}: a name is there twice")
