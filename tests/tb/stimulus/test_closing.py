"""Commands drawn for a bin of the coverage plan reach it and are legal."""

import random

import pytest

from echo_npu.commands.command import as_commands
from echo_sim.config import load_config
from tb.checking import accepted, loaded_programs
from tb.functional.plan import COMMANDS
from tb.functional.samples import Labels, command_samples, memory_pattern
from tb.stimulus.closing import COUNTERS, PATTERNS, ClosingMaker, reachable
from tb.testbench import DEFAULT_TIMING


def has(label: str, found: Labels | None) -> bool:
    return label in found if isinstance(found, frozenset) else label == found


@pytest.mark.parametrize("config", ["small", "default"])
def test_every_bin_is_reached(config: str) -> None:
    hardware = load_config(config)
    programs = loaded_programs(hardware.program_words)
    maker = ClosingMaker(random.Random(7), hardware)
    bins = reachable(hardware)
    there = {counter.name for counter in COUNTERS if counter.group != "packed" or hardware.has_blocks}
    assert {counter.name for counter, _ in bins} == there
    for counter, labels in bins:
        commands = []
        for slots in maker.reach(counter, labels):
            command = accepted(as_commands(slots)[0], programs, blocks=hardware.has_blocks)
            assert command is not None, f"{counter.name} {labels}: the device refuses it"
            commands.append(command)
        wanted = dict(zip((axis.name for axis in counter.axes), labels, strict=True))
        assert any(
            sample.group == counter.group
            and all(has(label, sample.values.get(axis)) for axis, label in wanted.items())
            for sample in command_samples(commands, hardware, DEFAULT_TIMING)
        ), f"{counter.name} {labels}: not reached"


def test_patterns_are_the_plans() -> None:
    assert set(PATTERNS) == set(COMMANDS.axis("memory").labels)
    for label, knobs in PATTERNS.items():
        assert label in memory_pattern({**DEFAULT_TIMING, **knobs})
