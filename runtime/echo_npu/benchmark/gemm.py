"""Measure matrix products: their cycles, the least that the hardware permits, and whether they are exact."""

import contextlib
import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import echo_npu
from echo_npu.benchmark.measure import check_size, random_elements
from echo_npu.benchmark.products import Product
from echo_npu.benchmark.roofline import Bound, bus_bytes, peak_macs, product_bound
from echo_npu.commands.command import Command
from echo_npu.commands.matmul_command import matmul_command
from echo_npu.device import Device
from echo_npu.driver.capabilities import Capabilities
from echo_npu.model.memory import memory_map_of
from echo_npu.spec.data_types import DataType
from echo_sim.config import load_config


@dataclass(frozen=True, slots=True)
class Measured:
    """A product in one data type.

    Attributes:
        product, dtype: what was measured; the result is float32.
        cycles: BUSY_CYCLES of the command; None on a backend without cycles.
        peak: multiply-accumulates a cycle of the array in this type.
        bus_bytes: bytes a cycle, in each direction, of the memory bus.
        bound: the fewest cycles.
        bit_exact: whether the result equals the functional model's, bit for bit; None if not compared.
        wall_s: seconds of wall time of the command.
        counters: the increase of the device's counters (docs/performance.md), by name.
    """

    product: Product
    dtype: DataType
    cycles: int | None
    peak: int
    bus_bytes: int
    bound: Bound
    bit_exact: bool | None = None
    wall_s: float | None = None
    counters: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the workload, e.g. "fp32 128x576x192"."""
        return workload_name(self.product, self.dtype)

    @property
    def utilisation(self) -> float | None:
        """macs / (cycles * peak)."""
        return self.product.macs / (self.cycles * self.peak) if self.cycles else None

    @property
    def roofline(self) -> float | None:
        """bound / cycles."""
        return self.bound.cycles / self.cycles if self.cycles else None

    @property
    def intensity(self) -> float:
        """macs / bytes of the busier direction of the bus, each operand and the result counted once."""
        return self.product.macs / (max(self.bound.read, self.bound.write) * self.bus_bytes)

    @property
    def overhead(self) -> float | None:
        """cycles - bound: the fixed cost of a small product."""
        return self.cycles - self.bound.cycles if self.cycles else None

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as data for JSON."""
        return {
            **asdict(self.product),
            "dtype": self.dtype.label,
            "macs": self.product.macs,
            "cycles": self.cycles,
            "utilisation": self.utilisation,
            "bound": self.bound.cycles,
            "bound_by": self.bound.limit,
            "intensity": self.intensity,
            "roofline": self.roofline,
            "overhead": self.overhead,
            "bit_exact": self.bit_exact,
            "wall_s": self.wall_s,
            "counters": dict(self.counters),
        }


def workload_name(product: Product, dtype: DataType) -> str:
    """Return the name of a product in a type under which its cycles are kept."""
    return f"{dtype.label} {product}"


def judged(
    capabilities: Capabilities,
    product: Product,
    dtype: DataType,
    cycles: int | None,
    **more: Any,
) -> Measured:
    """Compare cycles with what the hardware permits; `more` are the other attributes of `Measured`."""
    bound = product_bound(capabilities, dtype, product.m, product.k, product.n, batch=product.batch)
    peak, width = peak_macs(capabilities, dtype), bus_bytes(capabilities)
    return Measured(product, dtype, cycles, peak, width, bound, **more)


def measure_product(
    device: Device,
    product: Product,
    dtype: DataType,
    *,
    twin: Device | None = None,
    seed: int = 1,
) -> Measured:
    """Run one product, alone.

    Args:
        twin: a cmodel device of the same configuration, to whose result this one is compared. None: the
            operands are what memory holds, and nothing is compared. No cycle depends on an operand's value.
        seed: of the operands.

    Raises:
        ValueError: the device does not have the data type.
        NpuOutOfMemoryError: an operand that does not fit.
        NpuDeviceError, NpuTimeoutError, SimulatorError: the device refused, hung or died.
    """
    check_types(device.capabilities, [dtype])
    a, b, c = (
        product.batch * count
        for count in (product.m * product.k, product.k * product.n, product.m * product.n)
    )
    with (
        _block(device, a * dtype.itemsize, "activation") as src1,
        _block(device, b * dtype.itemsize, "weight") as src2,
        _block(device, c * 4, "activation") as dst,
    ):
        command = _command(product, dtype, src1, src2, dst)
        if twin is not None:
            rng = np.random.default_rng(seed)
            for address, data in (
                (src1, random_elements(rng, dtype, (a,))),
                (src2, random_elements(rng, dtype, (b,))),
                (dst, random_elements(rng, DataType.FP32, (c,))),  # shows elements that are not written
            ):
                for each in (device, twin):
                    each.memcpy(address, data, data.nbytes)
        with device.span(workload_name(product, dtype)):
            counters, wall = _timed(device, command)
        exact = None
        if twin is not None:
            twin.execute(command)
            exact = np.array_equal(_bits(device, dst, c), _bits(twin, dst, c))
    cycles = counters["busy_cycles"] if device.backend.has_cycles else None
    return judged(
        device.capabilities, product, dtype, cycles, bit_exact=exact, wall_s=wall, counters=counters
    )


