"""A build is made once, and again when a dependency changes; no tool runs here."""

import contextlib
import dataclasses
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from echo_sim import build as builder
from echo_sim.build import BuildError, Kind, build
from echo_sim.compilers import Compiler
from echo_sim.designs import Design
from echo_sim.tools import Verilator


class Tools:
    """Replaces Verilator and the compiler: counts their steps, and fails if `status` is not 0.

    A step takes `seconds`.
    """

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.steps = 0
        self.status = 0
        self.seconds = 0.0

    def __call__(self, command: list[str], *, cwd: Path, log: Path, **_: object) -> int:
        self.commands.append(command)
        self.steps += 1
        time.sleep(self.seconds)
        log.write_text("%Error: a.sv:1: no\n")
        (cwd / "top").touch()
        return self.status


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    made = Tools()
    monkeypatch.setattr(builder, "SIM_BUILD", tmp_path / "builds")
    monkeypatch.setattr(builder, "find_verilator", lambda: Verilator(Path("verilator"), (5, 40), {}, {}))
    monkeypatch.setattr(builder, "find_libpython", lambda: "")
    monkeypatch.setattr(builder, "find_compiler", lambda: Compiler(("g++",), "g++ 12"))
    monkeypatch.setattr(builder, "run_bounded", made)
    monkeypatch.delenv(builder.COVERAGE_VARIABLE, raising=False)
    return made


@pytest.fixture
def design(tmp_path: Path) -> Design:
    for name in ("a.sv", "a.svh", "main.cpp", "main.hpp"):
        (tmp_path / name).touch()
    source, main = tmp_path / "a.sv", tmp_path / "main.cpp"
    return Design("name", "top", (source,), {"Width": 3}, includes=(tmp_path,), main=main, cocotb=False)


def test_a_build_is_made_once(tools: Tools, design: Design) -> None:
    assert len({build(design, kind, quiet=True) for kind in ("fast", "waves", "fast", "waves")}) == 2
    assert tools.steps == 4


@pytest.mark.parametrize("name", ["a.sv", "a.svh", "main.cpp", "main.hpp"])
def test_a_file_that_changes_is_built_again(tools: Tools, design: Design, tmp_path: Path, name: str) -> None:
    build(design, quiet=True)
    (tmp_path / name).write_text("// more")
    build(design, quiet=True)
    assert tools.steps == 4


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": {"Width": 4}},
        {"defines": {"FAST": "1"}},
        {"public": True},
        {"verilator_args": ("-O0",)},
    ],
    ids=str,
)
def test_a_design_that_changes_is_built_again(tools: Tools, design: Design, change: dict[str, Any]) -> None:
    build(design, quiet=True)
    build(dataclasses.replace(design, **change), quiet=True)
    assert tools.steps == 4


@pytest.mark.parametrize(
    ("tool", "other"),
    [
        ("find_verilator", Verilator(Path("verilator"), (5, 41), {}, {})),
        ("find_compiler", Compiler(("g++",), "g++ 99")),
        ("find_compiler", Compiler(("clang++",), "g++ 12")),
    ],
)
def test_a_tool_that_changes_builds_again(
    tools: Tools, design: Design, monkeypatch: pytest.MonkeyPatch, tool: str, other: object
) -> None:
    build(design, quiet=True)
    monkeypatch.setattr(builder, tool, lambda: other)
    build(design, quiet=True)
    build(design, quiet=True)
    assert tools.steps == 4


