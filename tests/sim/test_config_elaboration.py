"""The validator accepts exactly the configurations with which the RTL elaborates in slang."""

import dataclasses
import random

import pytest
from pyslang import driver as slang

from echo_sim.config import LEGAL, RULES, NpuConfig, load_config
from echo_sim.designs import read_file_list
from echo_sim.numerals import choose_seed
from echo_sim.random_config import draw_config
from tb.repository import ROOT

SEED = choose_seed(1)


def elaborates(config: NpuConfig) -> bool:
    """Return whether slang elaborates npu_top with these parameters; it prints why not."""
    compiler = slang.Driver()
    compiler.addStandardArgs()
    sources, includes = read_file_list(ROOT / "rtl" / "npu.f")
    words = [
        "slang --single-unit --error-limit 4 --suppress-warnings rtl --top npu_top",
        *(f"-I {folder}" for folder in (ROOT / "rtl", *includes)),
        *(f"-G {name}={value}" for name, value in config.parameters().items()),
        *map(str, sources),
    ]
    return bool(
        compiler.parseCommandLine(" ".join(words), slang.CommandLineOptions())
        and compiler.processOptions()
        and compiler.parseAllSources()
        and compiler.runFullCompilation(True)
    )


@pytest.mark.parametrize("seed", range(SEED, SEED + 8))
def test_what_is_accepted_elaborates(seed: int) -> None:
    config = draw_config(random.Random(f"elaborate {seed}"), f"elaborate-{seed}", {"array_rows": 16})
    assert elaborates(config), config


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.key} {rule.text.split(':')[0]}")
def test_what_a_rule_refuses_does_not_elaborate(rule: object) -> None:
    """Take a legal configuration and break one rule by as little as possible."""
    small = load_config("small")
    broken = [
        changed
        for key, values in LEGAL.items()
        for value in values
        if [each for each in RULES if not each.holds(changed := dataclasses.replace(small, **{key: value}))]
        == [rule]
    ]
    if not broken:  # it takes two keys
        broken = [dataclasses.replace(small, block_k_tiles=1, block_n_tiles=1, acc_entries=32)]
    for config in random.Random(SEED).sample(broken, min(2, len(broken))):
        assert not elaborates(config), config


@pytest.mark.parametrize("key", LEGAL)
def test_what_is_not_legal_alone_does_not_elaborate(key: str) -> None:
    """The nearest values below and above the legal ones, and one in between that is no power of two."""
    least, most = LEGAL[key][0], LEGAL[key][-1]
    keys = ("array_rows", "array_cols") if key.startswith("array") else (key,)  # the array stays square
    illegal = {least // 2, 2 * most, most - 1} - set(LEGAL[key])
    assert illegal
    for value in illegal:
        assert not elaborates(dataclasses.replace(load_config("small"), **dict.fromkeys(keys, value)))
