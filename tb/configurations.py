"""Test random hardware configurations: each that validates must lint without a warning, and work."""

import os
import random
import shutil
import subprocess
import time
from typing import Final

from echo_sim.build import build
from echo_sim.config import NpuConfig
from echo_sim.designs import TOP, read_file_list
from echo_sim.places import RTL, WAIVERS
from echo_sim.random_config import draw_config, random_config
from echo_sim.tools import find_verilator
from tb import suites
from tb.repository import ROOT
from tb.results import CampaignResult, Item, Status
from tb.uvm import program_campaign

LINT_TIMEOUT_S: Final = 900.0
LARGE: Final = 8
"""One in this many linted configurations may have any size; linting an array of 64 takes a minute."""
ALWAYS: Final = ("matmul", "matmul_types", "matmul_blocks", "matmul_half", "vector")
"""Suites of the RTL regression that every configuration runs: their shapes depend on its sizes."""
SUITES: Final = 2
"""Number of further suites that a configuration runs; its name decides which."""


def lint(config: NpuConfig) -> str:
    """Return Verilator's complaints about the device; empty if there are none. ToolMissingError: no
    Verilator."""
    verilator = find_verilator()
    sources, includes = read_file_list(RTL / "npu.f")
    done = subprocess.run(
        [
            *(
                str(verilator.program),
                "--lint-only",
                "--quiet",
                "-Wall",
                "--assert",
                "--top-module",
                TOP,
            ),
            *(f"-I{folder}" for folder in (RTL, *includes)),
            *(f"-G{name}={value}" for name, value in config.parameters().items()),
            *(str(WAIVERS), *map(str, sources)),
        ],
        cwd=ROOT,
        env={**os.environ, **verilator.environment},
        capture_output=True,
        text=True,
        timeout=LINT_TIMEOUT_S,
        check=False,
    )
    said = (done.stdout + done.stderr).strip()
    return said or ("" if done.returncode == 0 else f"it ended with status {done.returncode}")


def linted(seed: int) -> NpuConfig:
    """Return the configuration to lint for a seed: mostly that of the name `random-<seed>`."""
    return (
        draw_config(random.Random(f"lint {seed}"), f"large-{seed}", {})
        if seed % LARGE == 0
        else random_config(seed)
    )


def lint_many(seed: int, count: int) -> CampaignResult:
    """Lint the configurations of `count` seeds. Figures: configs_linted."""
    started, items = time.monotonic(), []
    for number in range(seed, seed + count):
        config, begun = linted(number), time.monotonic()
        said = lint(config)
        values = ", ".join(f"{name} {value}" for name, value in config.parameters().items())
        replay = f"SEED={number} python -m tb configurations --count 1"
        status: Status = "fail" if said else "pass"
        print(f"{status}  {config.name}: {values}\n{said}".rstrip(), flush=True)
        items.append(Item(f"lint {number}", status, time.monotonic() - begun, said, replay, values))
    return CampaignResult("configs", seed, time.monotonic() - started, {"configs_linted": count}, items)


def suites_of(name: str) -> list[str]:
    """Choose the suites that a configuration runs besides random programs."""
    others = sorted(set(suites.suites()) - set(ALWAYS))
    return [*ALWAYS, *random.Random(name).sample(others, SUITES)]


def play(name: str, seed: int, count: int) -> CampaignResult:
    """Build a configuration, play random programs on it, and run a few suites of the RTL regression.

    The simulator is removed if everything passed, since no other run uses that configuration. Figures:
    configs_played, config_programs, config_tests.

    Raises: as `echo_sim.build.build`.
    """
    started = time.monotonic()
    directory = build(name)
    parts = [program_campaign.play(name, "mixed", seed, count=count, hours=None)]
    parts += [suites.play(suite, name, "fast", seed, 1) for suite in suites_of(name)]
    bad = [item for part in parts for item in part.items if item.status != "pass"]
    tests = sum(len(part.items) for part in parts[1:])
    replay = f"SEED={seed} python -m tb configurations {name} --count {count}"
    items = [Item(f"play {name}", "fail" if bad else "pass", time.monotonic() - started, "", replay)]
    items += [
        Item(f"{name}: {item.name}", item.status, item.seconds, item.message, item.replay) for item in bad
    ]
    if not bad:
        shutil.rmtree(directory)
    figures = {
        "configs_played": 1,
        "config_programs": parts[0].figures["uvm_programs"],
        "config_tests": tests,
    }
    return CampaignResult("configs", seed, time.monotonic() - started, figures, items)
