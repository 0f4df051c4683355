"""The one place that builds and starts a simulator.

`build` compiles a design once for each kind and keeps it in sim_build/ until a source, a flag or a tool
changes. `run` executes cocotb tests to the end and returns what each did; `launch` starts a simulator and
returns at once. cocotb's own runner makes the commands; they are executed here, in a process group of their
own, with a time-out.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import cocotb_tools.runner

from tb.designs import Design, npu_design
from tb.npu_config import ROOT
from tb.processes import ChildProcess, run_bounded
from tb.tools import Verilator, compiler_version, find_libpython, find_verilator

Kind = Literal["fast", "waves", "coverage"]
KINDS: tuple[Kind, ...] = ("fast", "waves", "coverage")

SIM_BUILD = ROOT / "sim_build"
WAVES = ROOT / "waves"
RUNS_VARIABLE = "ECHO_NPU_RUNS"
RUNS = Path(os.environ.get(RUNS_VARIABLE) or SIM_BUILD / "runs")
"""Run directories. Who does the same twice at the same time names another folder in $ECHO_NPU_RUNS."""

# Through make: the same flags through Verilator's -CFLAGS would also reach its symbol tables, one of which
# then compiles for minutes.
MAKE_FLAGS = {"OPT_FAST": "-O3 -march=native", "OPT_GLOBAL": "-O2 -march=native", "OPT_SLOW": "-O0"}

VERILATOR_ARGS = (
    "--no-public-flat-rw",
    "--timing",
    "--assert",
    "-Wall",
    "--x-initial",
    "unique",
    # Loops over lanes and array cells stay loops in C++: the compiler turns them into vector instructions,
    # and there is far less code to compile.
    "--unroll-count",
    "1",
    "--output-split",
    "8000",
    "--output-split-cfuncs",
    "2000",
    "-LDFLAGS",
    "-rdynamic",  # Python finds the memory model's functions in the running program
)
KIND_ARGS: dict[str, tuple[str, ...]] = {
    "fast": (),
    "waves": ("--trace-structs", "-DNPU_TB_CLOCK"),
    # Line (with branches) and toggle; expression coverage on top is an internal error of Verilator 5.48.
    "coverage": ("--coverage-line", "--coverage-toggle", "--coverage-user"),
}

# pytest's better messages for failed assertions. For every module, numpy included, they would take most of a
# simulator's start.
REWRITTEN_MODULES = "test_*.py cocotb_*.py"

KIND_CONTROL: dict[str, tuple[Path, ...]] = {
    "fast": (),
    "waves": (ROOT / "tb" / "waves" / "trace.vlt",),
    "coverage": (),
}

COVERAGE_VARIABLE = "ECHO_NPU_COVERAGE"
"""Names a folder: every simulator that would be of the kind "fast" is of the kind "coverage" then, and leaves
the points that it reached there, in a file of its own."""

BUILD_TIMEOUT_S = 1200.0
RUN_TIMEOUT_S = 1200.0


class BuildError(RuntimeError):
    """Verilator or the compiler refused; the message ends with the log's last lines and says where the log
    is."""


class SimulationError(RuntimeError):
    """A simulation that gave no usable result: it crashed, ran into its time-out, or ran no test at all."""


# ----------------------------------------------------------------------------------------------------
# commands


@dataclasses.dataclass(frozen=True)
class _Planned:
    commands: list[list[str]]
    environment: dict[str, str]


class _PlannedSignal(Exception):  # noqa: N818  (not an error)
    """Leaves cocotb's runner once it has made its commands."""


class _PlanningRunner(cocotb_tools.runner.Verilator):
    """cocotb's Verilator runner, except that it hands its commands over instead of executing them."""

    planned: _Planned

    def _execute(self, cmds: Sequence[Sequence[str]], cwd: object) -> None:
        self.planned = _Planned([[str(word) for word in command] for command in cmds], dict(self.env))
        raise _PlannedSignal


_environment_lock = threading.Lock()


@contextlib.contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """os.environ as cocotb's runner must see it: it reads WAVES, GUI and pytest's variables behind its
    arguments."""
    with _environment_lock:
        saved = dict(os.environ)
        try:
            for name in (
                "WAVES",
                "GUI",
                "PYTEST_CURRENT_TEST",
                "MAKEFLAGS",
                "MFLAGS",
                "MAKELEVEL",
                "COCOTB_TEST_FILTER",
            ):
                os.environ.pop(name, None)
            os.environ.update(changes)
            yield
        finally:
            os.environ.clear()
            os.environ.update(saved)


