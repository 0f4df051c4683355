"""The records of a model's run: one for each operation, and the whole."""

from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One operation.

    Attributes:
        name: its role in the model, e.g. "scores".
        op: the operation of `Device`, e.g. "matmul".
        where: what computed it: "NPU".
        shape: its size, for people.
        cycles: device cycles while it ran; 0 where the backend has no cycles.
        macs: multiply-accumulates on the matrix engine.
        utilisation: macs / (cycles * array rows * array columns); None without cycles or macs.
        bus: beats / cycles of the busier of the read and the write channel of the memory bus; None without
            cycles.
        exact: whether device memory equals the functional model's, bit for bit, after the same call on the
            same memory.
        error: largest error against float64, relative to the magnitude of the terms that were summed.
        bound: the largest error allowed.
    """

    name: str
    op: str
    where: str
    shape: str
    error: float
    bound: float
    cycles: int
    macs: int
    utilisation: float | None
    bus: float | None
    exact: bool

    @property
    def accurate(self) -> bool:
        """Whether the error is within its bound; a NaN is not."""
        return self.error <= self.bound

    @property
    def passed(self) -> bool:
        return self.accurate and self.exact

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as data for JSON."""
        return {**asdict(self), "passed": self.passed}


@dataclass(frozen=True, slots=True)
class Check:
    """A figure of the whole model, against an independent float64 reference.

    Attributes:
        key: its name in JSON; the bound's name is `key` with "bound" as the last word.
        meaning: what is measured, for people.
        value, bound: the check passes if value <= bound; a NaN fails.
    """

    key: str
    meaning: str
    value: float
    bound: float

    @property
    def passed(self) -> bool:
        return self.value <= self.bound

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as data for JSON."""
        stem = self.key.rpartition("_")[0]
        return {self.key: self.value, f"{stem}_bound": self.bound}


@dataclass(frozen=True, slots=True)
class ModelRun:
    """A model that has run.

    Attributes:
        title: which model, on which backend and configuration.
        backend, config: their names.
        records: in the order of execution.
        weights_exact: whether weight memory held, bit for bit, what was uploaded.
        checks: of the model as a whole.
        results: what the model computed, as plain data by their names in JSON.
        summary: sentences about the results.
        notes: sentences about the input and its preparation.
        cycles: device cycles of all operations.
        macs: of all operations.
        utilisation: macs / (cycles * array rows * array columns); None without cycles.
        wall_s: seconds of the whole run, checks included, set-up of the simulator excluded.
        device_s: seconds in which the device worked.
        exact_means: what "exact" compared.
        waves_command: command that makes a waveform of the same run; empty if there is none.
        waves_file: path of the waveform of this run; empty without one.
    """

    title: str
    backend: str
    config: str
    records: tuple[OpRecord, ...]
    weights_exact: bool
    checks: tuple[Check, ...]
    results: dict[str, Any]
    summary: tuple[str, ...]
    notes: tuple[str, ...]
    cycles: int
    macs: int
    utilisation: float | None
    wall_s: float
    device_s: float
    exact_means: str
    waves_command: str = ""
    waves_file: str = ""

    @property
    def passed(self) -> bool:
        """Whether every operation, the weights and the model as a whole are right."""
        return not self.failures

    @property
    def failures(self) -> list[str]:
        """A sentence for each failed check."""
        found = []
        for record in self.records:
            if not record.exact:
                found.append(f"{record.name}: device memory differs from the functional model's")
            if not record.accurate:
                found.append(
                    f"{record.name}: error {record.error:.3g} against float64, bound {record.bound:.3g}"
                )
        if not self.weights_exact:
            found.append("weight memory differs from what was put there")
        found += [
            f"{check.meaning}: {check.value:.3g}, bound {check.bound:.3g}"
            for check in self.checks
            if not check.passed
        ]
        if not self.records:
            found.append("nothing ran")
        return found

    @property
    def cycles_per_s(self) -> float:
        """Cycles a second while the device worked; 0 without cycles."""
        return self.cycles / self.device_s if self.device_s > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as data for JSON."""
        computed = ("records", "checks", "results", "summary")
        made = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in computed}
        made |= {"notes": list(self.notes), **self.results, "passed": self.passed, "failures": self.failures}
        for check in self.checks:
            made |= check.to_dict()
        return made | {
            "cycles_per_s": self.cycles_per_s,
            "ops": [record.to_dict() for record in self.records],
        }
