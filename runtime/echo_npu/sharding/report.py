"""What dividing a layer among devices gains: run it on one device and on several, and compare."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Group
from rich.table import Table

from echo_npu.device import Device
from echo_npu.models.layer_types import LayerConfig, LayerWeights
from echo_npu.models.truth import F32
from echo_npu.sharding.devices import DeviceGroup, Spent
from echo_npu.sharding.layer import ShardedLayer, SingleLayer
from echo_npu.sharding.linear import ShardedLinear

TINY: Final = LayerConfig(hidden=96, heads=6, kv_heads=3, head_dim=16, ffn=192)
SMOLLM2: Final = LayerConfig(hidden=576, heads=9, kv_heads=3, head_dim=64, ffn=1536)


@dataclass(frozen=True, slots=True)
class ShardReport:
    """A layer on one device and on several.

    Attributes:
        what: a sentence about the layer.
        backend, config: of every device.
        devices: how many.
        tokens: rows that went through the layer.
        one_device_cycles: busy cycles of one device alone; 0 on a backend without cycles, as all cycles.
        cycles: busy cycles of each device.
        critical_cycles: the sum, over the phases between two exchanges, of the slowest device's cycles.
        phases: exchanges between the devices.
        traffic_bytes: bytes that devices received from others, all together. They take no cycles.
        speedup: one_device_cycles / critical_cycles; None on a backend without cycles.
        bit_exact: whether every bit of the result is that of one device.
        one_device_seconds, seconds: wall time on one device and on all.
    """

    what: str
    backend: str
    config: str
    devices: int
    tokens: int
    one_device_cycles: int
    cycles: tuple[int, ...]
    critical_cycles: int
    phases: int
    traffic_bytes: int
    speedup: float | None
    bit_exact: bool
    one_device_seconds: float
    seconds: float

    @property
    def efficiency(self) -> float | None:
        """Speed-up per device."""
        return None if self.speedup is None else self.speedup / self.devices

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes and the efficiency as plain data."""
        return asdict(self) | {"efficiency": self.efficiency}

    def render(self) -> Group:
        """Return the report as a table and sentences."""
        table = Table()
        table.add_column("device")
        table.add_column("cycles", justify="right")
        table.add_column("of one device alone", justify="right")
        for index, cycles in enumerate(self.cycles):
            share = f"{100 * cycles / self.one_device_cycles:.1f} %" if self.one_device_cycles else "-"
            table.add_row(str(index), f"{cycles:,}" if cycles else "-", share)
        lines = [f"{self.phases} exchanges, {self.traffic_bytes:,} bytes between devices"]
        if self.speedup is not None:
            lines.append(
                f"one device {self.one_device_cycles:,} cycles, {self.devices} devices "
                f"{self.critical_cycles:,}: speed-up {self.speedup:.2f}, without the time of the exchanges"
            )
        lines.append(f"wall time {self.one_device_seconds:.2f} s and {self.seconds:.2f} s")
        lines.append(
            f"bits of one device: {'[green]equal[/]' if self.bit_exact else '[bold red]DIFFERENT[/]'}"
        )
        return Group(f"{self.what}, {self.backend}, configuration {self.config}", table, *lines)


def report_linear(devices: Sequence[Device], m: int, k: int, n: int, seed: int = 1) -> ShardReport:
    """Measure a linear layer of random float32, m x k by k x n; ValueError if the devices cannot divide n."""
    random = np.random.default_rng(seed)
    weight = random.standard_normal((n, k), dtype=np.float32)
    rows = random.standard_normal((m, k), dtype=np.float32)
    with DeviceGroup(devices) as group, DeviceGroup(devices[:1]) as alone:
        layers = ShardedLinear(alone, weight), ShardedLinear(group, weight)
        before = devices[0].counters()["busy_cycles"]
        single = _timed(lambda: layers[0](rows))
        cycles = devices[0].counters()["busy_cycles"] - before
        return _report(f"linear {m} x {k} x {n}", m, single, cycles, group, lambda: layers[1](rows))


def usual_format(device: Device) -> str | None:
    """Return the block format of SmolLM2's weights, or None, which is float16, where the device has none."""
    return "q4_1" if "q4_1" in device.capabilities.block_formats else None


def random_layer(config: LayerConfig, seed: int) -> LayerWeights:
    """Return random weights of a layer, whose products have the scale of their inputs."""
    random = np.random.default_rng(seed)
    return LayerWeights(
        **{
            name: random.standard_normal(shape, dtype=np.float32) / np.float32(shape[-1] ** 0.5)
            for name, shape in config.weight_shapes().items()
        }
    )


def report_layer(
    devices: Sequence[Device],
    name: str,
    config: LayerConfig,
    *,
    tokens: int,
    position: int = 0,
    block_format: str | None,
    seed: int = 1,
) -> ShardReport:
    """Measure a llama layer with random weights.

    Args:
        name: of the layer, for the report.
        tokens: how many go through it at once.
        position: of the first of them: so many are in the cache.
        block_format: as for `ShardedLayer`.

    Raises: as `ShardedLayer`.
    """
    random = np.random.default_rng(seed)
    weights = random_layer(config, seed)
    options: dict[str, Any] = {"context": position + tokens, "block_format": block_format}
    past = random.standard_normal((position, config.hidden), dtype=np.float32)
    hidden = random.standard_normal((tokens, config.hidden), dtype=np.float32)
    with DeviceGroup(devices) as group:
        sharded = ShardedLayer(group, config, weights, **options)
        single = SingleLayer(devices[0], config, weights, **options)
        if position:
            single(past)
            sharded(past)
        before = devices[0].counters()["busy_cycles"]
        expected = _timed(lambda: single(hidden, position))
        cycles = devices[0].counters()["busy_cycles"] - before
        what = f"a layer of {name}, {tokens} tokens from position {position}, {block_format or 'float16'}"
        return _report(what, tokens, expected, cycles, group, lambda: sharded(hidden, position))


def _timed(call: Callable[[], NDArray[Any]]) -> tuple[NDArray[Any], float]:
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def _report(
    what: str,
    tokens: int,
    single: tuple[F32, float],
    single_cycles: int,
    group: DeviceGroup,
    call: Callable[[], F32],
) -> ShardReport:
    before = group.spent()
    found, seconds = _timed(call)
    spent: Spent = group.spent().since(before)
    device = group.devices[0]
    return ShardReport(
        what=what,
        backend=device.backend.name,
        config=device.config,
        devices=len(group),
        tokens=tokens,
        one_device_cycles=single_cycles,
        cycles=tuple(spent.cycles),
        critical_cycles=spent.critical,
        phases=spent.phases,
        traffic_bytes=spent.traffic,
        speedup=single_cycles / spent.critical if spent.critical else None,
        bit_exact=np.array_equal(found.view(np.uint32), single[0].view(np.uint32)),
        one_device_seconds=single[1],
        seconds=seconds,
    )
