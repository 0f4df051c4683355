"""Make a simulator faster: compile it for what it ran (profile-guided optimization by g++)."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from echo_sim.build import PROFILE_VARIABLE, BuildError, as_design, build, build_directory
from echo_sim.compilers import find_compiler
from echo_sim.designs import Design


def tune(design: Design | str, workload: Callable[[], None], *, quiet: bool = False) -> Path:
    """Compile the simulator anew for what `workload` does; return the build directory.

    A simulator that counts its branches is built, `workload` runs it, and the simulator of the kind "fast" is
    compiled with the counts. Bits and cycles stay. A tune that fails or is killed leaves what was there, or
    nothing; the next `build` makes what is missing.

    Args:
        design: a Design, or the name of a configuration.
        workload: starts simulators of this design by `echo_sim.run`, and returns when they have ended.

    Raises:
        BuildError: another compiler than g++ is chosen, or the workload ran no simulator to its end.

    Raises also as `build`, and what `workload` raises.
    """
    target = as_design(design)
    if find_compiler().clang:
        raise BuildError("only g++ tunes a simulator: set CXX=g++")
    counting = build_directory(target, "profile")
    shutil.rmtree(counting, ignore_errors=True)  # counts of an earlier workload
    before = os.environ.get(PROFILE_VARIABLE)
    os.environ[PROFILE_VARIABLE] = "1"
    try:
        build(target, quiet=quiet)
        workload()
    finally:
        if before is None:
            del os.environ[PROFILE_VARIABLE]
        else:
            os.environ[PROFILE_VARIABLE] = before
    counts = sorted(counting.glob("*.gcda"))
    if not counts:
        raise BuildError(f"no simulator of {target.name} ran to its end, so there is nothing to tune it for")
    directory = build(target, counts=counts, quiet=quiet)
    shutil.rmtree(counting, ignore_errors=True)
    return directory
