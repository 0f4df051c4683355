"""A model that can be run on the NPU, and the run."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from echo_npu.device import Device
from echo_npu.models.executor import Executor, array_size
from echo_npu.models.records import Check, ModelRun, OpRecord


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a model computed.

    Attributes:
        checks: of the model as a whole, against an independent reference.
        results: plain data under their names in JSON.
        summary: sentences for people.
    """

    checks: tuple[Check, ...]
    results: dict[str, Any]
    summary: tuple[str, ...] = field(default=())


class Model(ABC):
    """A model with its weights and its input. It can be run any number of times.

    Attributes:
        name: what reports call it.
        slug: the name, for files.
        notes: sentences for the report about the input and how it was prepared.
        steps: how many operations it has.
    """

    name: str
    slug: str
    notes: tuple[str, ...] = ()
    steps: int

    @abstractmethod
    def load(self, executor: Executor) -> None:
        """Put weights and input into device memory, and make room for everything else.

        Raises:
            NpuOutOfMemoryError: they do not fit.
        """

    @abstractmethod
    def compute(self, executor: Executor) -> Outcome:
        """Run every operation through `executor`, after `load`."""


def run_model(
    model: Model,
    device: Device,
    twin: Device,
    *,
    on_record: Callable[[OpRecord], None] | None = None,
    on_loaded: Callable[[Executor], None] | None = None,
    title: str | None = None,
    waves_command: str = "",
    waves_file: str = "",
) -> ModelRun:
    """Run `model` on `device`, checked operation by operation and as a whole.

    Args:
        device: any backend.
        twin: a cmodel device of its own, with the same history of allocations, e.g. as newly opened. It tells
            what the device should have done.
        on_record: called after each operation.
        on_loaded: called when weights and input are in device memory, before anything is computed.

    Raises:
        NpuOutOfMemoryError, NpuDeviceError, NpuTimeoutError, SimulatorError: as the device does.
        ValueError: the twin's allocations are not the device's.
    """
    start = time.perf_counter()
    executor = Executor(device, twin, on_record=on_record)
    try:
        model.load(executor)
        if on_loaded is not None:
            on_loaded(executor)
        with np.errstate(all="ignore"):  # infinities and NaNs of a broken device fail the checks
            outcome = model.compute(executor)
        weights_exact = executor.weights_exact()
    finally:
        executor.release()
    cycles = sum(record.cycles for record in executor.records)
    macs = sum(record.macs for record in executor.records)
    name = device.backend.name
    return ModelRun(
        title=title or f"{model.name} on {name}",
        backend=name,
        config=device.config,
        records=tuple(executor.records),
        weights_exact=weights_exact,
        checks=outcome.checks,
        results=outcome.results,
        summary=outcome.summary,
        notes=model.notes,
        cycles=cycles,
        macs=macs,
        utilisation=macs / (cycles * array_size(device)) if cycles else None,
        wall_s=time.perf_counter() - start,
        device_s=executor.device_seconds,
        exact_means=(
            "the functional model against itself (run on rtlmodel to compare the RTL)"
            if name == "cmodel"
            else f"all activation memory after each operation, {name} = functional model, bit for bit"
        ),
        waves_command=waves_command,
        waves_file=waves_file,
    )
