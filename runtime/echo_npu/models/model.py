"""The interface of models, and how one is run on the NPU."""

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
    """The outcome of a model.

    Attributes:
        checks: of the whole model, against an independent reference.
        results: plain data by their names in JSON.
        summary: sentences for people.
    """

    checks: tuple[Check, ...]
    results: dict[str, Any]
    summary: tuple[str, ...] = field(default=())


class Model(ABC):
    """A model with its weights and input. It can be run any number of times.

    Attributes:
        name: its name in reports.
        slug: its name for files.
        notes: sentences for the report about the input and how it was prepared.
        steps: number of operations.
    """

    name: str
    slug: str
    notes: tuple[str, ...] = ()
    steps: int

    @abstractmethod
    def load(self, executor: Executor) -> None:
        """Write weights and input to device memory, and allocate all other tensors.

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
    """Run `model` on `device`, and check every operation and the whole.

    Args:
        device: any backend.
        twin: another device, of the backend cmodel, with the same history of allocations, e.g. just opened.
            It gives the expected results.
        on_record: called after each operation.
        on_loaded: called after weights and input are in device memory, before anything is computed.
        title: title of the report; None: model and backend.
        waves_command, waves_file: as in `ModelRun`.

    Raises:
        NpuOutOfMemoryError, NpuDeviceError, NpuTimeoutError, SimulatorError: from the device.
        ValueError: the twin's allocations are not the device's.
    """
    start = time.perf_counter()
    executor = Executor(device, twin, on_record=on_record)
    try:
        model.load(executor)
        if on_loaded is not None:
            on_loaded(executor)
        with np.errstate(all="ignore"):  # the checks find infinities and NaNs of a broken device
            outcome = model.compute(executor)
        weights_exact = executor.weights_exact()
        executor.finish()
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
