"""A compiled graph: recorded stretches, and between them the nodes in which the host takes part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from echo_npu.torch.compiled.division import STEPS, Part, divide
from echo_npu.torch.compiled.segment import Segment, on_npu
from echo_npu.torch.devices import OpenDevice, opened


class CompiledGraph:
    """What replaces a graph: a function of its inputs that returns the list of its outputs.

    Args:
        name: for reports and profiles.
        module: the graph, whose operators are native or fall back.
        in_place: whether the graph changes its inputs and nobody else raises their version counters.

    Attributes:
        operators: calls in the graph.
        fused: how many programs replace several operators.
        runs: how often it ran.
    """

    def __init__(self, name: str, module: fx.GraphModule, fused: int = 0, *, in_place: bool = False) -> None:
        self.name = name
        self.operators = sum(node.op == "call_function" for node in module.graph.nodes)
        self.fused = fused
        self.runs = 0
        self._module = module
        nodes = list(module.graph.nodes)
        self._places = [each for each in nodes if each.op == "placeholder"]
        self._constants = {each: _attribute(module, each.target) for each in nodes if each.op == "get_attr"}
        self._returned: Any = nodes[-1].args[0]
        self._hosts: dict[fx.Node, str] = {}
        self._in_place = in_place
        self._changed = {each for node in nodes if node.target in STEPS for each in _nodes_in(node.args[0])}
        self._divide()

    @property
    def segments(self) -> list[Segment]:
        """The stretches that are recorded."""
        return [each for each in self._parts if isinstance(each, Segment)]

    @property
    def obstacles(self) -> list[str]:
        """Why there are several stretches: what the host does between them."""
        return list(dict.fromkeys(self._hosts.values()))

    def __call__(self, *given: Any) -> list[Any]:
        self.runs += 1
        with torch.profiler.record_function(self.name):
            device = _device_of([*given, *self._constants.values()])
            if device is None:
                return _listed(self._module(*given))
            values = {**dict(zip(self._places, given, strict=True)), **self._constants}
            versions = _versions(values) if self._in_place else {}
            for part, ends in zip(self._parts, self._ends, strict=True):
                if isinstance(part, Segment):
                    made = part.run(device, [values[each] for each in part.inputs])
                    values.update(zip(part.outputs, made, strict=True))
                else:
                    self._run_on_host(part, values)
                for each in ends:
                    del values[each]
            self._raise_versions(versions)
            returned = _listed(fx.map_arg(self._returned, values.__getitem__))
            found = {node: why for part in self.segments for node, why in part.obstacles.items()}
            if found:
                self._hosts |= found
                self._divide()
            return returned

    def _run_on_host(self, nodes: Sequence[fx.Node], values: dict[fx.Node, Any]) -> None:
        runner = fx.Interpreter(self._module, garbage_collect_values=False)
        runner.env = values
        for each in nodes:
            values[each] = runner.run_node(each)

    def _raise_versions(self, before: Mapping[fx.Node, tuple[torch.Tensor, int]]) -> None:
        """Raise the version counters of the inputs that a run changes, where it has not done so itself.

        The operators that run one by one in the first run do, and so tell what later runs change; steps of
        optimizers never do.
        """
        raised = {node for node, (tensor, version) in before.items() if tensor._version != version}
        self._changed |= raised
        behind = [tensor for node, (tensor, _) in before.items() if node in self._changed - raised]
        torch.autograd.graph.increment_version(behind)

    def _divide(self) -> None:
        """Find the parts again, now that it is known which nodes need the host."""
        self._parts: list[Part] = divide(self._module, self._hosts)
        last: dict[fx.Node, int] = {}
        for number, part in enumerate(self._parts):
            for each in _used_by(part):
                last[each] = number
        kept = set(_nodes_in(self._returned))
        self._ends: list[list[fx.Node]] = [[] for _ in self._parts]
        for each, number in last.items():
            if each not in kept:
                self._ends[number].append(each)


def _used_by(part: Part) -> Iterable[fx.Node]:
    """Return the nodes whose values a part uses or makes."""
    if isinstance(part, Segment):
        return (*part.inputs, *part.outputs)
    return [used for each in part for used in (each, *each.all_input_nodes)]


def _nodes_in(value: Any) -> list[fx.Node]:
    found: list[fx.Node] = []
    fx.map_arg(value, found.append)
    return found


def _versions(values: Mapping[fx.Node, Any]) -> dict[fx.Node, tuple[torch.Tensor, int]]:
    """Return the tensors among the values, with their version counters."""
    tensors = {node: each for node, each in values.items() if isinstance(each, torch.Tensor)}
    return {node: (each, each._version) for node, each in tensors.items() if not each.is_inference()}


def _attribute(module: fx.GraphModule, name: Any) -> Any:
    found: Any = module
    for each in str(name).split("."):
        found = getattr(found, each)
    return found


def _listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, (tuple, list)) else [made]


def _device_of(values: Sequence[Any]) -> OpenDevice | None:
    """Return the device of all tensors; None if there is none, or if there are several."""
    found = {each.device.index for each in values if on_npu(each)}
    return opened(found.pop()) if len(found) == 1 else None
