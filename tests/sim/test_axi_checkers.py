"""The protocol checkers name each rule when it is broken, and legal traffic passes."""

import dataclasses
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from echo_sim.build import build
from echo_sim.designs import AXI_CHECKERS
from tb.blocks import block_design
from tb.repository import ROOT
from tests.sim.axi_scenarios import (
    IDLE,
    MAX_WAIT,
    RESET,
    Stimulus,
    all_rules,
    ar,
    aw,
    b,
    broken_rules,
    corner_cases,
    legal_traffic,
    lite,
    packed,
    r,
    w,
)

pytestmark = pytest.mark.sim

RULE = re.compile(r"(AXI4(?:LITE)?_(?:ERR|REC|AUX)\w+): the (\w+): ")


def said(scenarios: Sequence[Stimulus], folder: Path) -> list[list[tuple[str, str]]]:
    """Return (rule, offender) in the order of the messages, for each scenario; each begins with a reset."""
    design = dataclasses.replace(
        block_design(
            "axi_checkers_tb", (*AXI_CHECKERS, "tests/sim/axi_checkers_tb.sv"), control=(), public=False
        ),
        main=ROOT / "tests" / "sim" / "clock.cpp",
        cocotb=False,
    )
    program = build(design) / design.top
    vectors = folder / "vectors.txt"
    with open(vectors, "w", encoding="utf-8") as file:
        for number, stimulus in enumerate(scenarios, 1):
            for clock in (*RESET, *stimulus, IDLE):
                file.write(packed(clock, number) + "\n")
    command = [
        str(program),
        f"+vectors={vectors}",
        "+verilator+error+limit+1000000",
        "+verilator+rand+reset+2",
    ]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout
    parts = re.split(r"^scenario \d+$", output, flags=re.MULTILINE)[1:]
    assert len(parts) == len(scenarios), output[-2000:]
    return [RULE.findall(part) for part in parts]


def test_each_rule_is_named_when_it_is_broken(tmp_path: Path) -> None:
    """For every rule of the checkers, exactly this rule is reported, with its offender."""
    rules = broken_rules()
    assert set(rules) == all_rules()
    corners = corner_cases()
    expected = [*rules, *(rule for rule, _ in corners.values())]
    stimuli = [*rules.values(), *(stimulus for _, stimulus in corners.values())]
    begun = [
        [*([] if rule.endswith("_RESET") else [IDLE]), *stimulus]
        for rule, stimulus in zip(expected, stimuli, strict=True)
    ]
    found = said(begun, tmp_path)
    for what, rule, messages in zip([*rules, *corners], expected, found, strict=True):
        assert messages, f"{what}: nothing was said"
        owner = {"M": "manager", "S": "subordinate"}.get(rule.split("_")[1][3:], "port")
        assert set(messages) == {(rule, owner)}, f"{what}: {messages}"


def test_legal_traffic_passes(tmp_path: Path) -> None:
    """Random traffic and corner cases of legal traffic pass."""
    close = [
        [IDLE, aw(addr=0x1FF8), w(), b()],
        [IDLE, ar(addr=0x1FF1, len=1), r(last=0), r()],
        [IDLE, w(), w(), w(), w(), aw(), aw(), aw(), aw(), b(), b(), b(), b()],
        [IDLE, *[aw(ready=0)] * MAX_WAIT, aw(), w(), b()],
        [IDLE, aw(lock=1, len=15, cache=2), *[w(last=0)] * 15, w(), b()],
        [
            IDLE,
            lite("aw"),
            lite("w"),
            lite("b"),
            lite("ar"),
            lite("ar"),
            lite("r"),
            lite("r", "ar"),
            lite("r"),
        ],
        [IDLE, lite("w"), lite("w"), lite("aw"), lite("aw", "b"), lite("b", bresp=2)],
    ]
    found = said([*close, *(legal_traffic(seed, 4000) for seed in range(10))], tmp_path)
    assert found == [[]] * len(found)


def test_random_traffic_covers_the_corners() -> None:
    """Random traffic has write data before its address, several bursts of one ID, and interleaved reads."""
    stimulus = legal_traffic(1, 4000)
    taken = [
        {ch for ch in ("aw", "w", "b", "ar", "r") if c.get(f"{ch}valid") and c[f"{ch}ready"]}
        for c in stimulus
    ]
    bursts = beats = early = 0
    for clock, channels in zip(stimulus, taken, strict=True):
        beats += "w" in channels and clock["wlast"]
        bursts += "aw" in channels
        early += beats > bursts
    readers = [clock["rid"] for clock, channels in zip(stimulus, taken, strict=True) if "r" in channels]
    unfinished = [
        clock["rid"]
        for clock, channels in zip(stimulus, taken, strict=True)
        if "r" in channels and not clock["rlast"]
    ]
    assert early > 50
    assert bursts > 100
    assert len(set(readers)) == 4
    assert len(unfinished) > 200
