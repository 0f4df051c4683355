"""The parameters of a hardware configuration, and which values the RTL can be built with."""

import dataclasses
from collections.abc import Callable
from typing import Any


class ConfigError(ValueError):
    """A configuration that does not exist or that the RTL cannot be built with."""


@dataclasses.dataclass(frozen=True)
class NpuConfig:
    """One complete hardware configuration. Units: elements are float32, widths are bits."""

    name: str
    array_rows: int
    array_cols: int
    vector_lanes: int
    vector_length: int
    row_elements: int
    program_words: int
    data_width: int
    block_m: int
    block_k_tiles: int
    block_n_tiles: int
    acc_entries: int
    queue_depth: int
    clock_gating: int
    pipeline: int = 0
    weight_mib: int = 256
    activation_mib: int = 256

    @property
    def bus_bytes(self) -> int:
        """Bytes of one beat on the AXI4 data buses."""
        return self.data_width // 8

    @property
    def has_blocks(self) -> bool:
        """Whether the matrix engine takes weights in blocks: they fit its array, bus, panels, N blocks."""
        if self.array_rows == 4:
            return self.block_k_tiles >= 4 and self.acc_entries >= 4 * self.block_m
        return self.array_rows == 16 and self.data_width >= 128 and self.block_k_tiles >= 2

    def parameters(self) -> dict[str, int]:
        """Return the parameters of `npu_top`: UpperCamelCase names and their values."""
        return {
            "".join(part.capitalize() for part in field.name.split("_")): getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name in LEGAL
        }

    @property
    def large_memory(self) -> bool:
        """Whether memory lies above 4 GiB."""
        return max(self.weight_mib, self.activation_mib) > LEAST_MIB

    def defines(self) -> dict[str, str]:
        """Return the macros with which the RTL is built: none for the memory that every device has."""
        if not self.large_memory:
            return {}
        return {
            "NPU_WEIGHT_MIB": str(self.weight_mib),
            "NPU_ACTIVATION_MIB": str(self.activation_mib),
        }


def _powers(least: int, most: int) -> tuple[int, ...]:
    return tuple(1 << bits for bits in range(least.bit_length() - 1, most.bit_length()))


LEGAL: dict[str, tuple[int, ...]] = {
    "array_rows": _powers(4, 64),
    "array_cols": _powers(4, 64),
    "vector_lanes": _powers(2, 16),
    "vector_length": _powers(16, 4096),
    "row_elements": _powers(16, 65536),
    "program_words": _powers(1024, 65536),  # the runtime keeps the programs of a whole model there
    "data_width": _powers(64, 512),
    "block_m": _powers(8, 1024),
    "block_k_tiles": _powers(1, 64),
    "block_n_tiles": _powers(1, 64),
    "acc_entries": _powers(16, 65536),
    "queue_depth": _powers(16, 128),
    "clock_gating": (0, 1),
    "pipeline": (0, 1),
}
"""The values that each parameter of `npu_top` can have. RULES restrict how they combine."""

OPTIONAL = ("pipeline",)
"""The parameters of `npu_top` that a file may leave out: they are 0 then."""

LEAST_MIB = 256
MEMORY: dict[str, tuple[int, ...]] = {
    "weight_mib": _powers(LEAST_MIB, 8192),
    "activation_mib": _powers(LEAST_MIB, 8192),
}
"""The values of the optional keys: sizes of memory, on which the widths of addresses depend."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """A condition on the values of several keys, as the RTL's own checks and its memories require.

    `key` is the key that an error names, `text` says what it must be, `holds` decides.
    """

    key: str
    text: str
    holds: Callable[[NpuConfig], bool]

    def legal(self, config: NpuConfig) -> list[int]:
        """Return the values of `key` that fulfil the rule with the other values of `config`."""
        others: list[tuple[int, dict[str, Any]]] = [(value, {self.key: value}) for value in LEGAL[self.key]]
        return [value for value, change in others if self.holds(dataclasses.replace(config, **change))]


def _beats(words: int, data_width: int, least: int) -> bool:
    return least * data_width <= 32 * words <= 8 * data_width


RULES: tuple[Rule, ...] = (
    Rule("array_cols", "array_rows: the array is square", lambda c: c.array_cols == c.array_rows),
    Rule(
        "array_cols",
        "2 to 8 beats of data_width: of 32-bit words, a row of a tile",
        lambda c: _beats(c.array_cols, c.data_width, 2),
    ),
    Rule(
        "vector_lanes",
        "1 to 8 beats of data_width: of 32-bit words, a word of the vector engine",
        lambda c: _beats(c.vector_lanes, c.data_width, 1),
    ),
    Rule(
        "vector_length",
        "at least two words of vector_lanes, at most row_elements",
        lambda c: 2 * c.vector_lanes <= c.vector_length <= c.row_elements,
    ),
    Rule("block_m", "at least two tiles of array_rows", lambda c: c.block_m >= 2 * c.array_rows),
    Rule(
        "block_n_tiles",
        "2 or more, times block_k_tiles: a panel of the right operand has two banks of tiles",
        lambda c: c.block_k_tiles * c.block_n_tiles >= 2,
    ),
    Rule(
        "acc_entries",
        "a multiple of block_m, at most block_n_tiles of them",
        lambda c: c.acc_entries % c.block_m == 0 and c.acc_entries // c.block_m <= c.block_n_tiles,
    ),
)


def check(config: NpuConfig, where: str) -> None:
    """Raise ConfigError, with `where` and the legal values, for a value or combination that is illegal."""
    for key, values in (LEGAL | MEMORY).items():
        value = getattr(config, key)
        if value not in values:
            raise ConfigError(f"{where}: {key} = {value}; it must be {legal_values(key)}")
    for rule in RULES:
        if not rule.holds(config):
            legal = ", ".join(map(str, rule.legal(config))) or "none, with these values of the other keys"
            raise ConfigError(
                f"{where}: {rule.key} = {getattr(config, rule.key)}; it must be {rule.text}. Legal: {legal}"
            )


def legal_values(key: str) -> str:
    """Return what a key of a configuration can be, in words for a message."""
    values = LEGAL[key] if key in LEGAL else MEMORY[key]
    if values[0] == 0:
        return " or ".join(map(str, values))
    return f"a power of two from {values[0]} to {values[-1]}"
