"""Placement: small blocks through Yosys and nextpnr, and blocks that do not fit."""

import json
from pathlib import Path

import pytest

from scripts import place as command
from scripts.synth import flow
from scripts.synth.blocks import blocks_of
from scripts.synth.placement import Placement, place, wrapper
from scripts.synth.tools import SynthesisError

WIDTH = 8
# Two words of the buffer and their states; reset, data, valid and ready in; data, valid and ready out; an end
# of each chain.
REGISTERS = 2 * (WIDTH + 1) + (WIDTH + 3 + 1) + (WIDTH + 2 + 1)


def placed(*words: str, path: Path) -> tuple[int, dict[str, object]]:
    status = command.main([*words, "--device", "12k", "--jobs", "1", "--json", str(path)])
    found: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return status, found


def test_a_block_has_a_clock_and_resources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = placed("--module", f"skid_buffer:Width={WIDTH}", path=tmp_path / "p.json")
    assert status == 0
    said = capsys.readouterr().out
    assert "skid_buffer on LFE5U-12F: " in said
    assert " MHz, " in said
    used = found["used"]
    assert isinstance(used, dict)
    assert used["flip-flops"] == REGISTERS
    assert used["LUT4"] >= 2 * WIDTH  # a word is taken or kept, and the older or the newer one is shown
    assert used["DSP"] == used["block RAM"] == 0


def test_what_a_block_contains_is_placed_with_it(tmp_path: Path) -> None:
    """The memory of a queue is a block below it."""
    status, found = placed("--module", "ram_queue:Width=24,Depth=512", path=tmp_path / "p.json")
    assert status == 0
    used = found["used"]
    assert isinstance(used, dict)
    assert used["block RAM"] == 1


def test_a_block_that_does_not_fit_is_said_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """4 Mbit are 256 memories of 16 kbit, and the device has 56."""
    status, found = placed("--module", "ram_1r1w:Width=64,Depth=65536", path=tmp_path / "p.json")
    assert status == 1
    assert found["mhz"] is None
    said = capsys.readouterr().out
    assert "ram_1r1w on LFE5U-12F: does not fit" in said
    assert "256 of     56" in said


@pytest.mark.parametrize(("mhz", "status"), [(50.0, 0), (None, 1)])
def test_the_command_places_as_it_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mhz: float | None, status: int
) -> None:
    """On this device, with this seed and for so long; its status says whether the block fits."""
    blocks = blocks_of({"leaf": {"ports": {}, "cells": {}}}, "leaf")
    asked: list[object] = []

    def stand_in(which: object, device: str, *, seed: int, timeout: float) -> Placement:
        asked.append((which, device, seed, timeout))
        return Placement({"LUT4": 5}, {"LUT4": 4}, mhz)

    monkeypatch.setattr(command, "elaborate_module", lambda *_: blocks)
    monkeypatch.setattr(command, "measure", lambda *_, **__: {})
    monkeypatch.setattr(command, "place", stand_in)
    words = ["--module", "leaf", "--device", "25k", "--seed", "71", "--timeout", "9"]
    assert command.main(words) == status
    assert asked == [(blocks, "25k", 71, 9.0)]
    said = "does not fit" if mhz is None else "50.0 MHz, 20.0 ns"
    assert f"leaf on LFE5U-25F: {said}" in capsys.readouterr().out


def test_what_does_not_exist_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--module", "nonsense:Width=3"]) == 2
    assert "nonsense" in capsys.readouterr().err
    assert command.main(["--block", "skid_buffer", "--config", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        command.main([])
    with pytest.raises(SystemExit, match="2"):
        command.main(["--module", "skid_buffer", "--device", "3k"])


def test_a_name_of_several_blocks_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    instances = {f"u_{width}": f"leaf${width}" for width in (3, 4)}
    leaves = {
        kind: {"ports": {"a_i": {"direction": "input", "bits": list(range(2, 6 + at))}}, "cells": {}}
        for at, kind in enumerate(instances.values())
    }
    cells = {name: {"type": kind, "parameters": {}, "connections": {}} for name, kind in instances.items()}
    blocks = blocks_of({"top": {"ports": {}, "cells": cells}, **leaves}, "top")
    monkeypatch.setattr(command, "elaborate", lambda _: blocks)
    assert command.main(["--block", "leaf"]) == 2
    assert "leaf has different parameters in top.u_3, top.u_4: name an instance" in capsys.readouterr().err


def test_a_block_that_is_not_mapped_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "WORK", tmp_path)
    blocks = blocks_of({"leaf": {"ports": {}, "cells": {}}}, "leaf")
    with pytest.raises(SynthesisError, match="not mapped before"):
        place(blocks, "12k", seed=1, timeout=60)


def test_what_is_used_up_is_not_lacking() -> None:
    placement = Placement({"LUT4": 5, "DSP": 6, "block RAM": 4}, {"LUT4": 5, "DSP": 5, "block RAM": 5}, None)
    assert placement.lacking == ["DSP"]


def test_the_registers_around_a_block() -> None:
    """All clocks of a block are one; its inputs and outputs have a register for each bit."""
    ports = {
        "clk_i": {"direction": "input", "bits": [2]},
        "free_clk_i": {"direction": "input", "bits": [3]},
        "a_i": {"direction": "input", "bits": [4, 5, 6]},
        "b_i": {"direction": "input", "bits": [7]},
        "sum_o": {"direction": "output", "bits": [8, 9]},
    }
    text = wrapper("leaf", ports)
    assert ".clk_i(clk)" in text
    assert ".free_clk_i(clk)" in text
    assert ".a_i(in_q[2:0])" in text
    assert ".b_i(in_q[3:3])" in text
    assert ".sum_o(out[1:0])" in text
    assert "reg [4:0] in_q;" in text
    assert "reg [2:0] out_q;" in text
