"""Each design has its own folder, by configuration, kind of build and tree of sources."""

import re
import shutil
from pathlib import Path

import pytest

from echo_sim import designs
from echo_sim.build import KINDS, build_directory
from echo_sim.designs import bare_design, npu_design, public_design
from echo_sim.places import CHECKERS, OWN_RTL


def test_each_configuration_kind_and_tree_is_built_in_a_folder_of_its_own(tmp_path: Path) -> None:
    trees = [OWN_RTL, tmp_path / "one", tmp_path / "two"]
    for tree in trees[1:]:
        tree.mkdir()
        (tree / "npu.f").touch()
    drawn = [npu_design(config, tree) for config in ("small", "default") for tree in trees]
    folders = {build_directory(design, kind) for design in drawn for kind in KINDS}
    assert len(folders) == len(drawn) * len(KINDS)


def test_the_other_tops_of_another_tree_too(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {bare_design("small", Path("main.cpp")).name, public_design("small").name}
    assert own == {"small-bare", "small-public"}
    monkeypatch.setattr(designs, "tree_tag", lambda _: "-other")
    other = {bare_design("small", Path("main.cpp")).name, public_design("small").name}
    assert other == {"small-other-bare", "small-other-public"}


def test_the_lockstep_checker_names_every_port() -> None:
    """All inputs are connected and all outputs compared; Verilator does not check this there."""
    ports = re.findall(
        r"^ +(input|output) +logic +(?:\[.*?\] +)?(\w+)",
        (OWN_RTL / "npu_top.sv").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    checker = (CHECKERS / "lockstep_checker.sv").read_text(encoding="utf-8")
    inputs = {name for direction, name in ports if direction == "input"} - {"clk", "rst_n", "test_enable"}
    outputs = {name for direction, name in ports if direction == "output"}
    assert len(inputs) > 40
    assert len(outputs) > 40
    assert sorted(re.findall(r"^ +`SAME\((\w+)\)", checker, re.MULTILINE)) == sorted(inputs)
    assert sorted(re.findall(r"^ +`AGREE\((\w+)", checker, re.MULTILINE)) == sorted(outputs)


def _copied(folder: Path) -> Path:
    """Copy the RTL to a folder of that name."""
    shutil.copytree(OWN_RTL, folder)
    return folder


def test_the_digest_is_of_what_the_files_say_not_of_where_they_lie(tmp_path: Path) -> None:
    own = npu_design("small").digest()
    tree = _copied(tmp_path / "rtl")
    assert npu_design("small", tree).digest() == own
    assert npu_design("default", tree).digest() != own
    for name in ("npu_assert.svh", "memory/dma_read.sv"):
        with (tree / name).open("a") as file:
            file.write("// another\n")
        changed = npu_design("small", tree).digest()
        assert changed != own, name
        own = changed
