"""Classify checked commands, and pairs of consecutive ones, into the plan's bins."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from echo_npu.commands.checked import CheckedCommand, MemoryOperand
from echo_npu.commands.packets import Flags, NpuCommandPacket, Opcode
from echo_npu.commands.vector_command import Descriptor, VectorCommand
from echo_npu.formats import BLOCK, TILE_DEPTH
from echo_npu.spec.data_types import DataType
from echo_sim.config import NpuConfig
from tb.functional.plan import HALF_B, OPCODE_LABELS, STEPS

PAGE = 4096
QUICK_CYCLES, SLOW_CYCLES = 3, 40
HELD_BACK = 0.5
"""Stall probability from which a channel counts as stalling."""

Labels = str | frozenset[str]
"""One bin of an axis, or several at once."""


class Sample(NamedTuple):
    """Labels by axis of a group; an absent axis does not apply."""

    group: str
    values: Mapping[str, Labels]


def memory_pattern(knobs: Mapping[str, float]) -> frozenset[str]:
    """Classify the memory timing; `knobs` as for `echo_sim.native.Dram.set`."""
    chances = {
        name.removeprefix("stall_"): value for name, value in knobs.items() if name.startswith("stall_")
    }
    labels = {name for name, chance in chances.items() if chance >= HELD_BACK}
    if knobs["reorder"]:
        labels.add("reorder")
    if not any(chances.values()) and not knobs["reorder"]:
        labels.add("steady")
    labels |= {f"one_{way}" for way in ("read", "write") if knobs[f"max_{way}s"] == 1}
    if knobs["read_latency"] <= QUICK_CYCLES:
        labels.add("quick")
    elif knobs["read_latency"] > SLOW_CYCLES:
        labels.add("slow")
    return frozenset(labels)


def command_samples(
    commands: Sequence[CheckedCommand], config: NpuConfig, knobs: Mapping[str, float]
) -> Iterator[Sample]:
    """Yield all samples of consecutive commands."""
    memory = memory_pattern(knobs)
    for command in commands:
        irq = "irq" if command.packet.flags & Flags.IRQ else "quiet"
        yield Sample("commands", {"kind": _kind(command), "irq": irq, "memory": memory})
        yield from _operand_samples(command, config)
    for before, after in itertools.pairwise(commands):
        yield _neighbours(before, after)
        yield from _packed_neighbours(before, after)


def _operand_samples(command: CheckedCommand, config: NpuConfig) -> Iterator[Sample]:
    """Yield what the plan counts of a command's operands."""
    opcode = Opcode(command.packet.opcode)
    if opcode not in SAMPLED:
        raise NotImplementedError(f"tb/functional/samples.py does not say how to sample {opcode.name}")
    yield from SAMPLED[opcode](command, config)


def _opcode(command: CheckedCommand) -> str:
    return OPCODE_LABELS[Opcode(command.packet.opcode)]


def _kind(command: CheckedCommand) -> str:
    extended = command.packet.opcode == Opcode.MEMCPY and command.packet.flags & Flags.EXT
    return "rows" if extended else _opcode(command)


def _batch(batch: tuple[int, int]) -> str:
    inner, outer = batch[0] > 1, batch[1] > 1
    return "both" if inner and outer else "inner" if inner else "outer" if outer else "none"


# ---- products --------------------------------------------------------------------------------------------


def size_class(size: int, tile: int, block: int) -> str:
    """Classify a dimension relative to tile and block, all in elements."""
    if size == 1:
        return "one"
    if size < tile:
        return "part"
    if size > block:
        return "blocks"
    return "ragged" if size % tile else "whole"


def product_type(packet: NpuCommandPacket) -> str:
    """Return the label of the types of a product's operands."""
    return HALF_B if packet.flags & Flags.HALF_B else packet.data_type.label


