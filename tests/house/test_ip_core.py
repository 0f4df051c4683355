"""What FuseSoC and Vivado read of the NPU follows from its sources, and FuseSoC runs it."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyslang import driver as slang

from echo_sim.config import load_config
from echo_sim.parameters import LEAST_MIB, LEGAL, NpuConfig, check
from scripts import lint
from scripts.ip import fusesoc, generate
from scripts.synth.flow import TARGETS
from tb.repository import ROOT

WRAPPER = (ROOT / generate.WRAPPER).read_text(encoding="utf-8")
TOP_TEXT = (ROOT / "rtl" / "npu_top.sv").read_text(encoding="utf-8")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the core is made of."""
    for folder in ("rtl", "ip"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for file in ("pyproject.toml", str(generate.CORE)):
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def test_generated_files_are_up_to_date() -> None:
    assert not generate.stale(), "run make ip"


def test_a_new_source_and_a_new_port_make_them_stale(tree: Path) -> None:
    assert not generate.stale(tree)
    (tree / "rtl" / "cells" / "new_cell.sv").touch()
    with (tree / "rtl" / "npu.f").open("a", encoding="utf-8") as file:
        file.write("cells/new_cell.sv\n")
    assert generate.stale(tree) == [generate.CORE]
    assert "rtl/cells/new_cell.sv" in generate.file_sets(tree)["cells"]
    top = tree / "rtl" / "npu_top.sv"
    text = top.read_text("utf-8")
    top.write_text(text.replace("irq,\n", "irq,\n    output logic new_port,\n", 1), "utf-8")
    assert generate.stale(tree) == [generate.CORE, generate.WRAPPER]


def test_each_source_is_in_one_file_set() -> None:
    sets = generate.file_sets()
    files = [name for files in sets.values() for name in files]
    assert len(files) == len(set(files))
    headers = {path.relative_to(ROOT).as_posix() for path in (ROOT / "rtl").rglob("*.svh")}
    assert set(files) == {*lint.sources(), *headers, generate.FPGA_CLOCK_GATE}
    assert all((ROOT / name).exists() for name in re.findall(r"(?:rtl|ip)/[\w/.]+", generate.core_text()))


def test_the_verilog_top_level_has_every_port_and_parameter() -> None:
    """slang accepts it without a warning, as of widths that differ; the ports are those of npu_top."""
    checker = slang.Driver()
    checker.addStandardArgs()
    sources = [name if name != generate.CLOCK_GATE else generate.FPGA_CLOCK_GATE for name in lint.sources()]
    waived = [f"-Wno-{name}" for name in lint.SLANG_WAIVED]
    arguments = ["slang --single-unit -Wextra -Werror -D SYNTHESIS -I", str(ROOT / "rtl"), *waived]
    arguments += ["--suppress-warnings", str(ROOT / "rtl" / "regs"), "--top echo_npu_ip"]
    arguments += [str(ROOT / name) for name in (*sources, generate.WRAPPER)]
    assert checker.parseCommandLine(" ".join(arguments), slang.CommandLineOptions())
    assert checker.processOptions()
    assert checker.parseAllSources()
    assert checker.runFullCompilation(True)
    inner = [port for port in generate.ports(TOP_TEXT) if port.name not in ("clk", "rst_n", "test_enable")]
    outer = re.findall(r"^ +(input|output) +wire +(\[.*?\])? *(\w+)", WRAPPER, re.MULTILINE)
    assert [generate.Port(*each) for each in outer if not each[2].startswith("a")] == inner
    assert len(inner) > 80


def test_the_verilog_top_level_ties_down_the_test_enable() -> None:
    """All else of npu_top is a port of the same name, but clock and reset."""
    connected = dict(re.findall(r"^ +\.(\w+)\((.*?)\),?$", WRAPPER.partition(") u_npu (")[2], re.MULTILINE))
    renamed = {"clk": "aclk", "rst_n": "aresetn", "test_enable": "1'b0"}
    assert connected == {port.name: renamed.get(port.name, port.name) for port in generate.ports(TOP_TEXT)}


def test_attributes_of_the_verilog_top_level_say_what_the_ports_are() -> None:
    """The reset is low when active, the interrupt is a level, and all buses have the one clock."""
    info = r'\(\* X_INTERFACE_INFO = "xilinx.com:signal:(.*?)" \*\)'
    parameters = r'\(\* X_INTERFACE_PARAMETER = "(.*?)" \*\)'
    found = re.findall(rf"{info}\s+{parameters}\s+(?:input|output) +wire (\w+)", WRAPPER)
    names = [port.name for port in generate.ports(TOP_TEXT)]
    buses = ":".join(name.removesuffix("_awvalid") for name in names if name.endswith("_awvalid"))
    assert found == [
        ("clock:1.0 aclk CLK", f"ASSOCIATED_BUSIF {buses}, ASSOCIATED_RESET aresetn", "aclk"),
        ("reset:1.0 aresetn RST", "POLARITY ACTIVE_LOW", "aresetn"),
        ("interrupt:1.0 irq INTERRUPT", "SENSITIVITY LEVEL_HIGH", "irq"),
    ]


def targets() -> dict[str, dict[str, str]]:
    """What the core says of each target."""
    text = generate.core_text().partition("\ntargets:\n")[2]
    return {
        name: dict(re.findall(r"^    (\w+): (.*)$", body, re.MULTILINE))
        for name, body in re.findall(r"^  (\w+):\n((?:    .*\n)+)", text, re.MULTILINE)
    }


@pytest.mark.parametrize(
    ("target", "fpga", "taken"),
    [
        ("default", False, {"clock_gate", "sdc"}),
        ("default", True, {"fpga_clock_gate"}),
        ("vivado", True, {"fpga_clock_gate", "xdc"}),
        ("lint", False, {"clock_gate"}),
        ("sim", False, {"clock_gate"}),
        ("synth", False, {"fpga_clock_gate"}),
        ("synth_default", False, {"fpga_clock_gate"}),
    ],
)
def test_a_target_has_the_clock_gate_of_its_technology(target: str, fpga: bool, taken: set[str]) -> None:
    """Without a latch on an FPGA, whose tools take no gated clock; the default asks the flag fpga."""
    listed = targets()[target]["filesets"].strip("[]").split(", ")
    flag = "fpga? " if fpga else "!fpga? "
    names = {name.strip('"').removeprefix(flag).strip("()") for name in listed}
    assert names & {"clock_gate", "fpga_clock_gate", "sdc", "xdc"} == taken


def test_parameters_of_the_core_have_the_values_of_the_configurations() -> None:
    """The defaults are those of `default`, a target's values those of its configuration."""
    section = generate.core_text().partition("\nparameters:\n")[2].partition("\ntargets:\n")[0]
    defaults = re.findall(r"^  (\w+):\n    datatype: int\n.*\n    default: (\d+)$", section, re.MULTILINE)
    assert {name: int(value) for name, value in defaults} == load_config("default").parameters()
    for name, usual in (("lint", "default"), ("sim", "small"), ("synth", "small")):
        for target, config in ((name, usual), (f"{name}_small", "small"), (f"{name}_default", "default")):
            values = re.findall(r"(\w+)=(\d+)", targets()[target]["parameters"])
            assert {key: int(value) for key, value in values} == load_config(config).parameters()


def test_fusesoc_lints_the_core(tmp_path: Path) -> None:
    result = fusesoc.run("lint_small", build=tmp_path)
    assert result.returncode == 0, result.stdout
    assert "%Warning" not in result.stdout


@pytest.mark.parametrize(("words", "said"), [([], "required: target"), ([""], "the target is empty")])
def test_fusesoc_needs_a_target(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        fusesoc.main(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_fusesoc_finds_a_fault(tree: Path) -> None:
    cell = tree / "rtl" / "cells" / "round_robin.sv"
    text = cell.read_text("utf-8")
    cell.write_text(text.replace("endmodule", "  logic never_read;\nendmodule"), "utf-8")
    build = tree / "build"
    build.mkdir()
    result = fusesoc.run("lint_small", root=tree, build=build)
    assert result.returncode != 0
    assert "never_read" in result.stdout


def test_fusesoc_simulates_the_core(tmp_path: Path) -> None:
    """The testbench passes; one that expects a wrong bit ends with an error. The simulator is built once."""
    result = fusesoc.run("sim", build=tmp_path)
    assert result.returncode == 0, result.stdout
    assert "PASS" in result.stdout
    spoilt = fusesoc.run("sim", "--spoil", build=tmp_path)
    assert spoilt.returncode != 0, spoilt.stdout
    assert "FAIL" in spoilt.stdout


class Interpreter:
    """A Tcl interpreter in which every command that Tcl lacks is recorded, and answers with its own words."""

    def __init__(self, *arguments: str) -> None:
        self.calls: list[list[str]] = []
        # Some systems leave Tcl out of their Python.
        tkinter = pytest.importorskip("tkinter", reason="this Python has no Tcl to run the scripts with")
        self._tcl = tkinter.Tcl()
        self._tcl.createcommand("record", self._record)
        self._tcl.eval("proc unknown {args} { record {*}$args }")
        self._tcl.call("set", "argv", arguments)

    def _record(self, *words: str) -> str:
        self.calls.append([str(word) for word in words])
        return " ".join(map(str, words))

    def source(self, name: str) -> None:
        self._tcl.call("source", str(ROOT / "ip" / name))

    def named(self, command: str) -> list[list[str]]:
        """Return the arguments of every call of `command`."""
        return [words[1:] for words in self.calls if words[0] == command]

    def words(self, text: str) -> Sequence[str]:
        """Split a list of Tcl."""
        return [str(each) for each in self._tcl.splitlist(text)]


def test_packaging_for_vivado_takes_every_source() -> None:
    vivado = Interpreter("part", "folder")
    vivado.source("vivado/package.tcl")
    added = vivado.words(vivado.named("add_files")[0][1])
    gates = {generate.CLOCK_GATE: generate.FPGA_CLOCK_GATE}
    expected = [gates.get(name, name) for name in lint.sources()] + [str(generate.WRAPPER)]
    assert [Path(name).relative_to(ROOT).as_posix() for name in added] == expected
    assert ["top", "echo_npu_ip", "current_fileset"] in vivado.named("set_property")
    assert vivado.named("ipx::save_core")


def test_the_block_design_names_real_ports_and_a_legal_configuration() -> None:
    vivado = Interpreter("part", "folder")
    vivado.source("vivado/block_design.tcl")
    # A pin is `npu/name`; a path of a checkout in a folder npu has more before it.
    pins = {name for words in vivado.calls for name in re.findall(r"(?<![\w/])npu/(\w+)", " ".join(words))}
    names = {port.name for port in generate.ports(TOP_TEXT)}
    buses = {name.rpartition("_")[0] for name in names if name.endswith("_awvalid")}
    assert pins == {"aclk", "aresetn", "irq", *buses}
    (given,) = [
        words for words in vivado.named("set_property") if words[0] == "-dict" and "ArrayRows" in words[1]
    ]
    values = vivado.words(given[1])
    keys = [name.removeprefix("CONFIG.") for name in values[::2]]
    chosen = dict(zip(keys, map(int, values[1::2]), strict=True))
    all_values = {each.name: each.default for each in generate.parameters(TOP_TEXT)}
    assert chosen.keys() <= all_values.keys()
    all_values |= chosen
    config = NpuConfig("block_design", **dict(zip(LEGAL, all_values.values(), strict=True)))
    assert config.parameters() == all_values
    check(config, "ip/vivado/block_design.tcl")


def test_the_block_design_has_the_addresses_that_the_manual_says() -> None:
    """The ranges are all registers, and all memory that every device has."""
    vivado = Interpreter("part", "folder")
    vivado.source("vivado/block_design.tcl")
    text = " ".join((ROOT / "docs" / "integration.md").read_text(encoding="utf-8").split())
    (said,) = re.findall(r"registers at (0x\w+), the host window at (0x\w+), memory", text)
    given = {
        re.findall(r"npu/(\w+)", words[-1])[0]: (int(words[1], 16), words[3])
        for words in vivado.named("assign_bd_address")
        if words[0] == "-offset"
    }
    registers, window = (int(each, 16) for each in said)
    assert given == {"s_axil": (registers, "64K"), "s_axi": (window, f"{2 * LEAST_MIB}M")}


@pytest.mark.parametrize("name", ["npu.sdc", "npu.xdc"])
def test_constraints_name_real_ports(name: str) -> None:
    vivado = Interpreter()
    vivado.source(name)
    text = WRAPPER if name == "npu.xdc" else TOP_TEXT
    by_name = [words for words in vivado.named("get_ports") if "-filter" not in words]
    ports = {each for words in by_name for each in vivado.words(words[-1])}
    assert ports >= {"aclk" if name == "npu.xdc" else "clk"}
    assert all(re.search(rf"^ +input +\w+ +{port}\b", text, re.MULTILINE) for port in ports)
    (clock,) = vivado.named("create_clock")
    assert clock[0] == "-name"
    if name == "npu.sdc":  # neither is data that comes with the clock
        ((_, without),) = vivado.named("remove_from_collection")
        assert without == "get_ports clk test_enable"
        assert vivado.named("set_case_analysis") == [["0", "get_ports test_enable"]]


def test_yosys_maps_what_edalize_lists_as_the_tables_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "edalize_yosys_procs.tcl").write_text(
        """
proc read_files {} { read_verilog -sv {a_pkg.sv}; read_verilog -sv {b.sv} }
proc set_defines {} {}
proc set_incdirs {} { verilog_defaults -add -Irtl -Iip }
proc set_params {} { chparam -set DataWidth 64 npu_top }
set top npu_top
set name core
""",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    yosys = Interpreter()
    yosys.source("yosys.tcl")
    options = "--single-unit -D SYNTHESIS -I rtl -I ip -G DataWidth=64 --top npu_top"
    first, *mapping = (" ".join(words) for words in yosys.calls)
    assert first == f"yosys read_slang {options} a_pkg.sv b.sv"
    *script, last = (each.replace("-top block", "-top npu_top") for each in TARGETS["ecp5"].script)
    assert mapping == [f"yosys {each}" for each in (*script, f"{last} -json core.json")]