def _plan(changes: Mapping[str, str], method: Literal["build", "test"], **arguments: Any) -> _Planned:
    with _environment(changes):
        runner = _PlanningRunner()
        with contextlib.suppress(_PlannedSignal):
            getattr(runner, method)(**arguments)
    return runner.planned


# -------------------------------------------------------------------------------------------------------
# build


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("flags"):
                return hashlib.sha256(line.encode()).hexdigest()
    return platform.processor()


def _inputs(design: Design, kind: Kind) -> list[Path]:
    headers = [
        path
        for folder in design.includes
        for pattern in ("*.svh", "*.vh")
        for path in sorted(folder.glob(pattern))
    ]
    cpp = (*design.cpp, *((design.main,) if design.main else ()))
    headers += [path for source in cpp for path in sorted(source.parent.glob("*.hpp"))]
    return sorted({*design.sources, *design.control, *KIND_CONTROL[kind], *cpp, *headers})


def _fingerprint(design: Design, kind: Kind, verilator: Verilator) -> str:
    """Everything that the simulator depends on, as one hash."""
    digest = hashlib.sha256()
    facts = [
        design.top,
        sorted((name, str(value)) for name, value in design.parameters.items()),
        sorted(design.defines.items()),
        design.public,
        design.verilator_args,
        [str(path) for path in design.sources],
        [str(design.main), design.cocotb],
        kind,
        VERILATOR_ARGS,
        KIND_ARGS[kind],
        sorted(MAKE_FLAGS.items()),
        str(verilator.program),
        verilator.version,
        compiler_version(),
        importlib.metadata.version("cocotb"),
        sys.version,
        _cpu_model(),
    ]
    digest.update(json.dumps(facts).encode())
    for path in _inputs(design, kind):
        digest.update(str(path).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class _Progress:
    """One line on standard error while a build runs; rewritten in place on a terminal."""

    def __init__(self, name: str, directory: Path, quiet: bool) -> None:
        self._name = name
        self._directory = directory
        self._quiet = quiet
        self._live = not quiet and sys.stderr.isatty()
        self._started = time.monotonic()
        self._since = time.time()
        if not quiet and not self._live:
            _say(f"building {name} ...")

    def tick(self, _: float) -> None:
        if not self._live:
            return
        total = 0
        with contextlib.suppress(OSError):
            listing = (self._directory / "Vtop_classes.mk").read_text(encoding="utf-8")
            total = len(re.findall(r"^\t(Vtop|verilated)\w* \\$", listing, re.MULTILINE))
        done = sum(1 for path in self._directory.glob("*.o") if path.stat().st_mtime >= self._since)
        seconds = time.monotonic() - self._started
        what = f"compiled {done} of {max(total, done)} files" if done else "translating"
        print(f"\rbuilding {self._name}: {what}, {seconds:.0f} s \x1b[K", end="", file=sys.stderr, flush=True)

    def finish(self) -> None:
        seconds = time.monotonic() - self._started
        if not self._quiet:
            lead = "\r" if self._live else ""
            tail = "\x1b[K" if self._live else ""
            _say(f"{lead}built {self._name} in {seconds:.0f} s{tail}")


def _as_design(design: Design | str) -> Design:
    return npu_design(design) if isinstance(design, str) else design


def as_asked(kind: Kind) -> Kind:
    """The kind that is built and run where `kind` is meant."""
    return "coverage" if kind == "fast" and os.environ.get(COVERAGE_VARIABLE) else kind


def coverage_file(run_directory: Path) -> Path:
    """Where a simulator of the kind "coverage" writes what it reached."""
    folder = os.environ.get(COVERAGE_VARIABLE)
    if not folder:
        return run_directory / "coverage.dat"
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder).resolve() / f"{run_directory.name}-{os.getpid()}-{time.monotonic_ns()}.dat"


def build_directory(design: Design | str, kind: Kind = "fast") -> Path:
    """Where `build` puts the simulator of this design and kind."""
    target = _as_design(design)
    return SIM_BUILD / f"{target.name}-{kind}-{target.top}"


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Held by one builder at a time, across processes; released by the kernel if its holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _host_refusals(name: str) -> Iterator[None]:
    """What the host refuses to a build, room on the disk for one, is a BuildError."""
    try:
        yield
    except OSError as error:
        raise BuildError(f"building {name} failed: {error}") from error


