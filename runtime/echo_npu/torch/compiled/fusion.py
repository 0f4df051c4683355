"""Replace chains of operators, with the reductions they feed, by generated programs."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import fx

from echo_npu.commands.vector_command import MAX_SEGMENTS
from echo_npu.ops.broadcast import elementwise_commands
from echo_npu.ops.copy import copy_commands
from echo_npu.ops.methods import OpMethods
from echo_npu.ops.rows import line, row_commands, row_fits, single
from echo_npu.tensor import DeviceTensor
from echo_npu.torch.compiled.expression import REDUCTIONS, Argument, Value, values
from echo_npu.torch.compiled.generate import generate
from echo_npu.torch.compiled.rules import CHEAP, COMPARISONS, FREE, KEEPING, ROWS, RULES
from echo_npu.torch.launch import launch
from echo_npu.torch.ops.common import Tensors, rounded
from echo_npu.torch.storages import dense, empty_strided
from echo_npu.torch.types import FLOATS, WORDS
from echo_npu.vector.program import AssemblyError

_STREAMS: Final = 4
_MOST: Final = 40
"""Operators that one program replaces."""

_aten: Final = torch.ops.aten


class Fused(ABC):
    """A function of tensors that a graph calls as one operator; its result has the layout of `out`.

    Attributes: __name__ (shows what it computes).
    """

    def __init__(self, name: str, out: Any) -> None:
        self.__name__ = name
        self.__module__ = "echo_npu"
        self._shape, self._strides, self._dtype = tuple(out.shape), tuple(out.stride()), out.dtype

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        out = empty_strided(self._shape, self._strides, dtype=self._dtype, device=inputs[0].device)
        launch(f"echo_npu::{self.__name__}", _build, (out,), inputs, (self,))
        return out

    @abstractmethod
    def build(self, npu: OpMethods, out: DeviceTensor, inputs: Tensors) -> None:
        """Submit the commands that compute `out`."""


class FusedOperator(Fused):
    """A generated program as a function of tensors.

    Attributes:
        __name__: shows what it computes.
        operators: how many operators it replaces.
    """

    def __init__(
        self, root: Value, domain: Sequence[int], inputs: Sequence[Any], out: Any, operators: int
    ) -> None:
        self.root = root
        self.operators = operators
        self.sources = tuple(WORDS[each.dtype] for each in inputs)
        self.single = tuple(not each.dim() or each.shape[-1] == 1 for each in inputs)
        self.target = WORDS[out.dtype]
        self.reduces = any(each.op in REDUCTIONS for each in values(root))
        self._cols = int(domain[-1])
        self._leading = tuple(domain[:-1])
        super().__init__(_name(root, self), out)
        self.program(kept=True)

    def program(self, *, kept: bool) -> Any:
        """Return the program; AssemblyError if it needs too many registers."""
        single = self.single if self.reduces else (False,) * len(self.sources)
        name = self.__name__ if kept or not self.reduces else f"{self.__name__}_long"
        return generate(name, self.root, self.sources, single, self.target, kept=kept)

    def build(self, npu: OpMethods, out: DeviceTensor, inputs: Tensors) -> None:
        if not self.reduces:
            # Operands may all be smaller than the result, where the chain expands them.
            npu.execute(elementwise_commands(npu, self.program(kept=False), inputs, out))
            return
        cols, leading = self._cols, self._leading
        lines = [line(_dense(npu, each, cols), leading, cols) for each in inputs]
        if self.root.whole:
            strides = out.strides[: len(leading)]
            target = single(DeviceTensor.borrow(npu, out.ptr, leading, strides, out.dtype), leading)
        else:
            target = line(out, leading, cols)
        program = self.program(kept=row_fits(npu, cols))
        npu.execute(row_commands(npu, program, leading, lines, target, cols=cols))


class FusedJoin(Fused):
    """Joins tensors along an axis; those that operators make are written to their place at once.

    Args:
        axis: along which the parts lie.
        out: the fake result.
        parts: for each part its operator, if it has one, and its number of inputs and elements of the axis.
    """

    def __init__(self, axis: int, out: Any, parts: Sequence[tuple[FusedOperator | None, int, int]]) -> None:
        self.axis = axis
        self._parts = tuple(parts)
        super().__init__(
            "_".join(["join", *(each.__name__ for each, _, _ in parts if each is not None)]), out
        )

    def build(self, npu: OpMethods, out: DeviceTensor, inputs: Tensors) -> None:
        start, taken = 0, 0
        for made, count, size in self._parts:
            place = out[(*(slice(None),) * self.axis, slice(start, start + size))]
            given = inputs[taken : taken + count]
            if made is None:
                npu.execute(copy_commands(given[0], place))
            else:
                made.build(npu, place, given)
            start, taken = start + size, taken + count


def _build(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], fused: Fused) -> None:
    fused.build(npu, outputs[0], inputs)


def _dense(npu: OpMethods, x: DeviceTensor, cols: int) -> DeviceTensor:
    """Return a tensor whose last axis a row can hold: itself, or a copy."""
    if x.ndim and x.shape[-1] > MAX_SEGMENTS and x.strides[-1] != x.dtype.itemsize:
        made: DeviceTensor = npu.contiguous(x)
        return made
    return x


def _name(root: Value, fused: FusedOperator) -> str:
    """Return a name of the operations, and digits that tell apart what they are applied to."""
    numbers: dict[Value, int] = {}
    words, text = [], [str((fused.sources, fused.single, fused.target))]
    for each in values(root):
        numbers[each] = len(numbers)
        args = [numbers[a] if isinstance(a, Value) else repr(float(a)) for a in each.args]
        text.append(f"{each.op}{args}")
        if each.op != "load":
            words.append(each.op)
    shown = words if len(words) < 7 else [*words[:3], "to", *words[-3:]]
    digits = hashlib.sha256(" ".join(text).encode()).hexdigest()[:6]
    return f"fused_{'_'.join(shown)}_{digits}"


# --- choose what to fuse ------------------------------------------------------------------------------------


def fuse(module: fx.GraphModule) -> int:
    """Fuse what can be fused in a graph, in place, and return the number of generated programs."""
    count = 0
    claimed: set[fx.Node] = set()
    for node in reversed(list(module.graph.nodes)):
        if node.target is _aten.cat.default:
            count += _fuse_join(module, node, claimed)
            continue
        if node in claimed or not _fusible(node) or node.target in FREE:
            continue
        group = _Group(node, claimed)
        made = group.grown()
        if made is None:
            continue
        claimed |= group.members
        with module.graph.inserting_before(node):
            replacement = module.graph.call_function(made, tuple(group.inputs))
        replacement.meta = dict(node.meta)
        node.replace_all_uses_with(replacement)
        count += 1
    module.graph.eliminate_dead_code()
    module.recompile()
    return count


def _fuse_join(module: fx.GraphModule, node: fx.Node, claimed: set[fx.Node]) -> int:
    """Let the parts of a joined tensor be computed in their place; return the number of programs."""
    out = _tensor(node)
    listed: Any = node.args[0]
    axis: Any = node.args[1] if len(node.args) > 1 else 0
    given = [_tensor(each) for each in listed]
    if out is None or not isinstance(axis, int) or not dense(out):
        return 0
    if any(each is None or each.dim() != out.dim() or each.dtype != out.dtype for each in given):
        return 0
    axis %= out.dim()
    parts: list[tuple[FusedOperator | None, int, int]] = []
    inputs: list[fx.Node] = []
    for part, shown in zip(listed, given, strict=True):
        made = None
        if part not in claimed and len(part.users) == 1 and _fusible(part) and part.target not in FREE:
            group = _Group(part, claimed)
            made = group.grown(least=1)
        if made is not None:
            claimed |= group.members
        taken = [part] if made is None else group.inputs
        parts.append((made, len(taken), shown.shape[axis]))
        inputs += taken
    programs = sum(made is not None for made, _, _ in parts)
    if programs:
        joined = FusedJoin(axis, out, parts)
        with module.graph.inserting_before(node):
            replacement = module.graph.call_function(joined, tuple(inputs))
        replacement.meta = dict(node.meta)
        node.replace_all_uses_with(replacement)
    return programs


def _tensor(node: Any) -> Any:
    """Return the fake tensor of a node; None for anything else, or where a size is not known."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.device.type != "echo_npu":
        return None
    known = all(isinstance(each, int) for each in (*value.shape, *value.stride()))
    return value if known and value.numel() else None


