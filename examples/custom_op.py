"""A new operation: mish(x) = x * tanh(log(1 + e^x)), as a program of the vector engine.

python examples/custom_op.py [--backend cmodel|rtlmodel] [--config default|small]
"""

import argparse

import numpy as np

import echo_npu
from echo_npu.commands.vector_command import Stream
from echo_npu.vector import Builder, Program
from echo_npu.vector.kernels.math import div, exp
from echo_sim.config import config_argument


def mish() -> Program:
    """With e = e^x, tanh(log(1 + e)) = n / (n + 2), n = e * (e + 2)."""
    b = Builder("mish")
    x, e, n = b.stream(0), b.vector(), b.vector()
    with b.chunks(advance=[x]):
        b.min(e, x, 30.0)  # beyond, the quotient is 1
        exp(b, e, e)
        b.add(n, e, 2.0)
        b.mul(n, n, e)
        b.add(e, n, 2.0)
        div(b, e, n, e)
        b.mul(b.out, x, e)
    return b.build()


def run(npu: echo_npu.Device, values: np.ndarray) -> np.ndarray:
    """mish of each element, as one long row."""
    x, y = npu.tensor(values), npu.empty(values.shape)
    npu.vector(mish(), rows=1, cols=x.size, inputs=[Stream(x.ptr)], output=Stream(y.ptr))
    return y.to_numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="rtlmodel", choices=["cmodel", "rtlmodel"])
    parser.add_argument("--config", type=config_argument, default="default")
    options = parser.parse_args()

    x = np.linspace(-20, 20, 1001, dtype=np.float32)
    with echo_npu.open(options.backend, config=options.config) as npu:
        y, cycles = run(npu, x), npu.counters()["vector_busy"]
    with echo_npu.open("cmodel", config=options.config) as model:
        same = np.array_equal(y.view(np.uint32), run(model, x).view(np.uint32))

    wide = x.astype(np.float64)
    error = np.max(np.abs(y - wide * np.tanh(np.log1p(np.exp(wide)))))
    print(f"{options.backend}: {x.size} elements, {len(mish())} instructions, {cycles} cycles")
    print(f"largest error {error:.2g}")
    print(f"bits of the functional model: {'equal' if same else 'DIFFERENT'}")
    if not same or error > 1e-5:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
