"""Run cocotb tests from pytest: an item per suite, configuration and memory timing, or per configuration of a
module's testbench.

A folder of suites takes part through one line in its conftest.py:

    from tb.pytest_cocotb import pytest_pycollect_makemodule

and a folder of testbenches through:

    from tb.pytest_cocotb import make_testbench_file as pytest_pycollect_makemodule
"""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from echo_sim.build import as_kind
from echo_sim.config import small_memory_config_names
from echo_sim.run import SimulationError
from tb.blocks import configurations, run_module
from tb.suites import Job, suite_of


class SimulationItem(pytest.Item):
    """One simulator run."""

    def __init__(self, *, simulate: Callable[[], None], title: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._simulate, self._title = simulate, title
        self.add_marker("sim")

    def runtest(self) -> None:
        """Simulate, building the simulator if needed; fail with every failed test, the seed and the replay
        command."""
        self._simulate()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Report the run; omit the Python traceback unless Python code is at fault."""
        if isinstance(excinfo.value, (AssertionError, SimulationError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the item's location for pytest."""
        return self.path, None, self._title


def _play(job: Job) -> None:
    failures = job.run(as_kind("fast"), None).failures()
    assert not failures, failures


class SuiteFile(pytest.File):
    """A file of cocotb tests, which is only imported inside the simulator."""

    def collect(self) -> Iterator[SimulationItem]:
        """Yield one item per configuration, with and without stalls."""
        suite = suite_of(self.path)
        for config in small_memory_config_names():
            for stalls in (False, True):
                name = f"{config}-{'stalls' if stalls else 'steady'}"
                job = Job(suite, config, stalls)
                simulate = functools.partial(_play, job)
                yield SimulationItem.from_parent(self, name=name, simulate=simulate, title=job.name)


class TestbenchFile(pytest.File):
    """A file of cocotb tests of one RTL module, which is only imported inside the simulator."""

    def collect(self) -> Iterator[SimulationItem]:
        """Yield one item per configuration."""
        for parameters in configurations(self.path):
            name = "-".join(f"{each}{value}" for each, value in parameters.items()) or "defaults"
            simulate = functools.partial(run_module, self.path, self.path.stem, **parameters)
            title = f"{self.path.parent.name}-{name}"
            yield SimulationItem.from_parent(self, name=name, simulate=simulate, title=title)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> SuiteFile:
    """Collect the file without importing it; a hook of pytest."""
    return SuiteFile.from_parent(parent, path=module_path)


def make_testbench_file(module_path: Path, parent: pytest.Collector) -> TestbenchFile | None:
    """Collect the file without importing it, if it holds cocotb tests; a hook of pytest."""
    if not module_path.name.startswith("cocotb_"):
        return None
    return TestbenchFile.from_parent(parent, path=module_path)