def build(design: Design | str = "default", kind: Kind = "fast", *, quiet: bool = False) -> Path:
    """Build the simulator unless it is there and up to date; return the build directory. With
    $ECHO_NPU_COVERAGE set, "coverage" is built in place of "fast".

    `design` is a Design or the name of a configuration. Building is serialised across processes.

    Raises:
        ToolMissingError: compiler, make, perl, libpython or Verilator is not there.
        ConfigError: no such configuration, or an illegal one.
        BuildError: Verilator or the compiler refused the sources (a warning is an error), or took too long,
            or the disk is full.
    """
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r}: it must be one of {', '.join(KINDS)}")
    kind = as_asked(kind)
    target = _as_design(design)
    directory = build_directory(target, kind)
    if any(character.isspace() for character in str(directory)):
        raise BuildError(f"GNU make cannot build in a path with a space in it: {directory}")
    verilator = find_verilator()
    find_libpython()
    stamp = directory / "fingerprint"
    with _host_refusals(directory.name), _exclusive(SIM_BUILD / f".{directory.name}.lock"):
        fingerprint = _fingerprint(target, kind, verilator)
        if (directory / target.top).exists() and stamp.exists() and stamp.read_text() == fingerprint:
            return directory
        directory.mkdir(parents=True, exist_ok=True)
        stamp.unlink(missing_ok=True)
        for header in directory.glob("*.gch"):
            header.unlink()  # a compiler that was killed leaves half of one, newer than its source
        progress = _Progress(directory.name, directory, quiet)
        _compile(target, kind, verilator, directory, progress.tick)
        stamp.write_text(fingerprint)
        progress.finish()
    return directory


def _compile(
    design: Design, kind: Kind, verilator: Verilator, directory: Path, tick: Callable[[float], None]
) -> None:
    environment = {
        "PATH": f"{verilator.program.parent}{os.pathsep}{os.environ.get('PATH', '')}",
        **verilator.environment,
    }
    planned = (_plan_cocotb if design.cocotb else _plan_plain)(design, kind, directory, environment)
    translate, compile_ = planned.commands
    variables = {**MAKE_FLAGS, **verilator.make_variables}
    if "OBJCACHE" not in os.environ:  # a user's ccache does the same and more
        tool = Path(__file__).with_name("object_cache.py")
        variables["OBJCACHE"] = f"{sys.executable} {tool} {SIM_BUILD / 'objects'} $(VERILATOR_ROOT)/include"
    compile_ += [f"{name}={value}" for name, value in variables.items()]
    log = directory / "build.log"
    for step, command in enumerate((translate, compile_)):
        try:
            status = run_bounded(
                command,
                env=planned.environment,
                cwd=directory,
                log=log,
                append=step > 0,
                timeout=BUILD_TIMEOUT_S,
                tick=tick,
            )
        except subprocess.TimeoutExpired as error:
            raise BuildError(
                f"building {directory.name} took more than {error.timeout:.0f} s; log: {log}"
            ) from None
        if status != 0:
            tail = _complaints(log.read_text(encoding="utf-8", errors="replace"))
            raise BuildError(f"building {directory.name} failed:\n{tail}\nfull log: {log}")


def _verilator_args(design: Design, kind: Kind) -> list[str]:
    return [
        *VERILATOR_ARGS,
        *(("--public-flat-rw",) if design.public else ()),
        *KIND_ARGS[kind],
        *design.verilator_args,
        *(str(path) for path in design.cpp),
    ]


def _plan_cocotb(design: Design, kind: Kind, directory: Path, environment: Mapping[str, str]) -> _Planned:
    """The commands that build a simulator which runs cocotb."""
    planned = _plan(
        environment,
        "build",
        sources=[
            *(
                cocotb_tools.runner.VerilatorControlFile(path)
                for path in (*design.control, *KIND_CONTROL[kind])
            ),
            *(cocotb_tools.runner.Verilog(path) for path in design.sources),
        ],
        includes=design.includes,
        defines=design.defines,
        parameters=design.parameters,
        hdl_toplevel=design.top,
        build_args=_verilator_args(design, kind),
        build_dir=directory,
        timescale=("1ns", "1ps"),
        waves=kind == "waves",
    )
    if design.main:
        ours = str(design.main)
        translate, compile_ = planned.commands
        translate = [ours if Path(word).name == "verilator.cpp" else word for word in translate]
        planned = dataclasses.replace(planned, commands=[translate, compile_])
    return planned


