"""Measure the cycles of operations on the RTL: `make bench-ops`.

Each operation runs twice on tensors of a usual size, in the configuration `default` without memory stalls;
the second run, whose programs are loaded, is measured. Cycles are exact: they are compared with the committed
ones in benchmarks/operations.json, from which the table of docs/ops.md follows.

Exit status: 0 as committed; 1 cycles moved.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from rich.console import Console

import echo_npu
from echo_npu.device import Device
from echo_npu.models.report import ProgressBar
from spec.marked_page import replace_part
from tb.committed_cycles import UPDATE_VARIABLE
from tb.repository import ROOT

Shape: TypeAlias = tuple[int, ...]
Run: TypeAlias = Callable[[Device, list[Any]], Any]

CONFIG: Final = "default"
PAGE: Final = ROOT / "docs" / "ops.md"
COMMAND: Final = "make bench-ops UPDATE=1"
COMMITTED: Final = Path(__file__).with_name("operations.json")

MATRIX: Final = (32, 2048)


@dataclass(frozen=True, slots=True)
class TimedOperation:
    """An operation on tensors of fixed shapes.

    Attributes:
        name: as the table shows it.
        shape: of its first operand, as the table shows it.
        inputs: shape of each float32 operand.
        run: the call, of the device and the operands.
    """

    name: str
    shape: str
    inputs: tuple[Shape, ...]
    run: Run

    @property
    def key(self) -> str:
        """Return its name among the committed cycles."""
        return f"{self.name} {self.shape}"


@dataclass(frozen=True, slots=True)
class OperationFigures:
    """What a run took.

    Attributes:
        cycles: BUSY_CYCLES, from the doorbell of its first command until its last byte is written.
        commands: of them.
        beats: of the busier direction of the memory bus.
    """

    cycles: int
    commands: int
    beats: int

    @property
    def bus(self) -> float:
        """Return the share of the cycles in which the busier direction moved a beat."""
        return self.beats / self.cycles


def _on_matrix(name: str, run: Run, operands: int = 1, shape: Shape = MATRIX) -> TimedOperation:
    return TimedOperation(name, str(list(shape)), (shape,) * operands, run)


def _with_row(name: str, run: Run, rows: int = 1) -> TimedOperation:
    return TimedOperation(name, str(list(MATRIX)), (MATRIX, *[(MATRIX[1],)] * rows), run)


OPERATIONS: Final = (
    _on_matrix("`add`, two dense tensors", lambda npu, x: npu.add(x[0], x[1]), 2),
    _on_matrix("`mul`, two tensors", lambda npu, x: npu.mul(x[0], x[1]), 2),
    _with_row("`add`, a row to each row", lambda npu, x: npu.add(x[0], x[1])),
    _on_matrix("`mul` by a number", lambda npu, x: npu.mul(x[0], 0.5)),
    _on_matrix("`relu`", lambda npu, x: npu.relu(x[0])),
    _on_matrix("`clamp`", lambda npu, x: npu.clamp(x[0], -1.0, 1.0)),
    _on_matrix("`div`", lambda npu, x: npu.div(x[0], x[1]), 2),
    _on_matrix("`reciprocal`", lambda npu, x: npu.reciprocal(x[0])),
    _on_matrix("`exp`", lambda npu, x: npu.exp(x[0])),
    _on_matrix("`tanh`", lambda npu, x: npu.tanh(x[0])),
    _on_matrix("`sigmoid`", lambda npu, x: npu.sigmoid(x[0])),
    _on_matrix("`silu`", lambda npu, x: npu.silu(x[0])),
    _on_matrix("`gelu`", lambda npu, x: npu.gelu(x[0])),
    _on_matrix("`cast` to float16", lambda npu, x: npu.cast(x[0], np.float16)),
    _on_matrix("`quantize`", lambda npu, x: npu.quantize(x[0])),
    _on_matrix("`softmax`", lambda npu, x: npu.softmax(x[0])),
    _on_matrix("`softmax`", lambda npu, x: npu.softmax(x[0]), shape=(512, 128)),
    _on_matrix("`softmax`, axis 0", lambda npu, x: npu.softmax(x[0], axis=0), shape=(16, 2, 2048)),
    _on_matrix("`softmax`, `long`", lambda npu, x: npu.softmax(x[0]), shape=(1, 49152)),
    _with_row("`rms_norm`", lambda npu, x: npu.rms_norm(x[0], x[1])),
    _with_row("`layer_norm`", lambda npu, x: npu.layer_norm(x[0], x[1], x[2]), 2),
    _on_matrix("`sum`, last axis", lambda npu, x: npu.sum(x[0], axis=-1)),
    _on_matrix("`sum`, first axis", lambda npu, x: npu.sum(x[0], axis=0)),
    _on_matrix("`argmax`, last axis", lambda npu, x: npu.argmax(x[0])),
    _on_matrix("`top_k`, 8 of each row", lambda npu, x: npu.top_k(x[0], 8)),
    _on_matrix("`softmax_backward`", lambda npu, x: npu.softmax_backward(x[0], x[1]), 2),
    _on_matrix("`silu_backward`", lambda npu, x: npu.silu_backward(x[0], x[1]), 2),
    _on_matrix("`gelu_backward`", lambda npu, x: npu.gelu_backward(x[0], x[1]), 2),
    TimedOperation(
        "`rms_norm_backward`",
        str(list(MATRIX)),
        (MATRIX, MATRIX, MATRIX[1:]),
        lambda npu, x: npu.rms_norm_backward(x[0], x[1], x[2]),
    ),
    _on_matrix(
        "`cross_entropy`", lambda npu, x: npu.cross_entropy(x[0], np.arange(MATRIX[0], dtype=np.int32))
    ),
    _on_matrix("`adamw_step`", lambda npu, x: npu.adamw_step(x[0], x[1], x[2], x[3], step=3), 4),
    TimedOperation(
        "`rope`",
        "[64, 9, 64]",
        ((64, 9, 64), (64, 32), (64, 32)),
        lambda npu, x: npu.rope(x[0], x[1], x[2]),
    ),
    TimedOperation(
        "`attention`, causal, 9 heads, 3 for keys",
        "64 x 64",
        ((64, 9, 64), (64, 3, 64), (64, 3, 64)),
        lambda npu, x: npu.attention(x[0], x[1], x[2], causal=True),
    ),
    _on_matrix(
        "`embedding`, 64 rows",
        lambda npu, x: npu.embedding(x[0], np.arange(64, dtype=np.int32)),
        shape=(64, 576),
    ),
    TimedOperation(
        "`scatter_rows`, 64 rows",
        "[64, 576]",
        ((64, 576), (64, 576)),
        lambda npu, x: npu.scatter_rows(x[0], np.arange(64, dtype=np.int32), x[1]),
    ),
    TimedOperation(
        "`conv2d`, 6 of 5x5",
        "[16, 1, 32, 32]",
        ((16, 1, 32, 32), (6, 1, 5, 5)),
        lambda npu, x: npu.conv2d(x[0], x[1]),
    ),
    _on_matrix("`max_pool2d`, 2x2", lambda npu, x: npu.max_pool2d(x[0], 2), shape=(16, 6, 28, 28)),
    _on_matrix("`transpose`", lambda npu, x: npu.transpose(x[0]), shape=(256, 256)),
)


def measure(device: Device, operation: TimedOperation) -> OperationFigures:
    """Run an operation twice on numbers in [0, 1); return the figures of the second run."""
    rng = np.random.default_rng(0)
    operands = [device.tensor(rng.random(shape, np.float32)) for shape in operation.inputs]
    operation.run(device, operands)
    before = device.counters()
    operation.run(device, operands)
    took = {name: count - before[name] for name, count in device.counters().items()}
    for each in operands:
        each.free()
    return OperationFigures(
        took["busy_cycles"], took["commands"], max(took["read_beats"], took["write_beats"])
    )


def measure_all(device: Device) -> Iterator[tuple[TimedOperation, OperationFigures]]:
    """Measure every operation, with a progress bar."""
    with ProgressBar("operations", len(OPERATIONS)) as bar:
        for operation in OPERATIONS:
            bar.advance(operation.key)
            yield operation, measure(device, operation)


def committed() -> dict[str, OperationFigures]:
    """Return the committed figures of every operation by its key."""
    found: dict[str, OperationFigures] = {}
    for key, figures in json.loads(COMMITTED.read_text(encoding="utf-8")).items():
        found[key] = OperationFigures(**figures)
    return found


def table(figures: Mapping[str, OperationFigures]) -> list[str]:
    """Return the table of the page."""
    rows = [
        f"| {each.name} | {each.shape} | {now.cycles:,} | {now.commands} | {now.bus:.0%} |"
        for each in OPERATIONS
        for now in [figures[each.key]]
    ]
    return [
        "| operation | shape | cycles | commands | bus |",
        "| --- | --- | ---: | ---: | ---: |",
        *rows,
    ]


def main() -> int:
    """Command line entry point; returns the process's exit status."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    console = Console()
    with echo_npu.open("rtlmodel", config=CONFIG) as device:
        measured = {operation.key: figures for operation, figures in measure_all(device)}
    for line in table(measured):
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    if os.environ.get(UPDATE_VARIABLE):
        texts = {key: asdict(each) for key, each in measured.items()}
        COMMITTED.write_text(json.dumps(texts, indent=2) + "\n", encoding="utf-8")
        replace_part(PAGE, COMMAND, table(measured))
    before = committed()
    moved = [key for key, each in measured.items() if before.get(key) != each]
    for key in moved:
        line = f"[bold red]moved:[/] {key}: committed {before.get(key)}, measured {measured[key]}"
        console.print(line, soft_wrap=True)
    if moved:
        console.print(f"On purpose? Then {COMMAND}, and commit what it writes.", soft_wrap=True)
    return 1 if moved else 0


if __name__ == "__main__":
    sys.exit(main())
