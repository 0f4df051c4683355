"""The programs that a device loads at the start: those that the operations commonly run.

Other variants are loaded on first use.
"""

from functools import cache

from echo_npu.vector.kernels import cast, fill, norm, optimizers, pool, reduce, rope, softmax, training
from echo_npu.vector.kernels.elementwise import elementwise
from echo_npu.vector.program import Program


@cache
def kernel_library() -> tuple[Program, ...]:
    """The programs, in the order of docs/ops.md."""
    return (
        *(elementwise(name, "ss") for name in ("add", "sub", "mul", "div", "minimum", "maximum", "lt", "ne")),
        *(
            elementwise(name, "s")
            for name in ("neg", "abs", "relu", "reciprocal", "sqrt", "rsqrt", "exp", "log")
        ),
        *(elementwise(name, "s") for name in ("sin", "cos", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh")),
        *(elementwise(name, "sss") for name in ("where", "where_float")),
        elementwise("mul", "sp"),
        elementwise("add_scaled", "ssp"),
        elementwise("clamp", "spp"),
        elementwise("square", "s"),
        elementwise("cube", "s"),
        elementwise("power", "spppp"),
        elementwise("addcmul", "sssp"),
        elementwise("addcdiv", "sssp"),
        cast.cast("float32", "float16"),
        cast.cast("bfloat16", "float32"),
        cast.quantize_scales(),
        cast.quantize(),
        cast.dequantize(),
        reduce.reduction("add"),
        reduce.reduction("add", column=True),
        reduce.reduction("max"),
        reduce.reduction("max", column=True),
        reduce.reduction("min"),
        reduce.mean(),
        reduce.mean(column=True),
        reduce.dot_column(),
        reduce.argmax(),
        reduce.argmax(column=True),
        softmax.softmax(),
        softmax.softmax(scaled=True),
        softmax.softmax(scaled=True, causal=True),
        softmax.softmax(scaled=True, masked=True),
        softmax.softmax(scaled=True, causal=True, masked=True),
        softmax.softmax(kept=False),
        softmax.softmax(column=True, kept=False),
        norm.rms_norm(),
        norm.rms_norm(kept=False),
        norm.layer_norm(),
        norm.layer_norm(kept=False),
        rope.rope_halves(),
        rope.rope_pairs(),
        fill.fill(),
        pool.taps("max", 4),
        pool.taps("add", 4),
        training.softmax_backward(),
        training.softmax_backward(kept=False),
        training.silu_backward(),
        training.gelu_backward(),
        training.gelu_tanh_backward(),
        norm.rms_norm_backward(),
        norm.rms_norm_backward(kept=False),
        norm.layer_norm_backward(),
        norm.layer_norm_backward(kept=False),
        training.cross_entropy(),
        training.cross_entropy_backward(),
        training.cross_entropy_backward(kept=False),
        optimizers.moving_average(),
        optimizers.moving_average(squared=True),
        optimizers.adamw_update(),
    )
