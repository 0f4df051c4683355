"""Runs one layer on one device, checked op by op and as a whole."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from echo_npu.device import Device
from echo_npu.models import reference
from echo_npu.models.executor import Executor, array_size
from echo_npu.models.layer_types import F32, LayerCase
from echo_npu.models.records import LayerRun, OpRecord
from echo_npu.models.transformer import TransformerLayer

LAYER_BOUND = 1e-5
"""Largest error of a whole layer against float64, as a part of the largest value of the same token."""


def run_layer(
    case: LayerCase,
    device: Device,
    twin: Device,
    *,
    on_record: Callable[[OpRecord], None] | None = None,
    on_loaded: Callable[[TransformerLayer], None] | None = None,
    title: str | None = None,
    waves_command: str = "",
    waves_file: str = "",
) -> LayerRun:
    """Run `case` on `device`.

    Args:
        device: any backend.
        twin: a cmodel device of its own, which tells what the device should have done.
        on_record: called after each operation.
        on_loaded: called when weights and input are in device memory, before anything is computed.

    Raises:
        NpuOutOfMemoryError, NpuDeviceError, NpuTimeoutError, SimulatorError: as the device does.
    """
    start = time.perf_counter()
    executor = Executor(device, twin, on_record=on_record)
    try:
        layer = TransformerLayer(case, executor)
        layer.load()
        if on_loaded is not None:
            on_loaded(layer)
        with np.errstate(all="ignore"):  # infinities and NaNs of a broken device fail the checks
            output = layer.run()
        weights_exact = executor.weights_exact()
    finally:
        executor.release()
    cycles = sum(record.cycles for record in executor.records)
    macs = sum(record.macs for record in executor.records)
    name = device.backend.name
    return LayerRun(
        title=title or f"{case.name} on {name}",
        backend=name,
        config=device.config,
        records=tuple(executor.records),
        weights_exact=weights_exact,
        layer_error=layer_error(case, output),
        layer_bound=LAYER_BOUND,
        cycles=cycles,
        macs=macs,
        utilisation=macs / (cycles * array_size(device)) if cycles else None,
        wall_s=time.perf_counter() - start,
        device_s=executor.device_seconds,
        tokens=len(case.hidden_in),
        notes=case.notes,
        waves_command=waves_command,
        waves_file=waves_file,
        exact_means=(
            "the functional model against itself (run on rtlmodel to compare the RTL)"
            if name == "cmodel"
            else f"all activation memory after each command, {name} against the functional model, bit for bit"
        ),
    )


def layer_error(case: LayerCase, output: F32) -> float:
    """The largest difference from the float64 reference, each token relative to its largest value."""
    truth = reference.layer(case.config, case.weights, case.hidden_in)
    scale = np.max(np.abs(truth), axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        return float(np.max(np.abs(output.astype(np.float64) - truth) / scale))
