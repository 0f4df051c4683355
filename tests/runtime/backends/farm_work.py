"""A farm of simulations, or of functional models in their place, and what it is given to do."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

import echo_npu
from echo_npu.backends.rtlfarm.backend import RtlfarmBackend
from tests.rtlmodel import programs

Work: TypeAlias = Callable[[echo_npu.Device], Any]
"""Works on a device, and returns what it has found."""


def farm_of(device: echo_npu.Device) -> RtlfarmBackend:
    """Return the backend of a device that is a farm."""
    assert isinstance(device.backend, RtlfarmBackend)
    return device.backend


def random_work(seed: int) -> Work:
    """Commands of every kind, each submission waited for."""

    def work(device: echo_npu.Device) -> Any:
        rng = np.random.default_rng(seed)
        device.memcpy(0x40, programs.image(rng, programs.WEIGHT_BYTES), programs.WEIGHT_BYTES)
        for _ in range(10):
            batch = [each for _ in range(rng.integers(1, 9)) for each in programs.command(rng)]
            device.submit_batch(batch)
            if rng.random() < 0.7:
                device.finish()
            device.memcpy(programs.ACTIVATION, 0x80, int(rng.integers(1, 900)))
            if rng.random() < 0.3:
                device.memcpy(0x80, programs.image(rng, 400), 400)
        return device.backend.read_mem(programs.ACTIVATION, programs.ACTIVATION_BYTES).tobytes()

    return work


def layers(device: echo_npu.Device) -> Any:
    """One long submission, run twice."""
    rng = np.random.default_rng(3)
    weights = device.tensor((rng.standard_normal((32, 32)) / 6).astype(np.float32))
    rows = rng.standard_normal((12, 32)).astype(np.float32)
    with device.record() as program:
        y = x = program.input("x", rows.shape)
        for index in range(40):
            y = device.matmul(y, weights)
            y = device.add(device.silu(y) if index % 3 else device.softmax(y), x)
        program.output("y", y)
    return [program.run(x=rows * scale)["y"].to_numpy().tobytes() for scale in (1, 2)]