def _constant(node: fx.Node) -> float | None:
    """Return the number of a tensor without dimensions that a graph makes of it."""
    if node.op != "call_function":
        return None
    if node.target is _aten.full.default and not node.args[0] and isinstance(node.args[1], (int, float)):
        return float(node.args[1])
    if node.target is _aten.scalar_tensor.default and isinstance(node.args[0], (int, float)):
        return float(node.args[0])
    return None


def _fusible(node: Any) -> bool:
    """Return whether a program can compute a node, alone or with others."""
    value = _tensor(node)
    if value is None or node.op != "call_function" or (node.target not in RULES and node.target not in ROWS):
        return False
    if not value.dim() or (value.dtype not in FLOATS and value.dtype != torch.bool):
        return False
    if not dense(value) and node.target is not _aten.expand.default:
        return False
    sources = [each for each in map(_tensor, node.all_input_nodes) if each is not None]
    moved = node.target in FREE and all(each.dtype == torch.bool for each in sources)
    if value.dtype == torch.bool and node.target not in COMPARISONS and not moved:
        return False  # only comparisons give 0.0 and 1.0, which is what a bool is as a number
    floats = value.dtype in FLOATS
    for each in node.all_input_nodes:
        given = _tensor(each)
        if _constant(each) is not None:
            continue
        if given is None or (given.dtype not in FLOATS and given.dtype != torch.bool):
            return False
        floats = floats or given.dtype in FLOATS
    if not floats:
        return False
    if any(isinstance(a, (torch.SymInt, torch.SymFloat, complex)) for a in node.args):
        return False
    if node.target in ROWS:
        axis = node.args[1] if len(node.args) > 1 else None
        listed = [axis] if isinstance(axis, int) else axis
        given = _tensor(node.all_input_nodes[0])
        if not listed or len(listed) != 1 or given.shape[-1] < 2 or given.dtype not in FLOATS:
            return False
        return bool(listed[0] % given.dim() == given.dim() - 1)
    return True