def product_tiles(dtype: DataType, config: NpuConfig) -> dict[str, tuple[int, int]]:
    """Return tile and block of m, k and n, in elements; a word of the array holds four int8."""
    tile, packed = config.array_rows, 4 if dtype == DataType.INT8 else 1
    return {
        "m": (tile, config.block_m),
        "k": (tile * packed, tile * packed * config.block_k_tiles),
        "n": (tile, tile * config.block_n_tiles),
    }


def packed_depth(depth: int, config: NpuConfig) -> str:
    """Classify the depth of a product with weights in blocks."""
    if depth == BLOCK:
        return "block"
    if depth > TILE_DEPTH * config.block_k_tiles:
        return "panels"
    return "odd" if depth % TILE_DEPTH else "whole"


def taken(config: NpuConfig) -> str:
    """Return what a tile of the array takes of weights in blocks."""
    return "halves" if 4 * config.array_rows < BLOCK else "blocks"


def _steps(flags: int) -> str:
    wanted = zip(
        STEPS, (Flags.USE_ALPHA, Flags.ROW_SCALE, Flags.COL_SCALE, Flags.BIAS, Flags.RELU), strict=True
    )
    return "+".join(name for name, flag in wanted if flags & flag) or "none"


def _places(command: CheckedCommand) -> str:
    places = _batch(command.batch)
    if places != "none":
        return places
    assert command.dst is not None
    operands = (*command.sources[:2], command.dst)
    return "dense" if all(each.row_stride == each.row_bytes for each in operands) else "strided"


def _packed(command: CheckedCommand, config: NpuConfig) -> Sample:
    packet, dst = command.packet, command.dst
    assert dst is not None
    tiles = product_tiles(packet.data_type, config)
    return Sample(
        "packed",
        {
            "format": packet.blocks.label,
            "type": packet.data_type.label,
            "steps": _steps(packet.flags),
            "m": size_class(packet.m, *tiles["m"]),
            "k": packed_depth(packet.k, config),
            "takes": taken(config),
            "n": size_class(packet.n, *tiles["n"]),
            "places": _places(command),
            "align_a": "element" if command.sources[0].address % config.bus_bytes else "beat",
            "align_c": "element" if dst.address % config.bus_bytes else "beat",
        },
    )


def content_samples(
    commands: Sequence[CheckedCommand], contents: Sequence[frozenset[str]]
) -> Iterator[Sample]:
    """Yield the samples of what products with weights in blocks read; `contents` has the kinds of blocks of
    each command, empty for others."""
    for command, kinds in zip(commands, contents, strict=True):
        if kinds:
            yield Sample("packed", {"format": command.packet.blocks.label, "blocks": kinds})


def _packed_neighbours(before: CheckedCommand, after: CheckedCommand) -> Iterator[Sample]:
    """Yield what a product with weights in blocks shares with the command before it, or behind it."""
    products = [each.packet if each.packet.opcode == Opcode.MATMUL else None for each in (before, after)]
    if products[1] is not None and products[1].blocks:
        values: dict[str, Labels] = {"format": products[1].blocks.label}
        written = [_operand_span(before, before.dst)] if before.dst is not None else []
        met = {
            label
            for label, source in zip(("rows_written", "weights_written"), after.sources[:2], strict=True)
            if _meet(written, [_operand_span(after, source)])
        }
        if met:
            yield Sample("packed", {**values, "meets": frozenset(met)})
        if products[0] is not None:
            first = products[0].blocks
            same = "same" if first == products[1].blocks else "other"
            yield Sample("packed", {**values, "beside": same if first else product_type(products[0])})
    if products[0] is not None and products[0].blocks and after.dst is not None:
        weights = _operand_span(before, before.sources[1])
        if _meet([weights], [_operand_span(after, after.dst)]):
            yield Sample("packed", {"format": products[0].blocks.label, "meets": "weights_overwritten"})


def _products(command: CheckedCommand, config: NpuConfig) -> Iterator[Sample]:
    yield _packed(command, config) if command.packet.blocks else _product(command, config)


