"""The wheel alone, in an empty environment and an empty folder, builds and simulates the NPU."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tb.repository import ROOT

Installed = tuple[Path, dict[str, str], Path]


def done(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    """Run a command that must succeed; return its standard output."""
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1200, check=False
    )
    assert result.returncode == 0, f"{command}:\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install only the wheel; return the command `echo-npu`, the environment, and an empty folder."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
    # From the files that git tracks: untracked files must not get into the wheel.
    files = done(["git", "ls-files", "--cached", "--others", "--exclude-standard"], ROOT).splitlines()
    source = folder / "source"
    for name in files:
        if (ROOT / name).is_file() and name.startswith(
            ("rtl/", "runtime/", "setup.py", "pyproject", "README", "LICENSE")
        ):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    (source / "rtl" / "junk.log").write_text("What lies about in rtl/ is none of its sources.")
    done([sys.executable, *pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(source)], folder)
    (wheel,) = folder.glob("echo_npu-*.whl")
    done([sys.executable, "-m", "venv", str(folder / "venv")], folder)
    held = {name.removeprefix("echo_sim/") for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in held if name.startswith("rtl/")} == {f for f in files if f.startswith("rtl/")}
    # With PYTHONPATH, pip would find the package of the repository, and install nothing.
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ECHO_NPU", "PYTHON", "COCOTB", "MAKE", "MFLAGS", "VIRTUAL_ENV", "XDG_"))
    }
    python = str(folder / "venv" / "bin" / "python")
    constraint = ["--constraint", str(ROOT / "requirements.lock")]
    done([python, *pip, "install", *constraint, f"{wheel}[sim]"], folder, kept)
    empty = folder / "empty"
    empty.mkdir()
    environment = kept | {"HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "cache")}
    return folder / "venv" / "bin" / "echo-npu", environment, empty


def test_doctor_finds_everything(installed: Installed) -> None:
    program, environment, empty = installed
    found = json.loads(done([str(program), "doctor", "--json"], empty, environment))
    assert {each["name"] for each in found} >= {"C++ compiler", "make", "perl", "Verilator", "sources"}
    assert all(each["found"] for each in found)


def test_doctor_says_how_to_get_what_is_missing(installed: Installed) -> None:
    program, environment, empty = installed
    result = subprocess.run(
        [str(program), "doctor"],
        cwd=empty,
        env=environment | {"PATH": str(empty)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1
    assert "MISSING" in result.stdout
    words = " ".join(result.stdout.split())  # the table breaks lines
    assert "apt-get install g++" in words


def test_a_layer_runs_and_its_simulator_is_kept_in_the_users_cache(installed: Installed) -> None:
    program, environment, empty = installed
    report = done([str(program), "layer", "tiny"], empty, environment)
    assert "rtlmodel" in report
    kept = json.loads(done([str(program), "cache", "--json"], empty, environment))
    assert Path(kept["folder"]) == Path(environment["XDG_CACHE_HOME"]) / "echo-npu"
    assert "default-fast-npu_tb" in {each["name"] for each in kept["kept"] if each["simulator"]}
    assert not list(empty.iterdir())
    assert "removed" in done([str(program), "cache", "--clear"], empty, environment)
    assert not json.loads(done([str(program), "cache", "--json"], empty, environment))["kept"]
