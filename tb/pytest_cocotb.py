"""Run the cocotb suites from pytest: one item per file, configuration and memory timing.

A folder of suites takes part through one line in its conftest.py:

    from tb.pytest_cocotb import pytest_pycollect_makemodule
"""

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
        """Run the job, building the simulator if needed; fail with every failed test, the seed and the replay
        command."""
        failures = self.job.run(as_kind("fast"), None).failures()
        assert not failures, failures

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Report the run; omit the Python traceback unless Python code is at fault."""
        if isinstance(excinfo.value, (AssertionError, SimulationError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the item's location for pytest."""
        return self.path, None, self.job.name


class SuiteFile(pytest.File):
    """A file of cocotb tests, which is only imported inside the simulator."""

    def collect(self) -> Iterator[SimulationItem]:
        """Yield one item per configuration, with and without stalls."""
        suite = suite_of(self.path)
        for config in config_names():
            for stalls in (False, True):
                name = f"{config}-{'stalls' if stalls else 'steady'}"
                yield SimulationItem.from_parent(self, name=name, job=Job(suite, config, stalls))


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> SuiteFile:
    """Collect the file without importing it; a hook of pytest."""
    return SuiteFile.from_parent(parent, path=module_path)
