"""The board with the NPU's gates in place of rtl/."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

from echo_sim.config import load_config
from echo_sim.designs import TOP, Design, npu_design, tree_tag
from echo_sim.places import RTL
from tb.netlist.synthesis import CLOCK_GATE, netlist

GATES = Path(__file__).with_name("gates.cpp")
_PORT = re.compile(r"^ *(input|output) +logic +(?:\[[^\]]*\] *)?(\w+),?(?: *//.*)?$", re.MULTILINE)


def netlist_design(config: str, rtl: Path = RTL, *, quiet: bool = False) -> Design:
    """Return the board with the gates of the configuration `config`, which are mapped unless they are there.

    Raises: as `npu_design` and `netlist`.
    """
    board = npu_design(config, rtl)
    folder = netlist(load_config(config), rtl, quiet=quiet)
    shell = folder / "npu_top.sv"
    text = shell_text((rtl / "npu_top.sv").read_text(encoding="utf-8"), folder / "gates.bin")
    if not shell.exists() or shell.read_text(encoding="utf-8") != text:
        shell.write_text(text, encoding="utf-8")
    kept = [path for path in board.sources if not path.is_relative_to(rtl) or _stays(path)]
    return dataclasses.replace(
        board,
        name=f"{load_config(config).name}{tree_tag(rtl)}-netlist",
        sources=(*kept, shell),
        cpp=(*board.cpp, GATES),
        defines={**board.defines, "NPU_NETLIST": "1"},
        # Without the RTL, much of its packages has no use.
        verilator_args=(*board.verilator_args, "-Wno-UNUSEDPARAM", "-Wno-UNUSEDSIGNAL", "-Wno-UNOPTFLAT"),
    )


def _stays(path: Path) -> bool:
    """Return whether the board itself uses a file of the RTL."""
    return path.stem.endswith("_pkg") or path.stem == CLOCK_GATE


def shell_text(rtl: str, gates: Path) -> str:
    """Return the module `npu_top` whose ports are those of the RTL `rtl` and whose inside is `gates`."""
    header = rtl[rtl.index(f"module {TOP}") : rtl.index("\n);\n") + 3]
    ports = _PORT.findall(header)
    inputs = [name for direction, name in ports if direction == "input" and name != "clk"]
    outputs = [name for direction, name in ports if direction == "output"]
    return f"""// The NPU as gates, simulated by gates.cpp. Parameters and ports are those of the RTL.
{header}
  localparam int InputBits = {_bits(inputs)};
  localparam int OutputBits = {_bits(outputs)};
  import "DPI-C" function void npu_gates_load(input string path, input int unsigned seed);
  import "DPI-C" function void npu_gates_clock(input bit [InputBits-1:0] values);
  import "DPI-C" function void npu_gates_settle(
    input bit turn, input bit [InputBits-1:0] values, output bit [OutputBits-1:0] results);

  bit turn;
  bit [InputBits-1:0] values;
  bit [OutputBits-1:0] results;
  assign values = {_concatenation(inputs)};
  assign {_concatenation(outputs)} = results;

  initial npu_gates_load("{gates}", $urandom);
  initial turn = 1'b0;
  always @(posedge clk) begin
    npu_gates_clock(values);
    turn <= !turn;
  end
  always_comb npu_gates_settle(turn, values, results);
endmodule
"""


def _bits(ports: Sequence[str]) -> str:
    return " + ".join(f"$bits({name})" for name in ports)


def _concatenation(ports: Sequence[str]) -> str:
    """The first port is the lowest part, as in the table of gates."""
    return f"{{{', '.join(reversed(ports))}}}"
