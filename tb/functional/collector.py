"""Collect samples during a test and save them once it has passed.

Counters and file format are those of cocotb-coverage. Each process writes one file to $ECHO_NPU_FUNCTIONAL.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cocotb_coverage.coverage import CoverCross, CoverPoint, coverage_db, coverage_section

from echo_npu.commands.checked import CheckedCommand
from echo_sim.config import NpuConfig
from tb.functional import states
from tb.functional.model import CoverGroup
from tb.functional.plan import PLAN
from tb.functional.samples import Labels, Sample, command_samples, content_samples


class PlanError(ValueError):
    """A sample without a bin in the plan."""


def _matches(value: Labels | None, label: str) -> bool:
    return label in value if isinstance(value, frozenset) else value == label


def _sampler(group: CoverGroup) -> Callable[[Mapping[str, Labels]], None]:
    """Return the function that counts a sample of a group."""

    def of(axis: str) -> Callable[[Mapping[str, Labels]], Labels | None]:
        return lambda values: values.get(axis)

    counters: list[Any] = []
    for counter in group.counters():
        if counter.item in {axis.name for axis in group.axes}:
            point = CoverPoint(
                counter.name,
                xf=of(counter.item),
                rel=_matches,
                bins=list(counter.axes[0].labels),
                inj=False,
            )
            counters.append(point)
        else:
            items = [f"npu.{group.name}.{axis.name}" for axis in counter.axes]
            counters.append(CoverCross(counter.name, items=items))

    def sample(values: Mapping[str, Labels]) -> None:
        pass

    decorated: Callable[[Mapping[str, Labels]], None] = coverage_section(*counters)(sample)
    return decorated


class Coverage:
    """The library's counters for a plan. A process has one tree, so a second object for a plan continues its
    counts."""

    def __init__(self, plan: Sequence[CoverGroup] = PLAN) -> None:
        self._groups = {group.name: group for group in plan}
        self._samplers = {group.name: _sampler(group) for group in plan}

    def sample(self, samples: Iterable[Sample]) -> None:
        """Count samples. Raises PlanError for a label that is not in the plan."""
        for group, values in samples:
            for axis, labels in values.items():
                known = self._groups[group].axis(axis).labels
                for label in labels if isinstance(labels, frozenset) else (labels,):
                    if label not in known:
                        raise PlanError(f"{group}.{axis} has no bin {label!r}")
            self._samplers[group](values)

    def save(self, path: Path) -> None:
        """Write the library's XML, atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        coverage_db.export_to_xml(str(part))
        part.replace(path)


_process: Coverage | None = None
_path: Path | None = None


class Collector:
    """Samples of one test."""

    def __init__(self, config: NpuConfig, knobs: Mapping[str, float], folder: Path) -> None:
        self._config = config
        self._knobs = knobs
        self._folder = folder
        self._samples: list[Sample] = []
        self.drop()

    def commands(self, commands: Sequence[CheckedCommand], contents: Sequence[frozenset[str]]) -> None:
        """Add commands that were executed one after the other and compared, with the kinds of blocks of
        each."""
        self._samples += command_samples(commands, self._config, self._knobs)
        self._samples += content_samples(commands, contents)

    def commit(self) -> None:
        """Count all samples and write the process's file; call it when the test has passed."""
        global _process, _path
        _process = _process or Coverage()
        _path = _path or self._folder / f"{Path.cwd().name}-{os.getpid()}-{time.time_ns()}.xml"
        _process.sample([*self._samples, *states.samples(states.take())])
        _process.save(_path)
        self._samples.clear()

    def drop(self) -> None:
        """Discard the samples so far."""
        self._samples.clear()
        states.take()
