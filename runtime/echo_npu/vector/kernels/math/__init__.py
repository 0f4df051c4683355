"""Elementary functions as macros: each appends the instructions of one function to a program.

Every macro is called `f(b, dst, x)`: `b` is the program's builder, `x` any operand except an immediate, `dst`
a vector register, a scalar register (then the function is computed once, on scalars) or the output. Only the
last instruction writes `dst`, so it may be `x`. Temporaries come from the builder and go back to it.

The macros use only instructions that are defined to the bit, so results are.
docs/numerics.md has the measured error of every function. NaN, infinities, signed zeros and subnormals behave
as in C.
"""

from echo_npu.vector.kernels.math.common import polynomial, temporaries
from echo_npu.vector.kernels.math.exponential import exp
from echo_npu.vector.kernels.math.logarithm import log
from echo_npu.vector.kernels.math.logistic import gelu_tanh, sigmoid, silu, tanh
from echo_npu.vector.kernels.math.normal import gelu, normal_cdf
from echo_npu.vector.kernels.math.power import power, power_parameters
from echo_npu.vector.kernels.math.reciprocal import div, rcp
from echo_npu.vector.kernels.math.roots import rsqrt, sqrt
from echo_npu.vector.kernels.math.trigonometry import cos, sin

__all__ = [
    "cos",
    "div",
    "exp",
    "gelu",
    "gelu_tanh",
    "log",
    "normal_cdf",
    "polynomial",
    "power",
    "power_parameters",
    "rcp",
    "rsqrt",
    "sigmoid",
    "silu",
    "sin",
    "sqrt",
    "tanh",
    "temporaries",
]
