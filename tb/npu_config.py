"""Named hardware configurations: `rtl/configs/<name>.toml`, validated before any tool sees them."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CONFIG_DIR = ROOT / "rtl" / "configs"


class ConfigError(ValueError):
    """A configuration that does not exist or that the RTL cannot be built with."""


def _power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


@dataclasses.dataclass(frozen=True)
class NpuConfig:
    """One complete hardware configuration. Units: elements are float32, widths are bits."""

    name: str
    array_rows: int
    array_cols: int
    vector_lanes: int
    data_width: int
    block_m: int
    block_k_tiles: int
    block_n_tiles: int
    acc_entries: int
    queue_depth: int

    @property
    def bus_bytes(self) -> int:
        """Bytes of one beat on the AXI4 data buses."""
        return self.data_width // 8

    def parameters(self) -> dict[str, int]:
        """The parameters of `npu_top`: UpperCamelCase names and their values."""
        return {
            "".join(part.capitalize() for part in field.name.split("_")): getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "name"
        }


# The legal values of each key in words, and the check for them.
_LEGAL: dict[str, tuple[str, Any]] = {
    "array_rows": ("a power of two from 2 to 64", lambda v: _power_of_two(v) and 2 <= v <= 64),
    "array_cols": ("a power of two from 2 to 64", lambda v: _power_of_two(v) and 2 <= v <= 64),
    "vector_lanes": ("a power of two from 1 to 64", lambda v: _power_of_two(v) and v <= 64),
    "data_width": ("one of 64, 128, 256, 512", lambda v: v in (64, 128, 256, 512)),
    "block_m": ("a power of two from 8 to 1024", lambda v: _power_of_two(v) and 8 <= v <= 1024),
    "block_k_tiles": ("a power of two from 1 to 64", lambda v: _power_of_two(v) and v <= 64),
    "block_n_tiles": ("a power of two from 1 to 64", lambda v: _power_of_two(v) and v <= 64),
    "acc_entries": ("a power of two from 16 to 65536", lambda v: _power_of_two(v) and 16 <= v <= 65536),
    "queue_depth": ("a power of two from 16 to 256", lambda v: _power_of_two(v) and 16 <= v <= 256),
}


def config_names() -> list[str]:
    """Names of the configurations that exist, sorted."""
    return sorted(path.stem for path in CONFIG_DIR.glob("*.toml"))


def parse_config(name: str, text: str, where: str) -> NpuConfig:
    """Validate the TOML `text` of the configuration `name`; `where` names the source in messages.

    Raises:
        ConfigError: unknown or missing keys, a wrong type, an illegal value or combination.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: not TOML: {error}") from error
    unknown = sorted(set(table) - set(_LEGAL))
    if unknown:
        raise ConfigError(f"{where}: unknown key {', '.join(unknown)}; the keys are {', '.join(_LEGAL)}")
    missing = [key for key in _LEGAL if key not in table]
    if missing:
        raise ConfigError(f"{where}: missing key {', '.join(missing)}")
    for key, (words, legal) in _LEGAL.items():
        value = table[key]
        if type(value) is not int:
            raise ConfigError(f"{where}: {key} = {value!r} is a {type(value).__name__}; it must be {words}")
        if not legal(value):
            raise ConfigError(f"{where}: {key} = {value}; it must be {words}")
    config = NpuConfig(name=name, **table)
    if config.acc_entries < config.block_m:
        raise ConfigError(
            f"{where}: acc_entries = {config.acc_entries} cannot hold one column of block_m = {config.block_m}"
            " rows; it must be at least block_m"
        )
    lane_bits = 32 * config.vector_lanes
    if max(lane_bits, config.data_width) % min(lane_bits, config.data_width):
        raise ConfigError(
            f"{where}: vector_lanes = {config.vector_lanes} (x 32 bits) and data_width = {config.data_width}"
            " must divide one another"
        )
    return config


def load_config(name: str) -> NpuConfig:
    """Read and validate `rtl/configs/<name>.toml`.

    Raises:
        ConfigError: no such configuration (the message lists those that exist), or `parse_config` refuses it.
    """
    path = CONFIG_DIR / f"{name}.toml"
    if name not in config_names():
        raise ConfigError(f"no configuration {name!r}; those that exist: {', '.join(config_names())}")
    return parse_config(name, path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
