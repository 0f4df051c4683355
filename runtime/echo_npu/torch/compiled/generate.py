"""Generate the vector program of an expression.

A program without reductions is one loop over the row. Every reduction needs a loop before what uses it; a
later loop reads the streams again and computes again what it needs, except for up to two values that row
registers keep.
"""

from collections.abc import Sequence, Set
from typing import Final

from echo_npu.torch.compiled.expression import REDUCTIONS, Argument, Value, values
from echo_npu.vector.isa import Kind, Operand
from echo_npu.vector.kernels.axes import Axis, Total
from echo_npu.vector.kernels.cast import FROM, TO
from echo_npu.vector.kernels.elementwise import BODIES
from echo_npu.vector.kernels.pointwise import MORE
from echo_npu.vector.program import Builder, Program

_IMMEDIATE: Final = frozenset(("add", "sub", "mul", "minimum", "maximum", "clamp_min", "clamp_max"))
"""Operations of one instruction, which takes a number as its immediate."""

_ROW_REGISTERS: Final = 2


def generate(
    name: str, root: Value, sources: Sequence[str], single: Sequence[bool], target: str, *, kept: bool
) -> Program:
    """Return the program that computes `root`.

    Args:
        sources: the type of each input stream, one of `cast.FROM`.
        single: for each input stream whether it is one element for the whole row.
        target: the output's type, one of `cast.TO`.
        kept: whether row registers hold a row.

    Raises:
        AssemblyError: the expression needs more registers than there are.
    """
    return _Generator(name, root, sources, single, target, kept).build()


