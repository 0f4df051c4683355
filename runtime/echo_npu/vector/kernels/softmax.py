"""Programs of softmax."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from math import inf

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels.axes import Axis, variant
from echo_npu.vector.kernels.math import exp, rcp
from echo_npu.vector.kernels.rounding import result
from echo_npu.vector.program import Builder, Program


class Scores:
    """The scores that are exponentiated: `s0 * p0 + s1`, -inf where one is hidden; with `limited`, s1 is the
    number of the last one that is not, for the whole row.

    The scale is applied with the subtraction of the maximum, where it costs nothing. It is applied first if a
    mask is added, or if it is negative: then the greatest score is not that of the greatest element.
    """

    def __init__(
        self,
        b: Builder,
        *,
        scaled: bool = False,
        negative: bool = False,
        causal: bool = False,
        limited: bool = False,
        masked: bool = False,
    ) -> None:
        self._b = b
        self._x, self._mask = b.stream(0), b.stream(1)
        self._scale = b.param(0)
        self._masked = masked
        self._scaled_first = masked or negative
        self._scaled_later = scaled and not self._scaled_first
        self.streams = [self._x, self._mask] if masked else [self._x]
        self._last: Operand | None = b.stream(1) if limited else None
        if causal:
            self._last = b.scalar()
            b.iadd(self._last, b.row, b.param(1))

    def write(self, dst: Operand) -> None:
        """dst = the current scores, before `shift`."""
        b = self._b
        value = self._x
        target = dst if self._last is None else b.vector()
        if self._masked:
            b.fma(target, self._x, self._scale, self._mask)
            value = target
        elif self._scaled_first:
            b.mul(target, self._x, self._scale)
            value = target
        if self._last is None:
            if value is self._x:
                b.mov(dst, value)
            return
        hidden = b.vector()
        b.icmplt(hidden, self._last, b.iota)
        b.sel(dst, hidden, -inf, value)
        b.free(hidden, target)

    def finish(self, maximum: Operand) -> None:
        """Turn the maximum of what `write` gives into what `shift` subtracts."""
        if self._scaled_later:
            self._b.mul(maximum, maximum, self._scale)

    def shift(self, dst: Operand, score: Operand, maximum: Operand) -> None:
        """dst = score - maximum."""
        if self._scaled_later:
            self._b.fms(dst, score, self._scale, maximum)
        else:
            self._b.sub(dst, score, maximum)


class Exponentials:
    """Computes `exp(score - maximum)` of every score and their sum, in two loops; `again` is a third one.

    Args:
        kept: keep the exponentials in a row register; else they are computed again in the third loop.

    Attributes: total (register of the sum).
    """

    def __init__(self, axis: Axis, scores: Scores, *, kept: bool) -> None:
        b = axis.b
        self._axis, self._scores = axis, scores
        self._kept = kept
        self._power = b.row_register() if kept else b.vector()
        self._shifted = b.vector()
        maximum = axis.start("max", -inf)
        with axis.loop(advance=scores.streams):
            scores.write(self._power)
            maximum.take(self._power)
        self._maximum = maximum.result()
        scores.finish(self._maximum)
        total = axis.start("add", 0.0)
        with axis.loop(advance=[] if kept else scores.streams):
            self._exponentiate()
            total.take(self._power)
        self.total = total.result()

    def _exponentiate(self) -> None:
        if not self._kept:
            self._scores.write(self._power)
        self._scores.shift(self._shifted, self._power, self._maximum)
        exp(self._axis.b, self._power, self._shifted)

    @contextmanager
    def again(self) -> Iterator[Operand]:
        """Loop once more; the register that is yielded holds each exponential."""
        with self._axis.loop(advance=[] if self._kept else self._scores.streams):
            if not self._kept:
                self._exponentiate()
            yield self._power


@cache
def softmax(
    *,
    scaled: bool = False,
    negative: bool = False,
    causal: bool = False,
    limited: bool = False,
    masked: bool = False,
    column: bool = False,
    kept: bool = True,
    half: bool = False,
) -> Program:
    """s0 (and s1, the mask) -> the softmax of `s0 * p0 + s1`.

    Args:
        scaled: whether p0 is used; with a mask it always is.
        negative: p0 may be negative.
        causal: element i of row `row` is hidden where i > row + p1 (int32).
        limited: s1 is no mask but one int32 a row; element i is hidden where i > s1. Neither causal nor
            masked.
        column: along the columns; neither causal nor kept.
        kept: keep the exponentials in a row register and read memory once; else three times.
        half: to float16.
    """
    forms = {"scaled": scaled, "negative": negative, "causal": causal, "limited": limited, "masked": masked}
    b = Builder(variant("softmax", **forms, column=column, long=not kept and not column, half=half))
    scores = Scores(b, **forms)
    powers = Exponentials(Axis(b, column=column), scores, kept=kept)
    rcp(b, powers.total, powers.total)
    with powers.again() as power, result(b, half=half) as out:
        b.mul(out, power, powers.total)
    return b.build()