def check_types(capabilities: Capabilities, dtypes: Sequence[DataType]) -> None:
    """Raise ValueError unless the device has all of these types."""
    for dtype in dtypes:
        if dtype.label not in capabilities.data_types:
            raise ValueError(f"dtype is {dtype.label!r}; the device has {', '.join(capabilities.data_types)}")


@contextlib.contextmanager
def _block(device: Device, nbytes: int, region: str) -> Iterator[int]:
    address = device.malloc(nbytes, region=region)
    try:
        yield address
    finally:
        device.free(address)


def _command(product: Product, dtype: DataType, src1: int, src2: int, dst: int) -> Command:
    m, k, n, size = product.m, product.k, product.n, dtype.itemsize
    several = product.batch > 1
    return matmul_command(
        src1,
        src2,
        dst,
        m,
        k,
        n,
        dtype=dtype,
        trans_b=product.trans_b,
        batch=(product.batch, 1),
        src1_batch_strides=(m * k * size if several else 0, 0),
        src2_batch_strides=(k * n * size if several else 0, 0),
        dst_batch_strides=(m * n * 4 if several else 0, 0),
    )


def _timed(device: Device, command: Command) -> tuple[dict[str, int], float]:
    """Run a command; return the increase of the counters, and wall seconds."""
    before = device.counters()
    start = time.perf_counter()
    device.execute(command)
    wall = time.perf_counter() - start
    return {name: count - before[name] for name, count in device.counters().items()}, wall


def _bits(device: Device, address: int, count: int) -> NDArray[np.uint32]:
    bits = np.empty(count, dtype=np.uint32)
    device.memcpy(bits, address, bits.nbytes)
    return bits


@dataclass(frozen=True, slots=True)
class Session:
    """The settings with which products are measured.

    Attributes:
        backend: None: the default one.
        config: hardware configuration.
        options: of the backend.
        check_limit: products with more multiply-accumulates are not compared; None: all are.
        seed: of the operands.
        jobs: devices at a time.
    """

    backend: str | None = None
    config: str = "default"
    options: Mapping[str, Any] | None = None
    check_limit: int | None = None
    seed: int = 1
    jobs: int = 1

    def open(self) -> Device:
        """Open a device to measure on."""
        return echo_npu.open(self.backend, config=self.config, **(self.options or {}))

    def run(
        self,
        work: Sequence[tuple[Product, DataType]],
        on_measured: Callable[[Measured], None] = lambda measured: None,
    ) -> list[Measured]:
        """Measure products on `jobs` devices, long ones first; return the results in the order of `work`.

        Args:
            on_measured: called after each product, on any thread.

        Raises: as `measure_product`.
        """
        memory = memory_map_of(load_config(self.config))
        for product, dtype in work:
            check_size(product.m, product.k, product.n, dtype=dtype, batch=product.batch, memory=memory)
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for index in sorted(range(len(work)), key=lambda index: -work[index][0].macs):
            waiting.put(index)
        found: dict[int, Measured] = {}

        def drain(device: Device, twin: Device) -> None:
            while (index := _next(waiting)) is not None:
                found[index] = self._measure(device, twin, *work[index])
                on_measured(found[index])

        def drain_on_devices_of_its_own() -> None:
            with self.open() as device, self._twin() as twin:
                drain(device, twin)

        jobs = max(1, min(self.jobs, len(work)))
        # The first device builds the simulator, and refuses wrong arguments.
        with self.open() as first, self._twin() as twin:
            check_types(first.capabilities, [dtype for _, dtype in work])
            with ThreadPoolExecutor(jobs) as pool:
                tasks = [pool.submit(drain, first, twin)]
                tasks += [pool.submit(drain_on_devices_of_its_own) for _ in range(jobs - 1)]
                try:
                    for task in as_completed(tasks):
                        task.result()
                finally:  # after an error, the other devices finish only what they have begun
                    while _next(waiting) is not None:
                        pass
        return [found[index] for index in range(len(work))]

    def _twin(self) -> Device:
        return echo_npu.open("cmodel", config=self.config)

    def _measure(self, device: Device, twin: Device, product: Product, dtype: DataType) -> Measured:
        if self.check_limit is not None and product.macs > self.check_limit:
            return measure_product(device, product, dtype)
        return measure_product(device, product, dtype, twin=twin, seed=self.seed)


def _next(waiting: queue.SimpleQueue[int]) -> int | None:
    try:
        return waiting.get_nowait()
    except queue.Empty:
        return None
