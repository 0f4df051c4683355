"""What became of the graphs that were compiled."""

import sys
import weakref
from dataclasses import dataclass

from echo_npu.torch.compiled.graph import CompiledGraph

_graphs: list[weakref.ref[CompiledGraph]] = []
_count = 0


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
    global _count
    graph.name = f"echo_npu::{graph.name}_{_count}"
    _count += 1
    _graphs.append(weakref.ref(graph))
    return graph


def forget() -> None:
    """List only graphs that are compiled from now on: what `torch.compiler.reset()` calls."""
    _graphs.clear()
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None:
        dynamo.counters["graph_break"].clear()


def compiled_graphs() -> list[GraphReport]:
    """Return a report of each graph that torch.compile made for the device and that is in use."""
    found = [graph for each in _graphs if (graph := each()) is not None]
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
        for each in found
    ]


def graph_breaks() -> dict[str, int]:
    """Return how often TorchDynamo ended a graph for each reason, since `torch.compiler.reset()`."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dict(dynamo.counters["graph_break"]) if dynamo is not None else {}


def compile_report() -> str:
    """Return a table of the compiled graphs, with fallbacks and graph breaks below."""
    head = f"{'graph':<28} {'operators':>9} {'fused':>6} {'parts':>6} {'commands':>9} {'runs':>6}"
    lines, notes = [head], []
    for each in compiled_graphs():
        figures = f"{each.fused:>6} {each.parts:>6} {each.commands or '-':>9} {each.runs:>6}"
        lines.append(f"{each.name:<28} {each.operators:>9} {figures}")
        notes += [f"{each.name} is divided by {reason}" for reason in each.fallbacks]
    notes += [f"graph break ({n}): {reason.splitlines()[0]}" for reason, n in graph_breaks().items()]
    return "\n".join([*lines, *notes])
