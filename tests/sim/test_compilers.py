"""Which C++ compiler is taken: scripts on an empty PATH stand for compilers, nothing is compiled."""

import subprocess
import sys
from pathlib import Path

import pytest

from echo_sim import compilers, doctor, object_cache
from echo_sim.compilers import Compiler, advice, find_compiler
from echo_sim.tools import CompilerMissingError

GCC = "g++ (Debian 12.2.0-14) 12.2.0"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH. Neither $CXX is set, nor is ziglang installed."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(compilers, "PACKAGE", "echo_npu_no_such_package")
    return tmp_path


def add(folder: Path, name: str, answer: str, status: int = 0) -> Path:
    """A compiler that answers so to --version."""
    program = folder / name
    program.write_text(f'#!/bin/sh\n[ "$*" = --version ] || exit 9\necho "{answer}"\nexit {status}\n')
    program.chmod(0o755)
    return program


def clang(version: int) -> str:
    return f"Debian clang version {version}.1.7 (3)"


def test_gcc_where_there_is_no_clang(path: Path) -> None:
    gcc = add(path, "g++", GCC)
    assert find_compiler() == Compiler((str(gcc),), GCC)


@pytest.mark.parametrize(("version", "taken"), [(14, False), (18, False), (19, True), (22, True)])
def test_clang_comes_first_if_it_is_new_enough(path: Path, version: int, taken: bool) -> None:
    gcc, other = add(path, "g++", GCC), add(path, "clang++", clang(version))
    found = find_compiler()
    assert found.command == (str(other if taken else gcc),)
    assert found.clang == (version if taken else 0)


def test_the_newest_of_numbered_clangs(path: Path) -> None:
    """The one without a number is too old."""
    add(path, "g++", GCC)
    add(path, "clang++", clang(14))
    for version in (18, 19, 21):
        add(path, f"clang++-{version}", clang(version))
    assert find_compiler().command == (str(path / "clang++-21"),)


def test_a_clang_that_does_not_work_is_passed_over(path: Path) -> None:
    gcc = add(path, "g++", GCC)
    add(path, "clang++", clang(19), status=1)
    assert find_compiler().command == (str(gcc),)


def test_the_clang_of_pip(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind one on PATH, before g++, and only if it is new enough."""
    package = "echo_npu_test_clang"
    (tmp_path / f"{package}.py").write_text(
        f"import sys\nassert sys.argv[1:] == ['c++', '--version']\nprint('{clang(20)}')\n"
    )
    monkeypatch.setattr(compilers, "PACKAGE", package)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    gcc = add(path, "g++", GCC)
    found = find_compiler()
    assert found == Compiler((sys.executable, "-m", package, "c++"), clang(20), 20)
    own = add(path, "clang++", clang(19))
    compilers.forget()
    assert find_compiler().command == (str(own),)
    own.unlink()
    (tmp_path / f"{package}.py").write_text(f"print('{clang(18)}')\n")
    compilers.forget()
    assert find_compiler().command == (str(gcc),)


def test_the_variable_names_any_compiler(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even an old clang, and with arguments."""
    add(path, "g++", GCC)
    add(path, "clang++-19", clang(19))
    old = add(path, "clang++", clang(14))
    monkeypatch.setenv("CXX", "g++")
    assert find_compiler().command == (str(path / "g++"),)
    monkeypatch.setenv("CXX", "clang++")
    assert find_compiler() == Compiler((str(old),), clang(14), 14)
    wrapper = add(path, "wrap", GCC)
    wrapper.write_text('#!/bin/sh\nexec "$@"\n')
    monkeypatch.setenv("CXX", "wrap clang++-19")
    found = find_compiler()
    assert found.command == (str(wrapper), "clang++-19")
    assert found.clang == 19
    assert found.make_variables["CXX"] == f"{wrapper} clang++-19"


@pytest.mark.parametrize("named", ["no-such-compiler", "broken"])
def test_a_named_compiler_is_not_replaced(path: Path, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    add(path, "g++", GCC)
    add(path, "broken", "", status=1)
    monkeypatch.setenv("CXX", named)
    with pytest.raises(CompilerMissingError, match=named):
        find_compiler()


@pytest.mark.usefixtures("path")
def test_no_compiler() -> None:
    with pytest.raises(CompilerMissingError, match=r"apt-get install g\+\+"):
        find_compiler()


def test_doctor_says_which_and_what_the_other_would_bring(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said() -> str:
        (finding,) = (each for each in doctor.findings() if each.name == "C++ compiler")
        assert finding.found
        return finding.detail

    gcc = add(path, "g++", GCC)
    assert said().startswith(f"{gcc}: {GCC} (")
    assert "pip install" in said()
    monkeypatch.setenv("CXX", "g++")
    assert said() == f"{gcc}: {GCC}"
    monkeypatch.delenv("CXX")
    own = add(path, "clang++", clang(19))
    compilers.forget()
    assert said().startswith(f"{own}: {clang(19)} (")
    assert "CXX=g++" in said()
    assert advice(Compiler((str(own),), clang(19), 19)) in said()


def test_clang_gets_no_option_of_gcc() -> None:
    assert "-fcoroutines" in Compiler(("g++",), GCC).make_variables.values()
    assert "-fcoroutines" not in Compiler(("clang++",), clang(19), 19).make_variables.values()


def test_objects_of_verilators_runtime_are_kept_for_each_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command line of another compiler, or another version, does not take the object."""
    source = tmp_path / "include" / "verilated.cpp"
    source.parent.mkdir()
    source.write_text("int x;")
    cache, target = tmp_path / "objects", tmp_path / "x.o"
    compiled: list[list[str]] = []

    def call(command: list[str]) -> int:
        compiled.append(command)
        target.write_text(f"object {len(compiled)}")
        return 0

    monkeypatch.setattr(subprocess, "call", call)
    command = ["python", "-m", "ziglang", "c++", "-O2", "-c", "-o", str(target), str(source)]
    for compilation, calls in (("a", 1), ("a", 1), ("b", 2), ("a", 2)):
        monkeypatch.setattr(
            sys, "argv", ["object_cache.py", str(cache), compilation, str(source.parent), *command]
        )
        target.unlink(missing_ok=True)
        assert object_cache.main() == 0
        assert len(compiled) == calls
        assert target.read_text() == f"object {2 if compilation == 'b' else 1}"