def _plan_plain(design: Design, kind: Kind, directory: Path, environment: Mapping[str, str]) -> _Planned:
    """The commands that build a simulator without cocotb."""
    translate = [
        "verilator",
        "--cc",
        "--exe",
        *("-Mdir", str(directory), "--prefix", "Vtop", "--top-module", design.top, "-o", design.top),
        *("--timescale", "1ns/1ps"),
        *_verilator_args(design, kind),
        *(f"-D{name}={value}" for name, value in design.defines.items()),
        *(f"-I{folder}" for folder in design.includes),
        *(f"-G{name}={value}" for name, value in design.parameters.items()),
        *(str(path) for path in (*design.control, *KIND_CONTROL[kind], *design.sources)),
        str(design.main),
    ]
    compile_ = ["make", "-j", str(os.cpu_count() or 1), "-C", str(directory), "-f", "Vtop.mk"]
    return _Planned([translate, compile_], {**os.environ, **environment})


def _complaints(text: str) -> str:
    """The lines of a build log that say what is wrong, or its end."""
    lines = text.splitlines()
    wanted = [
        i for i, line in enumerate(lines) if re.search(r"%(Error|Warning)|\berror:|undefined reference", line)
    ]
    if not wanted:
        return "\n".join(lines[-30:])
    keep = sorted({j for i in wanted[:12] for j in range(i, min(i + 4, len(lines)))})
    return "\n".join(lines[i] for i in keep)


# ---------------------------------------------------------------------------------------------------------
# run


@dataclasses.dataclass(frozen=True)
class TestOutcome:
    """One cocotb test: what it did, and how fast. `cycles` assumes the 10 ns clock of the benches."""

    __test__ = False

    module: str
    name: str
    passed: bool
    skipped: bool
    message: str
    sim_time_ns: float
    wall_s: float

    @property
    def cycles(self) -> int:
        """Clock cycles simulated."""
        return round(self.sim_time_ns / 10)


@dataclasses.dataclass(frozen=True)
class RunResult:
    """Everything that one simulator run left behind."""

    outcomes: list[TestOutcome]
    seed: int
    results_xml: Path
    log: Path
    waves: Path | None
    replay: str

    @property
    def passed(self) -> bool:
        """Whether every test passed."""
        return all(outcome.passed or outcome.skipped for outcome in self.outcomes)

    def failures(self) -> str:
        """A report of the failed tests, the seed and the command that replays them; empty when all passed."""
        failed = [outcome for outcome in self.outcomes if not (outcome.passed or outcome.skipped)]
        if not failed:
            return ""
        lines = [f"{outcome.module}.{outcome.name} failed: {outcome.message}" for outcome in failed]
        lines += self._broken_assertions()
        return "\n".join([*lines, f"seed {self.seed}; log: {self.log}", f"replay: {self.replay}"])

    def _broken_assertions(self) -> list[str]:
        """What the assertions of the RTL and of the protocol checkers said; the first one ended the run."""
        if not self.log.is_file():
            return []
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return [line.strip() for line in file if "%Error" in line and "Assertion failed in" in line]


def choose_seed() -> int:
    """`$SEED` when set, else a fresh random one. ValueError when it is not a whole number."""
    text = os.environ.get("SEED", "")
    if not text:
        return random.SystemRandom().randrange(1 << 31)
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"SEED={text!r}: it must be a whole number") from None


def wave_path(name: str) -> Path:
    """The VCD file of the test `name`."""
    return WAVES / f"{name}.vcd"


def launch(
    design: Design | str,
    kind: Kind = "fast",
    *,
    test_module: str | Sequence[str],
    name: str,
    env: Mapping[str, str] | None = None,
    seed: int = 1,
    test_filter: str | None = None,
    quiet: bool = False,
) -> ChildProcess:
    """Build if needed and start a simulator on cocotb tests in its own process group; return without waiting.

    `name` (unique among runs at the same time) names the run's directory sim_build/runs/<name>, which gets
    simulator.log and results.xml, and with kind "waves" the file waves/<name>.vcd. The simulator ends when
    this process does.

    Raises: as `build`.
    """
    kind = as_asked(kind)
    target = _as_design(design)
    directory = build(target, kind, quiet=quiet)
    run_directory = RUNS / name
    run_directory.mkdir(parents=True, exist_ok=True)
    results = run_directory / "results.xml"
    # Where bits are counted they begin as zeros: one that only powers up as a one has not toggled.
    power_up = 0 if kind == "coverage" else 2
    arguments = [f"+verilator+rand+reset+{power_up}", f"+verilator+seed+{seed % 0x7FFFFFFF + 1}"]
    if kind == "waves":
        WAVES.mkdir(exist_ok=True)
        arguments = ["--trace-file", str(wave_path(name)), *arguments]
    if kind == "coverage":
        arguments.append(f"+verilator+coverage+file+{coverage_file(run_directory)}")
    planned = _plan(
        {},
        "test",
        test_module=test_module,
        hdl_toplevel=target.top,
        hdl_toplevel_lang="verilog",
        test_args=arguments,
        build_dir=directory,
        test_dir=run_directory,
        results_xml=str(results),
        waves=kind == "waves",
        seed=seed,
        test_filter=test_filter,
    )
    (command,) = planned.commands
    search = [str(ROOT), str(ROOT / "runtime"), *planned.environment["PYTHONPATH"].split(os.pathsep)]
    environment = {
        **planned.environment,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(path for path in search if path)),
        "COCOTB_RANDOM_SEED": str(seed),
        "COCOTB_REWRITE_ASSERTION_FILES": REWRITTEN_MODULES,
        **(env or {}),
    }
    results.unlink(missing_ok=True)
    return ChildProcess(command, env=environment, cwd=run_directory, log=run_directory / "simulator.log")


