"""Commands become samples of the plan."""

import random

import numpy as np
import pytest

from echo_npu.commands.builders import load_program_packets, memcpy_packets
from echo_npu.commands.checked import CheckedCommand
from echo_npu.commands.command import as_commands
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import NpuCommandPacket, Opcode, Packet
from echo_npu.commands.vector_command import RowIndices, Stream, vector_command
from echo_npu.spec.data_types import DataType, OutType
from echo_sim.config import load_config
from tb.checking import check, loaded_programs
from tb.functional.plan import PLAN
from tb.functional.samples import (
    Sample,
    alignment,
    command_samples,
    content_samples,
    hazards,
    memory_pattern,
    row_class,
    size_class,
)
from tb.scoreboards.accuracy import block_kinds
from tb.stimulus.programs import ProgramMaker
from tb.testbench import DEFAULT_TIMING

CONFIG = load_config("small")
W, A = 0x1000, 0x1000_1000


def command(*packets: Packet) -> CheckedCommand:
    return check(as_commands(packets)[0], loaded_programs(CONFIG.program_words), blocks=True)


def copy(src: int, dst: int, length: int = 64) -> CheckedCommand:
    return command(NpuCommandPacket(Opcode.MEMCPY, 0, src, 0, dst, m=length))


def of(group: str, *commands: CheckedCommand) -> list[dict[str, object]]:
    found = command_samples(commands, CONFIG, DEFAULT_TIMING)
    return [dict(sample.values) for sample in found if sample.group == group]


@pytest.mark.parametrize(
    ("knobs", "labels"),
    [
        ({}, {"steady"}),
        ({"stall_w": 0.7, "stall_b": 0.3}, {"w"}),
        ({"reorder": 1, "max_reads": 1, "read_latency": 90}, {"reorder", "one_read", "slow"}),
        ({"max_writes": 1, "read_latency": 1}, {"steady", "one_write", "quick"}),
    ],
)
def test_memory_pattern(knobs: dict[str, float], labels: set[str]) -> None:
    assert memory_pattern({**DEFAULT_TIMING, **knobs}) == labels


@pytest.mark.parametrize(
    ("size", "label"), [(1, "one"), (2, "part"), (4, "whole"), (5, "ragged"), (16, "whole"), (17, "blocks")]
)
def test_size_class(size: int, label: str) -> None:
    assert size_class(size, 4, 16) == label


@pytest.mark.parametrize(
    ("address", "length", "label"),
    [(0, 7, "part"), (8, 8, "beat"), (3, 8, "beat"), (0, 24, "beats"), (0, 25, "ragged"), (4090, 7, "page")],
)
def test_row_class(address: int, length: int, label: str) -> None:
    assert row_class(address, length, 8) == label


def test_alignment() -> None:
    assert [alignment(address, 8) for address in (16, 20, 22, 17)] == ["beat", "word", "odd", "odd"]


def test_product() -> None:
    options = {"dtype": "int8", "trans_b": True, "out": OutType.OWN, "alpha": 2.0, "bias": True, "irq": True}
    places = {"column_vectors": W + 0x200, "batch": (2, 1), "dst_batch_strides": (64, 0)}
    packets = matmul_packets(W, W + 0x100, A + 4, 5, 16, 1, **options, **places)
    product = command(*packets)
    assert of("matmul", product) == [
        {
            **{"dtype": "int8", "out": "own", "layout": "nt", "steps": "alpha+bias"},
            **{"m": "ragged", "k": "whole", "n": "one", "places": "inner"},
            **{"align_a": "beat", "align_b": "beat", "align_c": "element"},
        }
    ]
    assert of("commands", product) == [{"kind": "matmul", "irq": "irq", "memory": frozenset({"steady"})}]
    strided = command(*matmul_packets(W, W + 0x100, A, 2, 2, 2, row_strides=(64, 0, 0)))
    assert of("matmul", strided)[0]["places"] == "strided"


def test_product_with_weights_in_blocks() -> None:
    """Its sizes, its neighbours, and no sample of the other products."""
    options = {"blocks": "q4_0", "relu": True, "batch": (1, 2), "dst_batch_strides": (0, 256)}
    product = command(*matmul_packets(W, W + 0x1000, A + 4, 5, 96, 1, **options))
    fill, overwrite = copy(A, W + 0x1040), copy(A, W + 0x1000 + 2 * 576 - 1)
    shape = {
        **{"format": "q4_0", "steps": "relu", "m": "ragged", "k": "odd", "n": "one", "places": "outer"},
        **{"type": "fp32", "takes": "halves", "align_a": "beat", "align_c": "element"},
    }
    assert of("packed", fill, product, overwrite) == [
        shape,
        {"format": "q4_0", "meets": frozenset({"weights_written"})},
        {"format": "q4_0", "meets": "weights_overwritten"},
    ]
    assert of("matmul", product) == []
    assert of("packed", product, copy(A, W + 0x1000 + 2 * 576)) == [shape], "behind the last tile"
    other = command(*matmul_packets(W, W + 0x1000, A, 5, 32, 1, blocks="q8_0"))
    plain = command(*matmul_packets(W, W + 0x1000, A, 5, 3, 1, dtype="bf16"))
    beside = [each["beside"] for each in of("packed", plain, other, other, product) if "beside" in each]
    assert beside == ["bf16", "same", "other"]
    assert all("before_type" not in each for each in of("neighbours", plain, other, product))


