"""Divide a graph into stretches that are recorded, and nodes in which the host takes part."""

from __future__ import annotations

import operator
from collections.abc import MutableMapping, Sequence
from enum import Enum, auto
from typing import Any, Final, TypeAlias

import torch
from torch import fx

from echo_npu.torch.compiled.segment import Segment

Part: TypeAlias = Segment | list[fx.Node]
"""What is recorded, or nodes that run one by one."""

_aten: Final = torch.ops.aten

STEPS: Final = frozenset(
    function
    for name in ("_fused_adam_", "_fused_adamw_", "_fused_sgd_")
    for function in (getattr(torch, name), getattr(_aten, name).default, getattr(_aten, name).tensor_lr)
)
"""Operators that may read numbers on the CPU: a recorded run reads them again."""

_CONSTANTS: Final = frozenset(
    (
        _aten.full.default,
        _aten.scalar_tensor.default,
        _aten.lift_fresh_copy.default,
        _aten._to_copy.default,
        _aten.expand.default,
        _aten.view.default,
    )
)
"""Operators whose results are the same in every run if their operands are."""

_NUMBERS: Final = frozenset((_aten.sym_size.int, _aten.sym_stride.int, _aten.sym_storage_offset.default))
"""Operators that only look at shapes."""


class _Kind(Enum):
    RECORDED = auto()
    CONSTANT = auto()
    """On the CPU, the same in every run."""
    HOST = auto()
    """Only on the CPU, or without tensors."""
    CROSSING = auto()
    """Of the device and of the host."""


def divide(module: fx.GraphModule, hosts: MutableMapping[fx.Node, str]) -> list[Part]:
    """Return the parts of a graph in the order in which they run.

    What runs on the CPU alone runs before the stretch in whose middle it stands.

    Args:
        hosts: nodes that are known to need the host, with the reasons; others that do are added.
    """
    kinds: dict[fx.Node, _Kind] = {}
    parts: list[Sequence[fx.Node] | list[fx.Node]] = []
    recorded: set[int] = set()
    stretch: list[fx.Node] = []
    used: set[fx.Node] = set()

    def close() -> None:
        if stretch:
            recorded.add(len(parts))
            parts.append(tuple(stretch))
            stretch.clear()
            used.clear()

    def on_host(node: fx.Node) -> None:
        if not parts or len(parts) - 1 in recorded:
            parts.append([])
        last = parts[-1]
        assert isinstance(last, list)
        last.append(node)

    for node in module.graph.nodes:
        kind = kinds[node] = _kind(node, kinds, hosts)
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        if kind is _Kind.RECORDED:
            stretch.append(node)
            used.update((node, *node.all_input_nodes))
            continue
        if kind is _Kind.CROSSING or not used.isdisjoint(node.all_input_nodes):
            close()
        on_host(node)
    close()
    return [_segment(module, part) if number in recorded else list(part) for number, part in enumerate(parts)]


def _segment(module: fx.GraphModule, nodes: Sequence[fx.Node]) -> Segment:
    inside = set(nodes)
    inputs = dict.fromkeys(each for node in nodes for each in node.all_input_nodes if each not in inside)
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    return Segment(module, nodes, list(inputs), outputs)


def _kind(node: fx.Node, kinds: MutableMapping[fx.Node, _Kind], hosts: MutableMapping[fx.Node, str]) -> _Kind:
    if node in hosts:
        return _Kind.CROSSING
    made = _devices(_shown(node))
    if node.op in ("placeholder", "get_attr", "output"):
        if made != {"cpu"}:
            return _Kind.RECORDED
        return _Kind.CONSTANT if node.op == "get_attr" else _Kind.HOST
    given = node.all_input_nodes
    taken = set().union(*(_devices(_shown(each)) for each in given))
    if node.target is operator.getitem:
        return kinds[given[0]]
    if node.target in _NUMBERS or not made | taken:
        inside = any(kinds[each] is _Kind.RECORDED and each.op != "placeholder" for each in given)
        return _Kind.RECORDED if inside else _Kind.HOST
    if "echo_npu" not in made | taken:
        constant = node.target in _CONSTANTS and all(kinds[each] is _Kind.CONSTANT for each in given)
        return _Kind.CONSTANT if constant else _Kind.HOST
    changing = [
        each for each in given if "cpu" in _devices(_shown(each)) and kinds[each] is not _Kind.CONSTANT
    ]
    if "cpu" in made or (changing and node.target not in STEPS):
        hosts[node] = f"{_name(node)} {'to' if 'cpu' in made else 'of a tensor on'} the CPU"
        return _Kind.CROSSING
    return _Kind.RECORDED


def _shown(node: fx.Node) -> Any:
    """Return the fake value of a node."""
    return node.meta.get("val", node.meta.get("example_value"))


def _devices(value: Any) -> set[str]:
    if isinstance(value, torch.Tensor):
        return {value.device.type}
    if isinstance(value, (list, tuple)):
        return set().union(*map(_devices, value))
    return set()


def _name(node: fx.Node) -> str:
    schema = getattr(node.target, "_schema", None)
    return str(getattr(node.target, "__name__", node.target) if schema is None else schema.name)
