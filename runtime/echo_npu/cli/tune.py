"""The command `echo-npu tune`: compile the simulator for what networks do on it."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final

import numpy as np
import typer

import echo_npu
from echo_npu.cli.support import AsJson, Config, reported
from echo_npu.errors import SimulatorError
from echo_npu.formats import pack
from echo_npu.ops.packed import PackedTensor

REPEATS: Final = 3


@dataclass(frozen=True, slots=True)
class WorkloadSpeed:
    """How fast a workload was simulated: its cycles, and the seconds of wall time that its commands took."""

    cycles: int
    seconds: float

    @property
    def rate(self) -> float:
        """Cycles a second."""
        return self.cycles / self.seconds


def tune_command(config: Config = "default", as_json: AsJson = False) -> None:
    """Compile the simulator again for what networks do on it: the same bits and cycles, about a third faster.

    It takes two to three builds once, and lasts until a source of the hardware or of the board changes.

    Exit status: 0 all right, 1 the compiler or the simulator failed, 2 wrong arguments.
    """
    with reported():
        before, after = _tuned(config, quiet=as_json)
        if before.cycles != after.cycles:
            raise SimulatorError(f"tuning changed the cycles from {before.cycles} to {after.cycles}")
    if as_json:
        facts = {"config": config, "before": asdict(before), "after": asdict(after)}
        typer.echo(json.dumps(facts, indent=2))
        return
    typer.echo(
        f"{config}: {before.rate:,.0f} cycles/s before, {after.rate:,.0f} now"
        f" ({after.rate / before.rate:.2f} times as fast), measured once on {before.cycles:,} cycles"
    )


def _tuned(config: str, *, quiet: bool) -> tuple[WorkloadSpeed, WorkloadSpeed]:
    """Tune a simulator, and return how fast it was and is."""
    try:
        from echo_sim.build import BuildError, build  # it needs the packages of the extra "sim"
        from echo_sim.tools import ToolMissingError
        from echo_sim.tuning import tune
    except ImportError as error:
        raise SimulatorError(
            f"the simulation needs the Python package {error.name!r}: run `make setup`, or pip"
            " install 'echo-npu[sim]'"
        ) from error

    def count_branches() -> None:
        exercise(config)

    try:
        build(config, quiet=quiet)
        before = exercise(config)
        tune(config, count_branches, quiet=quiet)
    except (BuildError, ToolMissingError) as error:
        raise SimulatorError(f"the simulator could not be tuned: {error}") from error
    return before, exercise(config)


def exercise(config: str) -> WorkloadSpeed:
    """Run products and vector operations as networks have them, in every data type and block format.

    Raises:
        NpuError: the device failed, or could not be opened.
    """
    draw = np.random.default_rng(1)

    def random(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return draw.standard_normal(shape, dtype=np.float32)

    with echo_npu.open("rtlmodel", config=config) as npu:
        work: list[Callable[[], object]] = []
        for name in npu.capabilities.block_formats:
            weight = PackedTensor.upload(npu, pack(random(576, 576), name))
            work += [partial(npu.matmul, random(rows, 576), weight) for rows in (1, 1, 8)]
        for dtype in (np.float32, np.float16, np.int8):
            right = random(192, 192).astype(dtype)
            work += [partial(npu.matmul, random(rows, 192).astype(dtype), right) for rows in (1, 16, 48)]
        x = npu.tensor(random(32, 192))
        work += [partial(operation, x) for operation in (npu.softmax, npu.silu, npu.gelu)]
        work += [partial(npu.rms_norm, x, npu.tensor(random(192))), partial(npu.add, x, x)]
        before = npu.counters()["busy_cycles"]
        start = time.perf_counter()
        for call in work * REPEATS:
            call()
        seconds = time.perf_counter() - start
        return WorkloadSpeed(npu.counters()["busy_cycles"] - before, seconds)