def _broadcasts(shape: Sequence[int], domain: Sequence[int]) -> bool:
    """Return whether a tensor of a shape extends to a domain."""
    pairs = zip(reversed(shape), reversed(domain), strict=False)
    return len(shape) <= len(domain) and all(size in (1, whole) for size, whole in pairs)


def _keeps(node: fx.Node) -> bool:
    """Return whether a reduction leaves the axis it reduces."""
    return bool(_tensor(node).dim() == _tensor(node.all_input_nodes[0]).dim())


class _Group:
    """Operators that one program computes: a node, and those before it that nothing else needs.

    Attributes:
        members, inputs: of the graph.
    """

    def __init__(self, root: fx.Node, claimed: set[fx.Node]) -> None:
        self.root = root
        self.members = {root}
        self.inputs: list[fx.Node] = []
        self._claimed = claimed
        self._order = [root]
        reduces = root.target in ROWS and root.target not in KEEPING
        shown = _tensor(root.all_input_nodes[0] if reduces else root)
        self._domain = tuple(shown.shape)
        self._fixed = root.target in ROWS

    def grown(self, least: int = 2) -> FusedOperator | None:
        """Return the program of as many operators as it can hold; None for fewer than `least`."""
        grows = True
        while grows and len(self._order) < _MOST:
            taken = [each for each in self._outside() if self._takes(each)]
            grows = bool(taken)
            for node in taken:
                self.members.add(node)
                self._order.append(node)
        while len(self._order) >= least:
            made = self._made(least)
            if made is not None:
                return made
            self.members.remove(self._order.pop())
        return None

    def _made(self, least: int) -> FusedOperator | None:
        if sum(each.target not in FREE for each in self.members) < least:
            return None
        self.inputs = self._outside()
        if len(self.inputs) > _STREAMS:
            return None
        if not any(each.target in ROWS for each in self.members):
            self._fixed = False  # what reduced did not fit: without it there are no rows
        memo: dict[fx.Node, Value] = {}
        root = self._value(self.root, memo)
        if root is None or root.op == "load":
            return None
        given = [_tensor(each) for each in self.inputs]
        try:
            return FusedOperator(root, self._domain, given, _tensor(self.root), len(self.members))
        except AssemblyError:
            return None

    def _takes(self, node: fx.Node) -> bool:
        """Return whether a node can be computed along, and extend the domain to a reduction's."""
        if (
            node in self._claimed
            or not _fusible(node)
            or any(each not in self.members for each in node.users)
        ):
            return False
        shape = tuple(_tensor(node).shape)
        row = (*self._domain[:-1], 1)
        if node.target in ROWS and node.target not in KEEPING:
            if not _keeps(node):
                return False
            domain = tuple(_tensor(node.all_input_nodes[0]).shape)
            if domain[:-1] != self._domain[:-1]:
                return False
            if self._domain == row and not self._fixed:
                self._domain = domain
            self._fixed = self._fixed or domain == self._domain
            return domain == self._domain
        if node.target in KEEPING:
            self._fixed = self._fixed or shape == self._domain
            return shape == self._domain
        if shape == self._domain:
            return True
        if node.target in CHEAP and shape[-1:] == self._domain[-1:] and shape[-1] > 1:
            return _broadcasts(shape, self._domain)
        return shape == row and (self._fixed or self._reduced(node))

    def _reduced(self, node: fx.Node) -> bool:
        """Return whether a node with one element a row comes of a reduction of rows of the domain."""
        for _ in range(8):
            if node.target in ROWS:
                return tuple(_tensor(node.all_input_nodes[0]).shape) == self._domain
            listed = [each for each in node.all_input_nodes if _fusible(each)]
            if not listed:
                return False
            node = listed[0]
        return False

    def _outside(self) -> list[fx.Node]:
        found: list[fx.Node] = []
        for node in self._order:
            for each in node.all_input_nodes:
                if each not in self.members and each not in found and _constant(each) is None:
                    found.append(each)
        return found

    def _value(self, node: Any, memo: dict[fx.Node, Value]) -> Any:
        """Return the value of a node, or of a number."""
        if not isinstance(node, fx.Node):
            return node
        number = _constant(node)
        if number is not None:
            return number
        if node not in memo:
            if node not in self.members:
                shape = _tensor(node).shape
                whole = bool(self._fixed and (not len(shape) or shape[-1] == 1))
                memo[node] = Value("load", (self.inputs.index(node),), whole)
            else:
                made = self._applied(node, memo)
                if made is None:
                    return None
                memo[node] = made
        return memo[node]

    def _applied(self, node: fx.Node, memo: dict[fx.Node, Value]) -> Value | None:
        target: Any = node.target
        args: list[Argument] = [self._value(each, memo) for each in node.args]
        if any(each is None and node.args[i] is not None for i, each in enumerate(args)):
            return None
        if target in COMPARISONS:
            given: list[Any] = [each if _tensor(each) is None else _tensor(each) for each in node.args]
            kind = torch.result_type(*given)
            args = [rounded(each, kind) for each in args]
        if target in ROWS:
            return ROWS[target](args[0], self._domain[-1], *args[1:])
        options = (
            {} if target in FREE else {key: self._value(each, memo) for key, each in node.kwargs.items()}
        )
        return RULES[target](*args, **options)