def _product(command: CheckedCommand, config: NpuConfig) -> Sample:
    packet, flags, dst = command.packet, command.packet.flags, command.dst
    assert dst is not None
    sizes = {"m": packet.m, "k": packet.k, "n": packet.n}
    tiles = product_tiles(packet.data_type, config)
    aligned = {
        f"align_{name}": "element" if operand.address % config.bus_bytes else "beat"
        for name, operand in zip("abc", (*command.sources[:2], dst), strict=True)
    }
    return Sample(
        "matmul",
        {
            "dtype": product_type(packet),
            "out": packet.out_type.name.lower(),
            "layout": "nt"[bool(flags & Flags.TRANS_A)] + "nt"[bool(flags & Flags.TRANS_B)],
            "steps": _steps(flags),
            **{name: size_class(size, *tiles[name]) for name, size in sizes.items()},
            "places": _places(command),
            **aligned,
        },
    )


# ---- copies and their like -------------------------------------------------------------------------------


def row_class(address: int, length: int, bus: int) -> str:
    """Classify a row of `length` bytes at `address` relative to the beats of the bus."""
    if address // PAGE != (address + length - 1) // PAGE:
        return "page"
    if length < bus:
        return "part"
    if length % bus:
        return "ragged"
    return "beat" if length == bus else "beats"


def alignment(address: int, bus: int) -> str:
    """Classify an address by its alignment on the bus."""
    return "odd" if address % 4 else "word" if address % bus else "beat"


def _moves(command: CheckedCommand, config: NpuConfig) -> Iterator[Sample]:
    yield _move(command, config)


def _move(command: CheckedCommand, config: NpuConfig) -> Sample:
    src, dst = command.sources[0], command.dst
    assert dst is not None
    op = _kind(command)
    values: dict[str, Labels] = {
        "op": op,
        "size": row_class(dst.address, dst.row_bytes, config.bus_bytes),
        "src": alignment(src.address, config.bus_bytes),
        "dst": alignment(dst.address, config.bus_bytes),
    }
    if op == "rows":
        values |= {"rows": "one" if dst.rows == 1 else "several", "batch": _batch(command.batch)}
        values |= {"src_rows": _spacing(src), "dst_rows": _spacing(dst)}
    return Sample("moves", values)


def _spacing(operand: MemoryOperand) -> str:
    if operand.row_stride < operand.row_bytes:
        return "again"
    return "dense" if operand.row_stride == operand.row_bytes else "gaps"


# ---- vector programs -------------------------------------------------------------------------------------


def _programs(command: CheckedCommand, config: NpuConfig) -> Iterator[Sample]:
    assert command.vector is not None
    yield _vector(command.vector, config)
    yield from _streams(command.vector, config)
    if command.vector.table_rows:
        yield _scatter(command.vector)


def _vector(command: VectorCommand, config: NpuConfig) -> Sample:
    limits = {"lanes": config.vector_lanes, "chunk": config.vector_length, "row": config.row_elements}
    length = next((name for name, most in limits.items() if command.cols <= most), "long")
    return Sample(
        "vector",
        {
            "inputs": str(sum(each is not None for each in command.inputs)),
            "cols": length,
            "rows": "one" if command.rows == 1 else "several",
            "batch": _batch((command.batch[0] or 1, command.batch[1] or 1)),
            "out_size": str(command.output.size),
            "align": "element" if command.output.address % config.bus_bytes else "beat",
        },
    )


def _streams(command: VectorCommand, config: NpuConfig) -> Iterator[Sample]:
    for number, stream in enumerate(command.inputs):
        if stream is not None:
            aligned = "element" if stream.address % config.bus_bytes else "beat"
            yield Sample(
                "streams",
                {"number": f"s{number}", "size": str(stream.size), "form": _forms(stream), "align": aligned},
            )


