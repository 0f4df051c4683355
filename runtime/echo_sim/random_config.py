"""Draw random hardware configurations from seeds: what the validator accepts must elaborate and work."""

import dataclasses
import random
from collections.abc import Mapping, Sequence
from typing import Any

from echo_sim.parameters import LEGAL, OPTIONAL, RULES, NpuConfig

MOST: Mapping[str, int] = {
    "vector_length": 256,
    "block_m": 64,
    "block_k_tiles": 8,
    "block_n_tiles": 16,
    "acc_entries": 512,
}
"""Upper bounds of what `random_config` draws. Larger configurations are slow to build and simulate."""
LARGE_EVERY = 12
"""One of so many seeds has the widest bus, with the array that it needs."""
LARGE: Mapping[str, int] = {"array_rows": 32, "data_width": 512}


def draw_config(
    rng: random.Random, name: str, most: Mapping[str, int], fixed: Mapping[str, int] | None = None
) -> NpuConfig:
    """Draw a legal configuration. `most` gives upper bounds for some keys, `fixed` the values of others."""
    values = {key: [each for each in legal if each <= most.get(key, each)] for key, legal in LEGAL.items()}
    values |= {key: [value] for key, value in (fixed or {}).items()}
    free = {key: values.pop(key) for key in OPTIONAL}  # no rule is about them
    while True:
        drawn = {key: _any(rng, each) for key, each in values.items()}
        config = NpuConfig(name, **(drawn | {"array_cols": drawn["array_rows"]}))
        if all(rule.holds(config) for rule in RULES):
            others: dict[str, Any] = {key: _any(rng, each) for key, each in free.items()}
            return dataclasses.replace(config, **others)


def _any(rng: random.Random, values: Sequence[int]) -> int:
    # The ends are drawn more often: widths that are derived from them become 0 or 1 there.
    return rng.choice((values[0], values[-1]) if rng.random() < 0.3 else values)


def random_config(seed: int) -> NpuConfig:
    """Return the configuration `random-<seed>`, of a size that builds in minutes."""
    rng = random.Random(f"config {seed}")
    most = {**MOST, "array_rows": rng.choice((8, 8, 8, 16))}  # the wide buses need the larger array
    return draw_config(rng, f"random-{seed}", most, LARGE if seed % LARGE_EVERY == 0 else None)
