"""Measure the elementary functions against float64.

With ECHO_NPU_UPDATE set, the table of docs/numerics.md is written.

Each function gets 2^24 arguments, one from each of as many equal parts of all bit patterns (so every
exponent, both signs, subnormals, infinities and NaN), 2^21 more of moderate size, and corner cases. The
functional model computes them like the device. Fails if an error exceeds the bound in
echo_npu.reference.elementwise.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

import echo_npu
from echo_npu.reference.elementwise import EXACT_TRIGONOMETRY, F64, FUNCTIONS, POWER_ULP, allowed, ulp_error
from echo_sim.numerals import Whole
from spec.marked_page import replace_part
from tb.committed_cycles import UPDATE_VARIABLE
from tb.repository import ROOT

PAGE = ROOT / "docs" / "numerics.md"
COMMAND = "make numerics UPDATE=1"

BLOCK = 1 << 20
EXPONENTS = (-3.0, -1.5, -0.37, 1 / 3, 0.75, 2.4, 7.0, 33.0, -88.0)

F32: TypeAlias = NDArray[np.float32]
Call: TypeAlias = Callable[[F32], F32]

CORNERS = np.array(
    [*np.ldexp(1.0, [-149, -127, -126, -24, -1, 0, 1, 20, 23, 127]), 0.0, 88.72284, 104.0, np.inf, np.nan],
    dtype=np.float32,
)


@dataclass
class Worst:
    """Largest error so far, in ulp, with its argument; `exceeded` counts results outside the bound."""

    ulp: float = 0.0
    argument: float = 0.0
    exceeded: int = 0

    def take(self, x: F32, error: F64, bound: F64) -> None:
        if error.size:
            at = int(np.argmax(error))
            if error[at] > self.ulp:
                self.ulp, self.argument = float(error[at]), float(x[at])
            self.exceeded += int(np.count_nonzero(error > bound))


def arguments(count: int) -> Iterator[F32]:
    """Yield blocks of arguments: `count` spread over all bit patterns, then moderate ones, then corners."""
    rng = np.random.default_rng(0)
    width = 2**32 // count
    for start in range(0, count, BLOCK):
        parts = np.arange(start, start + min(BLOCK, count - start), dtype=np.uint64) * np.uint64(width)
        yield (parts + rng.integers(0, width, parts.size, dtype=np.uint64)).astype(np.uint32).view(np.float32)
    for _ in range(max(1, count // 8 // BLOCK)):
        exponents = rng.uniform(-10, 8, min(BLOCK, count))
        yield np.asarray(np.exp2(exponents) * rng.choice([-1, 1], exponents.size), dtype=np.float32)
    bits = CORNERS.view(np.uint32)
    beside = np.concatenate([bits - (bits > 0), bits, bits + 1]).astype(np.uint32).view(np.float32)
    yield np.concatenate([beside, -beside])


def measure(
    title: str, call: Call, truth: Callable[[F64], F64], bound: Callable[[F32], F64], count: int
) -> tuple[Worst, Worst]:
    """Return the worst errors up to abs(x) = 32768, and beyond."""
    near, far = Worst(), Worst()
    begin, done = time.monotonic(), 0
    for x in arguments(count):
        result = call(x)
        with np.errstate(all="ignore"):
            error = ulp_error(result, truth(x.astype(np.float64)))
        beyond = np.abs(x) > EXACT_TRIGONOMETRY
        limit = bound(x)
        near.take(x[~beyond], error[~beyond], limit[~beyond])
        far.take(x[beyond], error[beyond], limit[beyond])
        done += x.size
        progress(f"{title}: {done >> 10} Ki arguments")
    progress("")
    worst = max(near.ulp, far.ulp)
    print(f"{title}: {worst:.3f} ulp, {done} arguments, {time.monotonic() - begin:.0f} s", flush=True)
    return near, far


def progress(text: str) -> None:
    """Print a line that the next one replaces, on a terminal only."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="", flush=True)


def row(title: str, bound: float, worst: Worst) -> str:
    """Return a line of the table."""
    return f"| {title} | {bound:g} | {worst.ulp:.3f} | {worst.argument:.9g} |"


def table(count: int) -> tuple[list[str], int]:
    """Return the lines of the table, and the number of results outside their bounds."""
    lines = ["| function | bound, ulp | worst, ulp | at |", "| --- | --- | --- | --- |"]
    exceeded = 0
    with echo_npu.open("cmodel") as npu:
        for name, function in FUNCTIONS.items():
            title = f"`{name}`" if name != "gelu_tanh" else '`gelu`, `approximate="tanh"`'
            call = partial(npu.gelu, approximate="tanh") if name == "gelu_tanh" else getattr(npu, name)
            near, far = measure(name, call, function.truth, partial(allowed, name), count)
            exceeded += near.exceeded + far.exceeded
            if name in ("sin", "cos"):
                limit = f"{EXACT_TRIGONOMETRY:.0f}"
                lines.append(row(f"{title}, abs(x) up to {limit}", function.ulp, near))
                lines.append(row(f"{title}, abs(x) from there to 2^20", function.ulp + 1, far))
            else:
                lines.append(row(title, function.ulp, max(near, far, key=lambda each: each.ulp)))
        for exponent in EXPONENTS:
            rounded = float(np.float32(exponent))
            near, far = measure(
                f"pow {exponent:.3g}",
                partial(npu.pow, exponent=exponent),
                partial(_power, rounded),
                _power_bound,
                count // 4,
            )
            exceeded += near.exceeded + far.exceeded
            worst = max(near, far, key=lambda each: each.ulp)
            lines.append(row(f"`pow`, exponent {exponent:.3g}", POWER_ULP, worst))
    return lines, exceeded


def _power(exponent: float, x: F64) -> F64:
    return np.power(x, exponent)


def _power_bound(x: F32) -> F64:
    return np.full(x.shape, POWER_ULP)


def main() -> int:
    """Command line entry point; returns the process's exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--log2-count", type=Whole(0, 32), default=24, help="arguments of a function (default: 24)"
    )
    options = parser.parse_args()
    lines, exceeded = table(1 << options.log2_count)
    if os.environ.get(UPDATE_VARIABLE):
        replace_part(PAGE, COMMAND, lines)
    print("\n".join(lines))
    if exceeded:
        print(f"{exceeded} results are outside of their bounds", file=sys.stderr)
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
