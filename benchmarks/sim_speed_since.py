"""Simulators of earlier commits, to be measured beside today's."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from echo_sim.build import BuildError
from tb.repository import ROOT

TREES: Final = ROOT / "sim_build" / "since"
"""The trees of earlier commits, each named after its commit."""

_BUILD: Final = """
import sys
from pathlib import Path
if Path("runtime/echo_sim").is_dir():
    from echo_sim.build import build
    from echo_sim.designs import bare_design
else:  # in earlier trees tb/ builds simulators; an installed echo_sim would build today's
    from tb.designs import bare_design
    from tb.runner import build
program = build(bare_design(sys.argv[1], Path(sys.argv[2]))) / "npu_tb"
assert program.is_relative_to(Path.cwd()), f"{program} is not of this tree"
print(program)
"""


def resolve(commit: str) -> str:
    """Return the full name of a commit. Raises ValueError: there is none of that name, or no repository."""
    found = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if found.returncode:
        raise ValueError(f"SINCE={commit}: git knows no such commit")
    return found.stdout.strip()


def earlier_program(commit: str, config: str, main: Path) -> Path:
    """Build the board of an earlier commit with the main program `main`; return the simulator's path.

    The tree stays below sim_build/, so the next build of the same commit is quick.

    Raises:
        ValueError: no such commit.  BuildError: its tree does not build; with the end of its log.
    """
    name = resolve(commit)
    tree = TREES / name[:12]
    if not (tree / "rtl").is_dir():
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir(parents=True)
        archive = subprocess.Popen(["git", "archive", name], cwd=ROOT, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", str(tree)], stdin=archive.stdout, check=True)
        if archive.wait():
            raise BuildError(f"git cannot give the tree of {commit}")
    # Its own main program may know less; today's builds against it.
    shutil.copy(main, tree / "benchmarks" / main.name)
    result = subprocess.run(
        [sys.executable, "-c", _BUILD, config, str(tree / "benchmarks" / main.name)],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(tree / "runtime"), str(tree)))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if result.returncode:
        raise BuildError(f"the board of {commit} does not build:\n{result.stdout[-3000:]}")
    return Path(result.stdout.splitlines()[-1])
