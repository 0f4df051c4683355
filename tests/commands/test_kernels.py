"""Every program of the kernel library on the device: the bits of the functional model, on rows of all sizes.

What the programs compute is judged where their operations are tested; here it is that the device computes it.
"""

import dataclasses
import importlib
import inspect
import itertools
import pkgutil
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.packets import Packet
from echo_npu.commands.vector_command import Stream
from echo_npu.spec.status import State
from echo_npu.vector import kernels
from echo_npu.vector.kernels import (
    cast,
    codes,
    counting,
    elementwise,
    fill,
    losses,
    norm,
    optimizers,
    places,
    pointwise,
    pool,
    reduce,
    rope,
    selection,
    softmax,
    training,
    wide,
)
from echo_npu.vector.kernels.library import kernel_library
from echo_npu.vector.kernels.math import power_parameters
from echo_npu.vector.program import Program
from tb.testbench import NpuTestbench, npu_test

SPECIAL = np.array([0.0, -0.0, 1e-45, -1e-40, 1.0, 88.7, -104.0, 3e38, np.inf, -np.inf, np.nan], np.float32)

ELEMENT_BYTES = {"float16": 2, "bfloat16": 2, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}
OUTPUTS = {1: "int8", 2: "half", 4: "row"}


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A program and the streams of a command that runs it.

    Attributes:
        inputs: a word for each stream: "row", one of its own for each row; "shared", the same row for all;
            "scale" and "index", one element for each row; "word", an int32 of any size; or a type of `cast`.
        output: "row"; "one" element; "two" and "three" segments of one element; "halves", two segments of a
            row each; "column", a vector register of results, each of `repeats` elements, and "column all",
            such a register for each element; "int8", elements of one byte; "half", of two.
        kept: the row must fit a row register.
    """

    program: Program
    inputs: tuple[str, ...]
    output: str = "row"
    params: tuple[float, ...] = ()
    kept: bool = False

    @property
    def column(self) -> bool:
        return self.output == "column"


def operands(function: Callable[..., None]) -> int:
    """How many sources an elementwise operation has: its positional parameters but the first two."""
    parameters = inspect.signature(function).parameters.values()
    return sum(each.kind != inspect.Parameter.KEYWORD_ONLY for each in parameters) - 2


def elementwise_kernels() -> Iterator[Kernel]:
    """Each operation with streams only, and with parameters as its last operands; powers of one exponent."""
    for name, function in elementwise.BODIES.items():
        if name == "power":
            continue
        count = operands(function)
        for params in range(min(count, 3)):
            letters = "s" * (count - params) + "p" * params
            program = elementwise.elementwise(name, letters)
            yield Kernel(program, ("row",) * (count - params), params=(-0.5, 1.25))
    for exponent in (2.5, -3.0, 7.0, -0.3):
        yield Kernel(elementwise.elementwise("power", "spppp"), ("row",), params=power_parameters(exponent))


def pointwise_kernels() -> Iterator[Kernel]:
    """Each function with streams only, and with parameters as its last operands; each type on each side."""
    for name, function in pointwise.MORE.items():
        count = operands(function)
        for params in range(min(count, 3)):
            letters = "s" * (count - params) + "p" * params
            sources = ("float32",) * (count - params)
            program = pointwise.pointwise(name, letters, sources, "float32")
            yield Kernel(program, ("row",) * len(sources), params=(-0.5, 1.25))
    for source, target in zip(cast.FROM, reversed(cast.TO), strict=True):
        program = pointwise.pointwise("mul", "ss", (source, "float32"), target)
        yield Kernel(program, (source, "row"), OUTPUTS[ELEMENT_BYTES.get(target, 4)])


def integer_kernels() -> Iterator[Kernel]:
    """Each function of words with streams only, and with parameters as its last operands; the small types."""
    for name, function in pointwise.INTEGER_BODIES.items():
        count = operands(function)
        for params in range(min(count, 3)):
            letters = "s" * (count - params) + "p" * params
            program = pointwise.integer(name, letters, ("int32",) * (count - params))
            yield Kernel(program, ("word",) * (count - params), params=(3, -70_000))
    for source in cast.INTEGERS:
        yield Kernel(pointwise.integer("lt", "sp", (source,)), (source,), "int8", (3,))
    for high in (False, True):
        for op in ("max", "min"):
            yield Kernel(wide.extreme(op, high=high), ("word", "word"), "one")


def cast_kernels() -> Iterator[Kernel]:
    """Each pair of types, and quantisation."""
    for source, target in itertools.product(cast.FROM, cast.TO):
        output = OUTPUTS[ELEMENT_BYTES.get(target, 4)]
        yield Kernel(cast.cast(source, target), (source,), output)
    yield Kernel(cast.saturate(), ("row",), "int8")
    yield Kernel(cast.quantize_scales(), ("row",), "one")
    yield Kernel(cast.quantize(), ("row", "scale"), "int8")
    yield Kernel(cast.dequantize(), ("int8", "scale"))


def softmax_kernels() -> Iterator[Kernel]:
    """Every combination of what a softmax can have."""
    for flags in itertools.product((False, True), repeat=6):
        scaled, negative, causal, masked, column, kept = flags
        if column and (causal or kept):
            continue
        program = softmax.softmax(
            scaled=scaled, negative=negative, causal=causal, masked=masked, column=column, kept=kept
        )
        streams = ("row", "row") if masked else ("row",)
        scale = -0.3 if negative else 0.3
        yield Kernel(program, streams, "column all" if column else "row", (scale, 4), kept)

    for scaled, negative, kept in itertools.product((False, True), repeat=3):
        program = softmax.softmax(scaled=scaled, negative=negative, limited=True, kept=kept)
        yield Kernel(program, ("row", "index"), "row", (-0.3 if negative else 0.3,), kept)


def norm_kernels() -> Iterator[Kernel]:
    """Normalisations and their gradients. p0 is epsilon, p1 one part of the row."""
    for kept in (False, True):
        params = (1e-5, 1 / 40)
        for weighted in (False, True):
            weight = ("shared",) if weighted else ()
            yield Kernel(norm.rms_norm(weighted=weighted, kept=kept), ("row", *weight), "row", params, kept)
            for biased in (False, True):
                streams = ("row", *weight, *(("shared",) if biased else ()))
                program = norm.layer_norm(weighted=weighted, biased=biased, kept=kept)
                yield Kernel(program, streams, "row", params, kept)
        for backward in (norm.rms_norm_backward, norm.layer_norm_backward):
            yield Kernel(backward(kept=kept), ("row", "row", "shared"), "row", params, kept)


def reduction_kernels() -> Iterator[Kernel]:
    """Along the row and down the columns."""
    for column in (False, True):
        output = "column" if column else "one"
        for op in ("add", "min", "max"):
            yield Kernel(reduce.reduction(op, column=column), ("row",), output)
        yield Kernel(reduce.mean(column=column), ("row",), output, (37.0,))
        yield Kernel(reduce.argmax(column=column), ("row",), output)
    yield Kernel(reduce.dot_column(), ("row", "row"), "column")
    yield Kernel(selection.next_greatest(), ("row", "scale", "index"), "two", (-16,))
    yield Kernel(selection.greatest_of(), ("row", "word"), "three", (4,))
    yield Kernel(selection.replace_at(), ("row", "scale", "index"))


def training_kernels() -> Iterator[Kernel]:
    """Loss, gradients, optimiser."""
    yield Kernel(training.cross_entropy(), ("row", "index"), "one")
    for kept in (False, True):
        yield Kernel(training.cross_entropy_backward(kept=kept), ("row", "index"), "row", (0.125,), kept)
        for scaled in (False, True):
            program = training.softmax_backward(scaled=scaled, kept=kept)
            yield Kernel(program, ("row", "row"), "row", (0.5,), kept)
    for gradient in (training.silu_backward, training.gelu_backward, training.gelu_tanh_backward):
        yield Kernel(gradient(), ("row", "row"))
    for squared in (False, True):
        yield Kernel(optimizers.moving_average(squared=squared), ("row", "row"), "row", (0.9, 0.1))


def optimizer_kernels() -> Iterator[Kernel]:
    """Steps of the optimizers, in each type."""
    for kind, row in (("float32", "row"), ("bfloat16", "bfloat16"), ("float16", "float16")):
        output = OUTPUTS[ELEMENT_BYTES.get(kind, 4)]
        program = optimizers.adamw_update(kind=kind)
        yield Kernel(program, (row, "row", "row"), output, (0.999, 1.1, 1e-8, 1e-3))
        for decayed in (False, True):
            p = (row,) * decayed
            shared = "shared" if kind == "float32" else row
            numbers = (0.9, 0.1, 0.99, 0.01, 0.03)
            yield Kernel(optimizers.moments(decayed=decayed, kind=kind), (row, shared, *p), "row", numbers)
            numbers = (0.9, 0.1, 0.03)
            yield Kernel(optimizers.momentum(decayed=decayed, kind=kind), (row, row, *p), output, numbers)
            for nesterov in (False, True):
                program = optimizers.sgd_update(decayed=decayed, nesterov=nesterov, kind=kind)
                yield Kernel(program, (row, row, *(row,) * nesterov), output, (-0.1, 0.03, 0.9))


def loss_kernels() -> Iterator[Kernel]:
    """Log-softmax, the negative log-likelihood, normalisation with given figures, running sums."""
    for kept in (False, True):
        yield Kernel(losses.log_softmax(kept=kept), ("row",), kept=kept)
    yield Kernel(losses.log_softmax_backward(), ("row", "row"))
    for weighted, flag in itertools.product((False, True), repeat=2):
        weight = ("shared",) if weighted else ()
        program = losses.picked(weighted=weighted, counted=flag)
        yield Kernel(program, ("row", "index", *weight), "one", (0,))
        program = losses.picked_backward(weighted=weighted, mean=flag)
        yield Kernel(program, ("index", "scale", "scale", *weight), "row", (0,))
    yield Kernel(losses.one_hot(), ("index",), "row", (0,))
    yield Kernel(losses.rate(), ("row", "scale"), "one", (1e-5, 1 / 40))
    for centred in (False, True):
        program = losses.normalised_backward(centred=centred)
        yield Kernel(program, ("row", "row", "shared", "scale"), "row", (1 / 40,))
    yield Kernel(losses.running_sum(), ("row",), "column all")
    yield Kernel(losses.running_sum(wide=True), ("word",), "column all")
    yield Kernel(losses.running_sum(wide=True, high=True), ("word", "word"), "column all")


def other_kernels() -> Iterator[Kernel]:
    """Positions, places, pooling, filling."""
    yield Kernel(counting.counting(whole=False), (), "row", (-0.5, 1.25))
    yield Kernel(counting.counting(whole=True), (), "row", (-70_000, 3))
    for upper in (False, True):
        yield Kernel(counting.triangle(upper=upper), ("row",), "row", (2,))
    for taps, chained in itertools.product((1, 2), (False, True)):
        words = ("row",) * (1 + taps) + ("word",) * chained
        yield Kernel(places.place_of(taps, chained=chained), words, "row", (7, 8)[:taps])
    yield Kernel(places.corners(), (), "row", (30, 2))
    for hops in ((0, 0), (1, 3)):
        yield Kernel(places.first_places(*hops), (), "row", (2, 1, 4, 30, 2, 3, 1))
    yield Kernel(places.where_empty(), ("row", "word", "word"))
    yield Kernel(places.last_place(), ("word", "index"), "one")
    yield Kernel(places.kept_at(), ("row", "word", "word"), "row", (-3,))
    yield Kernel(rope.rope_pairs(), ("row", "shared", "shared"))
    yield Kernel(rope.rope_halves(), ("row", "row", "shared", "shared"), "halves", kept=True)
    yield Kernel(fill.fill(), (), "row", (2.5,))
    for op, count in itertools.product(("max", "add"), range(1, pool.MAX_TAPS + 1)):
        yield Kernel(pool.taps(op, count), ("row",) * count, "row", (0.25,))


def code_kernels() -> Iterator[Kernel]:
    """Numbers of a few bits, and the codes of blocks."""
    for word in ("uint8", "int16"):
        yield Kernel(codes.bit_field(), (word, "int8"), params=(0x3F,))
    steps = (-4.0, -1.0, 0.0, 2.0, 3.0)
    yield Kernel(codes.closest_code(steps), ("row", "row"))
    yield Kernel(codes.nearest_code(steps), ("row",))


FAMILIES = {
    "elementwise": elementwise_kernels,
    "pointwise": pointwise_kernels,
    "integer": integer_kernels,
    "cast": cast_kernels,
    "codes": code_kernels,
    "softmax": softmax_kernels,
    "norm": norm_kernels,
    "reduce": reduction_kernels,
    "training": training_kernels,
    "optimizers": optimizer_kernels,
    "loss": loss_kernels,
    "other": other_kernels,
}


def values(tb: NpuTestbench, *shape: int) -> NDArray[np.float32]:
    """Ordinary numbers of several sizes, with a special one here and there."""
    made = tb.floats(*shape) * tb.rng.choice(np.array([0.1, 1, 10, 60], np.float32), shape)
    special = tb.rng.random(shape) < 0.02
    made[special] = tb.rng.choice(SPECIAL, int(special.sum()))
    return made.astype(np.float32)


def source(tb: NpuTestbench, word: str, rows: int, cols: int, repeats: int) -> Stream:
    """A stream of an operand, in fresh memory."""
    if word == "shared":
        return Stream(tb.place(values(tb, cols)))
    if word == "scale":
        return Stream(tb.place(np.abs(values(tb, rows))), bcast=True, row_stride=4)
    if word == "index":
        wanted = tb.rng.integers(-1, cols, rows).astype(np.int32)
        return Stream(tb.place(wanted), bcast=True, row_stride=4)
    if word in ("word", "int32"):
        bits = tb.rng.integers(-(2**31), 2**31, (rows, repeats, cols))
        made = (bits >> tb.rng.integers(0, 32, bits.shape)).astype(np.int32)
        row = 4 * cols
        return Stream(tb.place(made), segs=repeats, seg_stride=row, row_stride=row * repeats)
    if word in cast.FROM and word != "float32":
        size = ELEMENT_BYTES.get(word, 4)
        data = tb.rng.integers(0, 256, rows * cols * size, dtype=np.uint8)
        return Stream(tb.place(data, offset=size), row_stride=size * cols, size=size)
    step = 4 * cols
    place = tb.place(values(tb, rows, repeats, cols))
    return Stream(place, segs=repeats, seg_stride=step, row_stride=step * repeats)


def commands(tb: NpuTestbench, kernel: Kernel, rows: int, cols: int, repeats: int) -> list[Packet]:
    """The kernel run once."""
    repeats = repeats if kernel.output.startswith("column") else 1
    inputs = [source(tb, word, rows, cols, repeats) for word in kernel.inputs]
    size = {"int8": 1, "half": 2}.get(kernel.output, 4)
    segs = {"halves": 2, "two": 2, "three": 3, "column all": repeats}.get(kernel.output, 1)
    length = 1 if kernel.output in ("one", "two", "three") else cols
    row = size * length * segs
    output = Stream(
        tb.destination(rows * row, align=4),
        seg_len=length,
        segs=segs,
        seg_stride=size * length,
        row_stride=row,
        size=size,
    )
    return tb.vector_packets(
        kernel.program,
        rows=rows,
        cols=cols,
        inputs=inputs,
        output=output,
        params=kernel.params,
        repeats=repeats,
    )


@npu_test(family=list(FAMILIES))
async def test_kernels(tb: NpuTestbench, family: str) -> None:
    """Each program of a family on short and long rows, longer than a row register where it may be."""
    vlen, limit = tb.config.vector_length, tb.config.row_elements
    listed = list(FAMILIES[family]())
    for kernel in listed:
        await tb.load_programs(kernel.program)
        shapes = [(3, 1, 2), (2, min(17, vlen), 3), (1, vlen, 5)]
        if not kernel.output.startswith("column"):
            shapes.append((2, min(limit, vlen + 21) if kernel.kept else vlen + 21, 1))
            shapes.append((1, min(limit, 4 * vlen + 3), 1))
        if kernel.program.name.endswith("long"):
            shapes.append((1, limit + 7, 1))
        packets = [packet for shape in shapes for packet in commands(tb, kernel, *shape)]
        assert await tb.run(packets, "ring") == State.DONE, kernel.program.name


@npu_test()
async def test_every_kernel_is_here(tb: NpuTestbench) -> None:
    """No function of the library that makes a program is missing above."""
    covered = {kernel.program.code for family in FAMILIES.values() for kernel in family()}
    assert covered >= {program.code for program in kernel_library()}
    for module in pkgutil.iter_modules(kernels.__path__):
        loaded = importlib.import_module(f"{kernels.__name__}.{module.name}")
        for name, function in vars(loaded).items():
            if hasattr(function, "cache_info") and function.__module__ == loaded.__name__:
                assert function.cache_info().currsize, (
                    f"{module.name}.{name} makes programs that are not tested"
                )
    await tb.probe()
