"""What npu_top derives from its parameters for the parts in it, as docs/architecture.md states it."""

import dataclasses
import re
from pathlib import Path

import pytest
from pyslang import ast, driver

from echo_sim.config import NpuConfig, load_config
from echo_sim.designs import npu_design
from tb.repository import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def elaborated(config: NpuConfig) -> ast.InstanceSymbol:
    """Return npu_top with the parameters and the memory of a configuration."""
    slang = driver.Driver()
    slang.addStandardArgs()
    sources = (path.relative_to(ROOT) for path in npu_design("small").sources)
    arguments = [
        "slang --single-unit -I rtl --top npu_top",
        *(f"-G {name}={value}" for name, value in config.parameters().items()),
        *(f"-D {name}={value}" for name, value in config.defines().items()),
        *(str(path) for path in sources if path.is_relative_to(Path("rtl"))),
    ]
    assert slang.parseCommandLine(" ".join(arguments), driver.CommandLineOptions())
    assert slang.processOptions()
    assert slang.parseAllSources()
    top: ast.InstanceSymbol = slang.createCompilation().getRoot().topInstances[0]
    return top


def value(top: ast.InstanceSymbol, path: str) -> int:
    """Return the value of a parameter, by its hierarchical name below npu_top."""
    found = top.body.lookupName(path)
    assert isinstance(found, ast.ParameterSymbol), path
    return int(found.value.value)


def stated(sentence: str) -> int:
    """Return the number in a sentence of the page."""
    (number,) = re.findall(sentence.replace(" ", r"\s+"), PAGE)
    return int(number)


@pytest.mark.parametrize(("tile", "acc_entries"), [(4, 64), (4, 128), (8, 128), (16, 1024)])
@pytest.mark.parametrize("data_width", [64, 128, 256])
@pytest.mark.parametrize("block_k_tiles", [1, 2, 4])
def test_which_devices_have_weights_in_blocks(
    tile: int, acc_entries: int, data_width: int, block_k_tiles: int
) -> None:
    """Those of which Python says so."""
    config = dataclasses.replace(
        load_config("small"),
        array_rows=tile,
        array_cols=tile,
        acc_entries=acc_entries,
        data_width=data_width,
        block_k_tiles=block_k_tiles,
    )
    assert value(elaborated(config), "Blocks") == config.has_blocks


@pytest.mark.parametrize(("name", "reaches"), [("small", True), ("default", True), ("large", False)])
def test_where_the_host_window_reaches_memory(name: str, reaches: bool) -> None:
    """Below 4 GiB: above, the window refuses every access."""
    assert value(elaborated(load_config(name)), "u_host.Reaches") == reaches


def test_how_far_the_bus_runs_ahead() -> None:
    """The host's beats that are under way, and the write addresses that are ahead of their data."""
    top = elaborated(load_config("default"))
    assert value(top, "u_host_reads.DataBeats") == stated(r"when its (\d+) beats have room")
    assert value(top, "u_host_writes.DataBeats") == stated(r"It has room for (\d+) beats")
    assert value(top, "u_memory.WritesAhead") == stated(r"at most (\d+) are ahead of their data")
