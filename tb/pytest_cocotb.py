"""Lets pytest run the cocotb suites: one pytest item for each (file, configuration, memory), plain pytest
outside.

A folder of suites takes part with one line in its conftest.py:

    from tb.pytest_cocotb import pytest_pycollect_makemodule
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from echo_sim.build import as_kind
from echo_sim.config import config_names
from echo_sim.run import SimulationError
from tb.suites import Job, suite_of


class SimulationItem(pytest.Item):
    """One simulator run."""

    def __init__(self, *, job: Job, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.job = job
        self.add_marker("sim")

    def runtest(self) -> None:
        """Build if needed, run, and fail with every failed test, the seed and the replay command."""
        failures = self.job.run(as_kind("fast"), None).failures()
        assert not failures, failures

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The report of the run; no Python traceback for what is not a fault of Python code."""
        if isinstance(excinfo.value, (AssertionError, SimulationError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where pytest says the item is."""
        return self.path, None, self.job.name


class SuiteFile(pytest.File):
    """A file of cocotb tests; it is never imported here, only inside the simulator."""

    def collect(self) -> Iterator[SimulationItem]:
        """One item for each configuration, with and without stalls."""
        suite = suite_of(self.path)
        for config in config_names():
            for stalls in (False, True):
                name = f"{config}-{'stalls' if stalls else 'steady'}"
                yield SimulationItem.from_parent(self, name=name, job=Job(suite, config, stalls))


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> SuiteFile:
    """pytest's hook: takes the place of importing the file."""
    return SuiteFile.from_parent(parent, path=module_path)