class _Generator:
    def __init__(
        self,
        name: str,
        root: Value,
        sources: Sequence[str],
        single: Sequence[bool],
        target: str,
        kept: bool,
    ) -> None:
        self._b = Builder(name)
        self._root = root
        self._sources, self._single, self._target = sources, single, target
        self._levels: dict[Value, int] = {}
        for each in values(root):
            below = max((self._levels[a] for a in each.args if isinstance(a, Value)), default=0)
            self._levels[each] = below + (each.op in REDUCTIONS)
        self._reductions = [each for each in values(root) if each.op in REDUCTIONS]
        self._whole: dict[Value, Operand] = {}  # of the row, in scalar registers
        self._rows: dict[Value, Operand] = {}  # in row registers
        self._loops = max((self._levels[each] for each in self._reductions), default=0)
        self._loops += not root.whole
        self._kept = self._chosen() if kept else []

    def build(self) -> Program:
        b = self._b
        axis = Axis(b)
        for level in range(self._loops):
            self._scalars(level)
            sums = [each for each in self._reductions if self._levels[each] == level + 1]
            last = not self._root.whole and level == self._loops - 1
            totals = [axis.start(*REDUCTIONS[each.op]) for each in sums]
            order = self._order(self._wanted(level), set(self._rows))
            streams = {_stream(each) for each in order if each.op == "load"}
            moved = [b.stream(i) for i in sorted(streams) if not self._single[i]]
            with axis.loop(advance=moved):
                self._loop(order, sums, totals, last=last)
            for each, running in zip(sums, totals, strict=True):
                self._whole[each] = running.result()
        self._scalars(self._loops)
        if self._root.whole:
            value = self._whole[self._root]
            if self._target != "float32":
                TO[self._target](b, value, value)
            axis.store(value)
        return b.build()

    def _scalars(self, level: int) -> None:
        """Compute what is one number for the row and can be computed before loop `level`."""
        for each in values(self._root):
            if each.whole and each not in self._whole and self._levels[each] <= level:
                dst = self._b.scalar()
                self._compute(each, dst, {})
                self._whole[each] = dst

    def _order(self, wanted: Sequence[Value], kept: Set[Value]) -> list[Value]:
        """Return the values of elements that a loop computes, arguments first; some are kept already."""
        found: list[Value] = []
        seen: set[Value] = set()

        def walk(value: Value) -> None:
            if value in seen or value.whole or value in kept:
                return
            seen.add(value)
            for each in value.args:
                if isinstance(each, Value):
                    walk(each)
            found.append(value)

        for each in wanted:
            walk(each)
        return found

    def _chosen(self) -> list[Value]:
        """Return the values worth keeping: computed in one loop and needed in a later one, dearest first."""
        kept: list[Value] = []
        while len(kept) < _ROW_REGISTERS:
            again = self._repeated(kept)
            best = max(again, key=lambda each: again[each], default=None)
            if best is None or again[best] <= 1:
                break
            kept.append(best)
        return kept

    def _repeated(self, kept: Sequence[Value]) -> dict[Value, float]:
        """Return what loops compute again if some values are kept, and what that takes."""
        first: dict[Value, int] = {}
        again: dict[Value, float] = {}
        for level in range(self._loops):
            here = set(kept) & set(first)
            for each in self._order(self._wanted(level), here):
                if first.setdefault(each, level) < level and each.op not in ("load", "mov"):
                    again[each] = sum(_cost(part) for part in self._order([each], here))
        return again

    def _wanted(self, level: int) -> list[Value]:
        """Return the values that loop `level` is for."""
        wanted = [each.args[0] for each in self._reductions if self._levels[each] == level + 1]
        found = [each for each in wanted if isinstance(each, Value)]
        return [*found, self._root] if level == self._loops - 1 and not self._root.whole else found

    def _loop(
        self, order: Sequence[Value], sums: Sequence[Value], totals: Sequence[Total], *, last: bool
    ) -> None:
        b = self._b
        uses: dict[Value, int] = {}
        for each in order:
            for argument in each.args:
                if isinstance(argument, Value):
                    uses[argument] = uses.get(argument, 0) + 1
        for each in sums:
            argument = each.args[0]
            assert isinstance(argument, Value)
            uses[argument] = uses.get(argument, 0) + 1
        held: dict[Value, Operand] = {}

        def used(value: Argument) -> None:
            if isinstance(value, Value) and value in uses:
                uses[value] -= 1
                register = held.get(value)
                if not uses[value] and register is not None and register.kind == Kind.VECTOR:
                    b.free(held.pop(value))

        new_rows: dict[Value, Operand] = {}
        for each in order:
            final = last and each is self._root and not uses.get(each)
            if final and self._target == "float32" and each.op != "load":
                self._compute(each, b.out, held)
            elif each.op == "load" and self._sources[_stream(each)] == "float32":
                held[each] = b.stream(_stream(each))
            else:
                kept = each in self._kept and each not in self._rows
                register = b.row_register() if kept else b.vector()
                if kept:
                    new_rows[each] = register
                self._compute(each, register, held)
                held[each] = register
            if each.op != "load":
                for argument in each.args:
                    used(argument)
            for number, reduction in enumerate(sums):
                if reduction.args[0] is each:
                    totals[number].take(held[each])
                    used(each)
        for number, reduction in enumerate(sums):  # of values from an earlier loop
            argument = reduction.args[0]
            if argument in self._rows or (isinstance(argument, Value) and argument.whole):
                totals[number].take(self._operand(argument, held))
        if last and (self._root in held or self._root in self._rows):
            TO[self._target](b, b.out, self._operand(self._root, held))
        for register in {each for each in held.values() if each.kind == Kind.VECTOR}:
            b.free(register)
        self._rows |= new_rows

    def _operand(self, value: Argument, held: dict[Value, Operand]) -> Operand:
        if not isinstance(value, Value):
            return self._b.constant(float(value))
        for place in (held, self._rows, self._whole):
            if value in place:
                return place[value]
        raise KeyError(value)

    def _compute(self, value: Value, dst: Operand, held: dict[Value, Operand]) -> None:
        """Append what computes a value; a load converts the element."""
        b = self._b
        if value.op == "load":
            number = _stream(value)
            FROM[self._sources[number]](b, dst, b.stream(number))
            return
        body = BODIES.get(value.op) or MORE[value.op]
        if value.op in _IMMEDIATE:
            given = [self._operand(a, held) if isinstance(a, Value) else float(a) for a in value.args]
            body(b, dst, *given)
        else:
            body(b, dst, *(self._operand(each, held) for each in value.args))


def _stream(load: Value) -> int:
    """Return the number of the stream that a load reads."""
    number = load.args[0]
    assert not isinstance(number, Value)
    return int(number)


def _cost(value: Value) -> float:
    """Return how many instructions a value takes, roughly."""
    return {"load": 0.5, "exp": 12, "sigmoid": 20, "tanh": 20, "silu": 20, "gelu": 30, "div": 8}.get(
        value.op, 1
    )
