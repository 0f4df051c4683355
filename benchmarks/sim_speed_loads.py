"""The loads under which the simulation's speed is measured, by name."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from benchmarks.sim_speed_replay import Replay, heavy, layer, record
from echo_npu.device import Device
from echo_npu.tensor import DeviceTensor

IDLE_CYCLES: Final = 400_000
"""Cycles of the load `idle`, in which no command is under way."""


def _product(name: str, dtype: type, m: int, k: int, n: int, times: int) -> Callable[[str], Replay]:
    def prepare(device: Device) -> Callable[[], object]:
        random = np.random.default_rng(1)

        def operand(shape: tuple[int, int], region: str) -> DeviceTensor:
            if dtype is np.int8:
                return device.tensor(random.integers(-128, 128, shape, dtype=np.int8), region=region)
            return device.tensor(random.standard_normal(shape).astype(np.float32), region=region)

        a, b = operand((m, k), "activation"), operand((k, n), "weight")
        c = device.empty((m, n))

        def compute() -> None:
            for _ in range(times):
                device.matmul(a, b, out=c)

        return compute

    return lambda config: record(name, config, prepare)


def _gelu(config: str) -> Replay:
    def prepare(device: Device) -> Callable[[], object]:
        x = device.tensor(np.random.default_rng(1).standard_normal((256, 256)).astype(np.float32))
        y = device.empty((256, 256))
        return lambda: device.gelu(x, out=y)

    return record("gelu", config, prepare)


def _copy(config: str) -> Replay:
    def prepare(device: Device) -> Callable[[], object]:
        x = device.tensor(np.random.default_rng(1).standard_normal(1 << 18).astype(np.float32))
        y = device.empty(1 << 18)
        return lambda: device.copy(x, out=y)

    return record("copy", config, prepare)


def _idle(config: str) -> Replay:
    return Replay("idle", config, (), (), (), idle_cycles=IDLE_CYCLES)


LOADS: Final[Mapping[str, Callable[[str], Replay]]] = {
    "idle": _idle,
    "decode int8": _product("decode int8", np.int8, 1, 768, 3072, 1),
    "decode fp32": _product("decode fp32", np.float32, 1, 576, 1536, 1),
    "prefill int8": _product("prefill int8", np.int8, 512, 512, 512, 1),
    "prefill fp32": _product("prefill fp32", np.float32, 256, 384, 256, 1),
    "gelu": _gelu,
    "copy": _copy,
    "layer": layer,
    "both engines": heavy,
}
"""Makes a load for a hardware configuration.

decode: a row of 768 times [768, 3072], of 576 times [576, 1536]. prefill: 512 cubed, [256, 384] times
[384, 256]. gelu: of [256, 256]. copy: 1 MiB. layer: the tiny transformer layer. both engines: a product, gelu
and softmax.
"""
