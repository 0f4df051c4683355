"""What became of the graphs that were compiled."""

import itertools
import sys
import weakref
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from echo_npu.torch.compiled.graph import CompiledGraph

_PACKAGE: Final = Path(__file__).parents[2]
"""Where the runtime lies, whose own functions TorchDynamo meets between graphs."""

_numbers: Final = itertools.count()
_graphs: Final[weakref.WeakValueDictionary[int, CompiledGraph]] = weakref.WeakValueDictionary()
"""Those in use, by number."""


@dataclass(frozen=True, slots=True)
class GraphReport:
    """One compiled graph.

    Attributes:
        name: "echo_npu::forward_0", as profiles show it.
        operators: calls of operators in it, after fusion.
        fused: how many of them are programs that replace several operators.
        parts: recorded programs that it consists of; 1 unless the host takes part.
        commands: of the recorded programs together; 0 before the first recording.
        runs: how often it ran.
        fallbacks: what the host does between the parts: operators on the CPU, values that it reads.
    """

    name: str
    operators: int
    fused: int
    parts: int
    commands: int
    runs: int
    fallbacks: tuple[str, ...]


def remember(graph: CompiledGraph) -> CompiledGraph:
    """Number a graph and list it as long as it is in use."""
    number = next(_numbers)
    graph.name = f"echo_npu::{graph.name}_{number}"
    _graphs[number] = graph
    return graph


def forget() -> None:
    """List only graphs that are compiled from now on: what `torch.compiler.reset()` calls."""
    _graphs.clear()
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None:
        dynamo.counters["graph_break"].clear()
        dynamo.graph_break_reasons.clear()


def compiled_graphs() -> list[GraphReport]:
    """Return a report of each graph that torch.compile made for the device and that is in use."""
    return [
        GraphReport(
            each.name,
            each.operators,
            each.fused,
            len(each.segments),
            sum(
                max((len(record.commands) for record in segment.records.values()), default=0)
                for segment in each.segments
            ),
            each.runs,
            tuple(each.obstacles),
        )
        for each in _graphs.values()
    ]


def graph_breaks() -> dict[str, int]:
    """Return how often TorchDynamo ended a graph at each place, since `torch.compiler.reset()`.

    The keys are reason, file, line and code: "Unsupported Tensor.item() call at model.py:7: y.sum().item()".
    """
    dynamo = sys.modules.get("torch._dynamo.utils")
    found = [] if dynamo is None else dynamo.graph_break_reasons
    return dict(Counter(_place(each) for each in found if str(_PACKAGE) not in each.reason))


def _place(broken: Any) -> str:
    """Return why and where a graph ended: a GraphCompileReason of TorchDynamo."""
    reason = broken.reason.splitlines()[0]
    if not broken.user_stack:
        return str(reason)
    last = broken.user_stack[-1]
    return f"{reason} at {last.filename}:{last.lineno}: {last.line}".rstrip(": ")


def compile_report() -> str:
    """Return a table of the compiled graphs, with fallbacks and graph breaks below."""
    head = f"{'graph':<28} {'operators':>9} {'fused':>6} {'parts':>6} {'commands':>9} {'runs':>6}"
    lines, notes = [head], []
    for each in compiled_graphs():
        figures = f"{each.fused:>6} {each.parts:>6} {each.commands or '-':>9} {each.runs:>6}"
        lines.append(f"{each.name:<28} {each.operators:>9} {figures}")
        notes += [f"{each.name} is divided by {reason}" for reason in each.fallbacks]
    notes += [f"graph break ({n}): {place}" for place, n in graph_breaks().items()]
    return "\n".join([*lines, *notes])