def test_objects_of_another_compiler_are_not_linked(
    tools: Tools, design: Design, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Verilator leaves a source as it is that would not change, and make an object that is newer."""
    directory = build(design, quiet=True)
    (directory / "a.o").touch()
    (tmp_path / "a.sv").write_text("// more")
    build(design, quiet=True)
    assert (directory / "a.o").exists()
    monkeypatch.setattr(builder, "find_compiler", lambda: Compiler(("clang++",), "clang version 19"))
    build(design, quiet=True)
    assert not (directory / "a.o").exists()


def test_objects_of_a_folder_that_moved_are_made_again(tools: Tools, design: Design, tmp_path: Path) -> None:
    """make has no rule for a file that is gone, such as Verilator's own sources in a folder that moved."""
    directory = build(design, quiet=True)
    (directory / "kept.d").write_text(
        f"kept.o: ../main.cpp \\\n {tmp_path / 'main.hpp'}\n{tmp_path / 'main.hpp'}:\n"
    )
    (directory / "moved.d").write_text(f"moved.o: \\\n {tmp_path / 'moved' / 'verilated.cpp'}\n")
    for name in ("kept.o", "moved.o"):
        (directory / name).touch()
    (tmp_path / "a.sv").write_text("// more")
    build(design, quiet=True)
    assert {each.name for each in directory.glob("*.[do]")} == {"kept.d", "kept.o"}


@pytest.mark.parametrize("status", [0, 1])
def test_precompiled_headers_are_not_kept(
    tools: Tools, design: Design, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """They would be nearly all that a build takes of the disk."""

    def compile_(command: list[str], *, cwd: Path, log: Path, **words: object) -> int:
        (cwd / "top.h.fast.gch").touch()
        return tools(command, cwd=cwd, log=log, **words)

    monkeypatch.setattr(builder, "run_bounded", compile_)
    tools.status = status
    with contextlib.suppress(BuildError):
        build(design, quiet=True)
    assert tools.steps == 2 - status
    assert not list(builder.SIM_BUILD.rglob("*.gch"))


def test_make_gets_the_compiler(tools: Tools, design: Design) -> None:
    build(design, quiet=True)
    assert {"CXX=g++", "LINK=g++"} <= set(tools.commands[1])
    (cache,) = (word for word in tools.commands[1] if word.startswith("OBJCACHE="))
    assert "object_cache.py" in cache


@pytest.mark.parametrize(
    ("cores", "brief", "kind", "parallel"),
    [
        (2, False, "fast", "0"),
        (3, False, "profile", "0"),
        (4, False, "fast", "1"),
        (2, False, "waves", "0"),
        (4, False, "coverage", "1"),
        (8, True, "fast", "0"),
        (8, True, "waves", "0"),
    ],
)
def test_one_file_is_compiled_where_cores_are_few(
    tools: Tools,
    design: Design,
    monkeypatch: pytest.MonkeyPatch,
    cores: int,
    brief: bool,
    kind: Kind,
    parallel: str,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    build(dataclasses.replace(design, brief=brief), kind, quiet=True)
    assert f"VM_PARALLEL_BUILDS={parallel}" in tools.commands[1]
    (flags,) = (word for word in tools.commands[1] if word.startswith("OPT_FAST="))
    assert (builder.ONE_FILE_FLAGS in flags) == (parallel == "0")
    assert ("-O3" in flags) == (kind not in ("waves", "coverage"))


def test_a_brief_build_for_cocotb_is_optimized_less(
    tools: Tools, design: Design, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "_plan_cocotb", builder._plan_plain)  # cocotb looks for Verilator
    build(dataclasses.replace(design, brief=True, cocotb=True), quiet=True)
    assert any(word.startswith(f"OPT_FAST={builder.BRIEF_FLAGS}") for word in tools.commands[-1])


def test_builders_take_turns(tools: Tools, design: Design) -> None:
    """The second builder waits, and finds what the first one built."""
    tools.seconds = 0.1
    threads = [threading.Thread(target=build, args=(design,), kwargs={"quiet": True}) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tools.steps == 2


def test_a_simulator_that_is_gone_is_built_again(tools: Tools, design: Design) -> None:
    (build(design, quiet=True) / "top").unlink()
    build(design, quiet=True)
    assert tools.steps == 4


def test_a_build_that_failed_is_made_again(tools: Tools, design: Design, tmp_path: Path) -> None:
    """A failed build is repeated even if the sources are again those of an earlier build."""
    build(design, quiet=True)
    (tmp_path / "a.sv").write_text("wrong")
    tools.status = 1
    with pytest.raises(BuildError, match=r"%Error: a\.sv:1: no"):
        build(design, quiet=True)
    (tmp_path / "a.sv").write_text("")
    tools.status = tools.steps = 0
    build(design, quiet=True)
    assert tools.steps == 2
