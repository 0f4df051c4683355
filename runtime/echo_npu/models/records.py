"""What a run of a layer leaves behind: one record for each operation, and the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One operation.

    Attributes:
        name: its role in the layer, e.g. "scores".
        op: opcode or host operation, e.g. "MATMUL", "softmax".
        where: "NPU" or "CPU".
        shape: its size, for people.
        cycles: device cycles while it ran; 0 where the backend has no cycles or the host did it.
        macs: multiply-accumulates on the matrix engine.
        utilisation: macs / (cycles * array rows * array columns); None where there is nothing to divide.
        bus: busier of the read and the write channel of the memory bus, beats / cycles; None likewise.
        exact: whether device memory is, bit for bit, what the functional model makes of the same packets on
            the same memory; None for the host's operations.
        error: largest error against float64, relative to the magnitude of the terms that were summed.
        bound: the largest error allowed.
    """

    name: str
    op: str
    where: str
    shape: str
    error: float
    bound: float
    cycles: int = 0
    macs: int = 0
    utilisation: float | None = None
    bus: float | None = None
    exact: bool | None = None

    @property
    def accurate(self) -> bool:
        """Whether the error is within its bound; a NaN is not."""
        return self.error <= self.bound

    @property
    def passed(self) -> bool:
        return self.accurate and self.exact is not False

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "op": self.op,
            "where": self.where,
            "shape": self.shape,
            "cycles": self.cycles,
            "macs": self.macs,
            "utilisation": self.utilisation,
            "bus": self.bus,
            "exact": self.exact,
            "error": self.error,
            "bound": self.bound,
            "passed": self.passed,
        }


@dataclass(frozen=True, slots=True)
class LayerRun:
    """A layer that has run.

    Attributes:
        title: which layer, on which backend and configuration.
        backend, config: their names.
        records: in the order of execution.
        weights_exact: whether weight memory holds, bit for bit, what was put there.
        layer_error: largest error of the layer's output against the independent float64 reference, relative
            to the largest output of the same token.
        layer_bound: the largest such error allowed.
        cycles: device cycles of all NPU operations.
        macs: of all NPU operations.
        utilisation: macs / (cycles * array rows * array columns); None without cycles.
        wall_s: seconds of the whole run, checks included, set-up of the simulator excluded.
        device_s: seconds in which the device worked.
        tokens: rows of the input.
        notes: sentences about what was prepared where.
        waves_command: what to type for a waveform of the same run.
        waves_file: where the waveform of this run is; empty without one.
        exact_means: what was compared with what under "exact".
    """

    title: str
    backend: str
    config: str
    records: tuple[OpRecord, ...]
    weights_exact: bool
    layer_error: float
    layer_bound: float
    cycles: int
    macs: int
    utilisation: float | None
    wall_s: float
    device_s: float
    tokens: int
    notes: tuple[str, ...] = ()
    waves_command: str = ""
    waves_file: str = ""
    exact_means: str = ""

    @property
    def passed(self) -> bool:
        """Whether every operation, the weights and the layer as a whole are right."""
        return (
            bool(self.records)
            and all(record.passed for record in self.records)
            and self.weights_exact
            and self.layer_error <= self.layer_bound
        )

    @property
    def failures(self) -> list[str]:
        """A sentence for each thing that is wrong."""
        found = []
        for record in self.records:
            if record.exact is False:
                found.append(f"{record.name}: device memory differs from the functional model's")
            if not record.accurate:
                found.append(
                    f"{record.name}: error {record.error:.3g} against float64, bound {record.bound:.3g}"
                )
        if not self.weights_exact:
            found.append("weight memory differs from what was put there")
        if not self.layer_error <= self.layer_bound:
            found.append(f"layer: error {self.layer_error:.3g} against float64, bound {self.layer_bound:.3g}")
        if not self.records:
            found.append("nothing ran")
        return found

    @property
    def cycles_per_s(self) -> float:
        """Cycles a second while the device worked; 0 without cycles."""
        return self.cycles / self.device_s if self.device_s > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "layer": self.title,
            "backend": self.backend,
            "config": self.config,
            "tokens": self.tokens,
            "passed": self.passed,
            "failures": self.failures,
            "cycles": self.cycles,
            "macs": self.macs,
            "utilisation": self.utilisation,
            "wall_s": self.wall_s,
            "device_s": self.device_s,
            "cycles_per_s": self.cycles_per_s,
            "layer_error": self.layer_error,
            "layer_bound": self.layer_bound,
            "weights_exact": self.weights_exact,
            "notes": list(self.notes),
            "waves_command": self.waves_command,
            "waves_file": self.waves_file,
            "exact_means": self.exact_means,
            "ops": [record.to_dict() for record in self.records],
        }
