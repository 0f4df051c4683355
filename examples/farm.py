"""One run on several cores: the functional model runs ahead, RTL simulations check it chunk by chunk.

python examples/farm.py [--jobs 2] [--config default|small] [--executor tcp://host:port]
"""

import argparse
import time

import numpy as np

import echo_npu
from echo_sim.config import config_argument
from echo_sim.numerals import Whole

LAYERS = 24


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=Whole(1, 4096), default=2)
    parser.add_argument("--config", type=config_argument, default="small")
    parser.add_argument("--executor")
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    x = rng.standard_normal((32, 64), dtype=np.float32)
    weights = rng.standard_normal((LAYERS, 64, 64), dtype=np.float32) / np.float32(8)
    farm = {"jobs": arguments.jobs, "executor": arguments.executor, "chunk_cycles": 50_000, "progress": True}

    with echo_npu.open("rtlfarm", config=arguments.config, **farm) as npu:
        started = time.perf_counter()
        y = npu.tensor(x)
        for weight in weights:
            y = npu.add(npu.silu(npu.matmul(y, weight)), y)
        result = y.to_numpy()
        print(f"the model's result after {time.perf_counter() - started:.1f} s, mean {result.mean():.4f}")
        npu.wait()
        cycles = npu.counters()["busy_cycles"]
        chunks = npu.backend.info()["farm"]["chunks"]
        seconds = time.perf_counter() - started
        print(f"{chunks} chunks equal on the RTL after {seconds:.1f} s: {cycles:,} busy cycles")


if __name__ == "__main__":
    main()