def test_contents_of_products_with_weights_in_blocks() -> None:
    """The kinds of blocks of all rows; other commands have none."""
    product = command(*matmul_packets(W, W + 0x1000, A, 2, 64, 1, blocks="q4_0"))
    rows = np.ones((2, 64), np.float32)
    rows[0, :32], rows[1, 3] = 0, np.inf
    memory = np.zeros(W + rows.nbytes, np.uint8)
    memory[W:] = rows.view(np.uint8).reshape(-1)
    kinds = block_kinds(product, memory)
    assert kinds == {"zeros", "special", "ordinary"}
    memory[W : W + 4] = (1, 0, 0, 0)
    assert block_kinds(product, memory) == {"subnormal", "special", "ordinary"}
    assert block_kinds(copy(W, A), memory) == frozenset()
    (sample,) = content_samples([copy(W, A), product], [frozenset(), kinds])
    assert sample == Sample("packed", {"format": "q4_0", "blocks": kinds})


def test_moves() -> None:
    assert of("moves", copy(W, A + 1, 9)) == [{"op": "copy", "size": "ragged", "src": "beat", "dst": "odd"}]
    rows = command(*memcpy_packets(W, A, 16, rows=3, row_strides=(4, 20)))
    (values,) = of("moves", rows)
    wanted = {"op": "rows", "rows": "several", "batch": "none", "src_rows": "again", "dst_rows": "gaps"}
    assert values.items() >= wanted.items()


def test_vector() -> None:
    made = vector_command(
        7,
        rows=2,
        cols=40,
        inputs=[Stream(W, bcast=True, seg_len=1), None, Stream(W + 2, size=2, passes=2, row_stride=80)],
        output=Stream(A, row_stride=160),
    )
    run = command(*made.packets())
    assert of("vector", run) == [
        {"inputs": "2", "cols": "row", "rows": "several", "batch": "none", "out_size": "4", "align": "beat"}
    ]
    assert of("streams", run) == [
        {"number": "s0", "size": "4", "form": frozenset({"bcast"}), "align": "beat"},
        {"number": "s2", "size": "2", "form": frozenset({"passes"}), "align": "element"},
    ]


def test_scatters() -> None:
    """A table of one row has no spacing; a list that is not stepped has none either."""

    def scatter(rows: int, output: Stream, indices: RowIndices) -> CheckedCommand:
        made = vector_command(7, rows=rows, cols=40, inputs=[Stream(W)], output=output, indices=indices)
        return command(*made.packets())

    apart = scatter(3, Stream(A, row_stride=168), RowIndices(W + 0x1000, 9, wide=True))
    wanted = {
        "index": "int64",
        "size": "4",
        "table": "gaps",
        "rows": "several",
        "batch": "none",
        "list": "dense",
    }
    assert of("scatters", apart) == [wanted]
    single = scatter(1, Stream(A, size=1), RowIndices(W + 0x1000, 1))
    wanted = {"index": "int32", "size": "1", "table": "one", "rows": "one", "batch": "none"}
    assert of("scatters", single) == [wanted]
    again = scatter(2, Stream(A, size=2, row_stride=80), RowIndices(W + 0x1000, 2, row_stride=0))
    assert of("scatters", again)[0].items() >= {"table": "dense", "list": "again"}.items()
    assert of("vector", again)[0]["inputs"] == "1", "a list of indices is no input"


def test_hazards_of_memory() -> None:
    first = copy(W, A)
    assert hazards(first, copy(A + 63, A + 0x100)) == {"raw"}
    assert hazards(first, copy(A + 0x100, W + 63)) == {"war"}
    assert hazards(first, copy(A + 0x100, A - 63)) == {"waw"}
    assert hazards(first, copy(A, W)) == {"raw", "war"}
    for near in (copy(A + 64, A + 0x100), copy(A + 0x100, A + 64), copy(A + 0x100, W - 64)):
        assert hazards(first, near) == {"adjacent"}
    assert hazards(first, copy(W + 64, A + 0x100)) == {"none"}, "two that read side by side"
    assert hazards(first, copy(W, A + 0x100)) == {"none"}, "two that read the same"
    assert hazards(first, command(NpuCommandPacket(Opcode.SYNC))) == {"none"}


def test_hazards_of_program_memory() -> None:
    load = command(*load_program_packets(W, 4, 10))
    run = command(*vector_command(13, rows=1, cols=1, output=Stream(A)).packets())
    elsewhere = command(*vector_command(20, rows=1, cols=1, output=Stream(A)).packets())
    assert hazards(load, run) == {"raw"}
    assert hazards(run, load) == {"war"}
    assert hazards(load, elsewhere) == {"none"}
    assert hazards(load, command(*load_program_packets(W, 4, 13))) == {"waw"}
    assert hazards(load, command(*load_program_packets(W, 4, 14))) == {"adjacent"}


def test_neighbours() -> None:
    products = [
        command(*matmul_packets(W, W + 64, A + 256 * i, 2, 2, 2, dtype=dtype))
        for i, dtype in enumerate((DataType.BF16, DataType.INT8))
    ]
    assert of("neighbours", *products, copy(W, A)) == [
        {
            **{"before": "matmul", "after": "matmul", "hazard": frozenset({"none"})},
            **{"before_type": "bf16", "after_type": "int8"},
        },
        {"before": "matmul", "after": "copy", "hazard": frozenset({"none"})},
    ]


def test_the_plan_has_all_labels() -> None:
    """The plan has a label for everything that random programs do."""
    groups = {group.name: group for group in PLAN}
    maker = ProgramMaker(random.Random(3), CONFIG)
    commands = [command(*maker.draw([*maker.kinds, maker.vector_case], irq=0.2)) for _ in range(200)]
    found: list[Sample] = list(command_samples(commands, CONFIG, DEFAULT_TIMING))
    assert len(found) > 400
    for group, values in found:
        for axis, labels in values.items():
            for label in labels if isinstance(labels, frozenset) else (labels,):
                assert label in groups[group].axis(axis).labels, f"{group}.{axis}: {label}"
