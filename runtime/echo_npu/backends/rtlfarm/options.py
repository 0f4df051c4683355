"""The options of the farm."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from echo_npu.backends.base import check_whole
from echo_npu.backends.rtlmodel import Options as RtlOptions

_MOST_JOBS: Final = 4096


@dataclass(frozen=True, slots=True)
class FarmOptions:
    """The options of `echo_npu.open("rtlfarm", ...)` besides the configuration.

    Attributes:
        jobs: simulations at a time on this machine.
        executor: the address of a Dask scheduler, tcp://host:port, whose workers simulate; None: this machine
            does.
        chunk_cycles: about how many cycles a chunk has.
        sample: the share of the chunks that are simulated, above 0 and up to 1; None: all of them.
        seed: of the choice of chunks, and of the memory's stalls.
        latency, bandwidth, stalls: as of rtlmodel.
        timeout: seconds of wall time that one request to a simulation may take, and that the scheduler, or
            all its workers, may be away.
        progress: whether to show a bar on standard error.
        failures: the folder for chunks in which the RTL differs.

    Raises: TypeError, ValueError: naming the option and its value.
    """

    jobs: int = 2
    executor: str | None = None
    chunk_cycles: int = 500_000
    sample: float | None = None
    seed: int = 1
    latency: int = RtlOptions().latency
    bandwidth: float | None = None
    stalls: float | Mapping[str, float] = field(default_factory=dict)
    timeout: float = 600.0
    progress: bool = False
    failures: str | os.PathLike[str] = "failures"

    def __post_init__(self) -> None:
        check_whole("jobs", self.jobs, 1, _MOST_JOBS)
        check_whole("chunk_cycles", self.chunk_cycles, 1, 1 << 32)
        if self.sample is not None:
            if not isinstance(self.sample, (int, float)) or isinstance(self.sample, bool):
                raise TypeError(f"sample is {_shown(self.sample)}; it must be a number")
            if not 0 < self.sample <= 1:
                raise ValueError(f"sample is {self.sample}; it must be above 0 and at most 1")
        if self.executor is not None and (not isinstance(self.executor, str) or "://" not in self.executor):
            raise ValueError(f"executor is {self.executor!r}; it is a scheduler's address, tcp://host:port")
        if not isinstance(self.progress, bool):
            raise TypeError(f"progress is {_shown(self.progress)}; it must be True or False")
        if not isinstance(self.failures, (str, os.PathLike)) or not isinstance(os.fspath(self.failures), str):
            raise TypeError(f"failures is {_shown(self.failures)}; it must be a path")
        if "\0" in str(self.failures):
            raise ValueError(f"failures is {self.failures!r}; no path has a zero in it")
        try:
            os.fsencode(self.failures)
        except UnicodeEncodeError:
            raise ValueError(f"failures is {self.failures!r}; no path has these characters") from None
        self.simulation()

    def simulation(self) -> RtlOptions:
        """Return the options of each simulation."""
        return RtlOptions(
            latency=self.latency,
            bandwidth=self.bandwidth,
            stalls=self.stalls,
            seed=self.seed,
            timeout=self.timeout,
        )


def _shown(value: object) -> str:
    return f"{value!r} ({type(value).__name__})"