def run(
    design: Design | str,
    test_module: str | Sequence[str],
    kind: Kind = "fast",
    *,
    name: str,
    replay: str,
    env: Mapping[str, str] | None = None,
    seed: int | None = None,
    test_filter: str | None = None,
    timeout: float = RUN_TIMEOUT_S,
    quiet: bool = False,
) -> RunResult:
    """Build if needed, run cocotb tests to the end and collect what they did.

    `replay` is the command, without the seed, that runs the same again; `timeout` is in seconds of wall time.

    Raises:
        SimulationError: a crash, a time-out (the whole process group is gone then), or not a single test was
            run. and as `build`.
    """
    chosen = choose_seed() if seed is None else seed
    child = launch(
        design,
        kind,
        test_module=test_module,
        name=name,
        env=env,
        seed=chosen,
        test_filter=test_filter,
        quiet=quiet,
    )
    again = f"SEED={chosen} {replay}" if not replay.startswith("make ") else f"{replay} SEED={chosen}"
    where = f"seed {chosen}; log: {child.log}\nreplay: {again}"
    with child:
        try:
            status = child.wait(timeout)
        except subprocess.TimeoutExpired:
            child.stop()
            raise SimulationError(
                f"{name} ran for more than {timeout:.0f} s and was stopped\n{where}"
            ) from None
    results = child.log.parent / "results.xml"
    outcomes = read_results(results) if results.exists() else []
    if not outcomes:
        what = f"ended with status {status} and ran no test"
        raise SimulationError(f"{name} {what}\n{child.log_tail()}\n{where}")
    if status != 0 and all(outcome.passed for outcome in outcomes):
        raise SimulationError(
            f"{name}: all tests passed but the simulator ended with {status}\n{child.log_tail()}\n{where}"
        )
    waves = wave_path(name) if kind == "waves" else None
    return RunResult(outcomes, chosen, results, child.log, waves, again)


def read_results(path: Path) -> list[TestOutcome]:
    """The tests in cocotb's JUnit file. SimulationError when it is not readable."""
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise SimulationError(f"{path} is not a results file: {error}") from error
    outcomes = []
    for case in root.iter("testcase"):
        bad = [*case.findall("failure"), *case.findall("error")]
        message = f"{bad[0].get('type')}: {bad[0].get('message')}" if bad else ""
        facts = {item.get("name"): item.get("value") for item in case.iter("property")}
        skipped = case.find("skipped") is not None
        outcomes.append(
            TestOutcome(
                module=case.get("classname", ""),
                name=case.get("name", ""),
                passed=not bad and not skipped,
                skipped=skipped,
                message=message,
                sim_time_ns=float(facts.get("sim_time_duration") or 0),
                wall_s=float(case.get("time") or 0),
            )
        )
    return outcomes


def run_block(
    design: Design,
    test_module: str,
    *,
    seed: int | None = None,
    kind: Kind = "fast",
    timeout: float = RUN_TIMEOUT_S,
) -> None:
    """Run the testbench of one module from a pytest test.

    Raises:
        AssertionError: with every failed test, the seed and the command that replays it; and as `run`.
    """
    if os.environ.get("WAVES", "") not in ("", "0"):
        kind = "waves"
    name = f"{test_module.rsplit('.', 2)[-2]}-{design.name}"
    folder = "/".join(test_module.split(".")[:-1])
    result = run(design, test_module, kind, name=name, replay=f"pytest {folder}", seed=seed, timeout=timeout)
    failures = result.failures()
    assert not failures, failures


def as_kind(text: str) -> Kind:
    """`text` as a Kind. ValueError when it is none."""
    if text not in KINDS:
        raise ValueError(f"kind {text!r}: it must be one of {', '.join(KINDS)}")
    return text
