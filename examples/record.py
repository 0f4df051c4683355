"""A decoder layer, recorded once and run for one input after another.

python examples/record.py [--backend cmodel|rtlmodel] [--config default|small] [--trace FILE]
"""

import argparse
import time

import numpy as np
from numpy.typing import NDArray

import echo_npu
from echo_npu import Device, DeviceTensor
from echo_sim.config import config_argument

TOKENS, HEADS, WIDTH, FFN = 8, 4, 16, 128
HIDDEN = HEADS * WIDTH
RUNS = 5


class Weights:
    """Random weights of a llama-style layer, and the tables of its position embedding."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)

        def matrix(rows: int, columns: int) -> NDArray[np.float32]:
            return rng.standard_normal((rows, columns), dtype=np.float32) / np.float32(columns**0.5)

        self.q, self.k, self.v, self.o = (matrix(HIDDEN, HIDDEN) for _ in range(4))
        self.gate, self.up, self.down = matrix(FFN, HIDDEN), matrix(FFN, HIDDEN), matrix(HIDDEN, FFN)
        self.norms = rng.standard_normal((2, HIDDEN), dtype=np.float32)
        self.cos, self.sin = Device.rope_tables(TOKENS, WIDTH)


def layer(npu: Device, w: Weights, x: DeviceTensor) -> DeviceTensor:
    """[TOKENS, HIDDEN] to the same. The arrays of `w` are uploaded with every call, unless it is recorded."""

    def project(source: DeviceTensor, weight: NDArray[np.float32]) -> DeviceTensor:
        return npu.matmul(source, weight, trans_b=True)

    def heads(tensor: DeviceTensor) -> DeviceTensor:
        return tensor.reshape(TOKENS, HEADS, WIDTH)

    normed = npu.rms_norm(x, w.norms[0])
    q = npu.rope(heads(project(normed, w.q)), w.cos, w.sin).swapaxes(0, 1)
    k = npu.rope(heads(project(normed, w.k)), w.cos, w.sin).swapaxes(0, 1)
    v = heads(project(normed, w.v)).swapaxes(0, 1)
    mixed = npu.empty((TOKENS, HEADS, WIDTH))
    npu.attention(q, k, v, causal=True, out=mixed.swapaxes(0, 1))
    x = npu.add(project(mixed.reshape(TOKENS, HIDDEN), w.o), x)
    normed = npu.rms_norm(x, w.norms[1])
    gated = npu.mul(npu.silu(project(normed, w.gate)), project(normed, w.up))
    return npu.add(project(gated, w.down), x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="rtlmodel", choices=["cmodel", "rtlmodel"])
    parser.add_argument("--config", type=config_argument, default="default")
    parser.add_argument("--trace", help="write a timeline for Perfetto (rtlmodel)")
    options = parser.parse_args()

    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal((TOKENS, HIDDEN), dtype=np.float32) for _ in range(RUNS)]
    weights = Weights(seed=0)
    more = {"trace": options.trace} if options.trace else {}
    with echo_npu.open(options.backend, config=options.config, **more) as npu:

        def busy() -> int:
            return npu.counters()["busy_cycles"]

        def direct(values: NDArray[np.float32]) -> NDArray[np.float32]:
            return layer(npu, weights, npu.tensor(values)).to_numpy()

        direct(inputs[0])  # loads the vector programs
        start, cycles = time.perf_counter(), busy()
        expected = [direct(values) for values in inputs]
        called = (time.perf_counter() - start, busy() - cycles)

        with npu.record() as program:
            x = program.input("x", (TOKENS, HIDDEN))
            program.output("y", layer(npu, weights, x))
        with program:
            start, cycles = time.perf_counter(), busy()
            results = [program.run(x=values)["y"].to_numpy() for values in inputs]
            recorded = (time.perf_counter() - start, busy() - cycles)
            print(f"{options.backend}: {len(program)} commands in {len(program.packets)} packets")

    for name, (seconds, spent) in (("called", called), ("recorded", recorded)):
        print(f"{name:9}{1000 * seconds / RUNS:8.1f} ms a layer, {spent // RUNS} busy cycles")
    same = all(np.array_equal(a, b) for a, b in zip(results, expected, strict=True))
    print(f"bits of the direct calls: {'equal' if same else 'DIFFERENT'}")
    if not same:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