def _scatter(command: VectorCommand) -> Sample:
    output, listing = command.output, command.indices
    assert listing is not None
    values: dict[str, Labels] = {
        "index": "int64" if listing.seg_len > 1 else "int32",
        "size": str(output.size),
        "table": "one",
        "rows": "one" if command.rows == 1 else "several",
        "batch": _batch(command.batch),
    }
    if command.table_rows > 1:
        values["table"] = "dense" if output.row_stride == output.segment_bytes else "gaps"
    if command.rows > 1:
        dense = listing.row_stride == listing.segment_bytes
        values["list"] = "dense" if dense else "gaps" if listing.row_stride else "again"
    return Sample("scatters", values)


def _forms(stream: Descriptor) -> frozenset[str]:
    labels = set()
    if stream.bcast:
        labels.add("bcast")
    if stream.segs > 1:
        labels.add("packed" if stream.pack else "segments")
    if stream.passes > 1:
        labels.add("passes")
    return frozenset(labels or {"plain"})


def _nothing(command: CheckedCommand, config: NpuConfig) -> Iterator[Sample]:
    """Yield no sample: the plan counts nothing but the opcode."""
    return iter(())


SAMPLED: Final[Mapping[int, Callable[[CheckedCommand, NpuConfig], Iterator[Sample]]]] = MappingProxyType(
    {
        Opcode.NOP: _nothing,
        Opcode.MATMUL: _products,
        Opcode.ADD_TENSOR: _moves,
        Opcode.MEMCPY: _moves,
        Opcode.VECTOR: _programs,
        Opcode.GATHER: _moves,
        Opcode.LOAD_PROGRAM: _nothing,
        Opcode.SYNC: _nothing,
    }
)
"""What is counted of a command's operands, by opcode."""


# ---- neighbours ------------------------------------------------------------------------------------------

Span = tuple[str, int, int]
""""memory" or "programs", first address, and end (exclusive)."""


def _operand_span(command: CheckedCommand, operand: MemoryOperand) -> Span:
    return "memory", operand.address, operand.address + operand.extent(command.batch)


def _spans(command: CheckedCommand) -> tuple[list[Span], list[Span]]:
    """Return what a command reads and what it writes, each operand from first to last byte, as the device
    sees it."""
    reads = [_operand_span(command, each) for each in command.sources]
    writes = [] if command.dst is None else [_operand_span(command, command.dst)]
    if command.vector is not None:
        reads.append(("programs", command.vector.entry, command.vector.entry + 1))
    if command.packet.opcode == Opcode.LOAD_PROGRAM:
        writes.append(("programs", command.packet.k, command.packet.k + command.packet.m))
    return reads, writes


def _meet(one: Sequence[Span], other: Sequence[Span]) -> bool:
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in one for b in other)


def _touch(one: Sequence[Span], other: Sequence[Span]) -> bool:
    return any(a[0] == b[0] and (a[1] == b[2] or b[1] == a[2]) for a in one for b in other)


def hazards(before: CheckedCommand, after: CheckedCommand) -> frozenset[str]:
    """Return the labels of the axis "hazard" for two consecutive commands."""
    (old_reads, old_writes), (new_reads, new_writes) = _spans(before), _spans(after)
    found = {
        name
        for name, one, other in (
            ("raw", old_writes, new_reads),
            ("war", old_reads, new_writes),
            ("waw", old_writes, new_writes),
        )
        if _meet(one, other)
    }
    if not found and (_touch(old_writes, new_reads + new_writes) or _touch(old_reads, new_writes)):
        found = {"adjacent"}
    return frozenset(found or {"none"})


def _neighbours(before: CheckedCommand, after: CheckedCommand) -> Sample:
    values: dict[str, Labels] = {
        "before": _opcode(before),
        "after": _opcode(after),
        "hazard": hazards(before, after),
    }
    products = before.packet.opcode == after.packet.opcode == Opcode.MATMUL
    if products and not before.packet.blocks and not after.packet.blocks:
        values |= {"before_type": product_type(before.packet), "after_type": product_type(after.packet)}
    return Sample("neighbours", values)
