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
    vector_length: int
    row_elements: int
    program_words: int
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
    "vector_lanes": ("a power of two from 2 to 16", lambda v: _power_of_two(v) and 2 <= v <= 16),
    "vector_length": ("a power of two from 16 to 4096", lambda v: _power_of_two(v) and 16 <= v <= 4096),
    "row_elements": ("a power of two from 16 to 65536", lambda v: _power_of_two(v) and 16 <= v <= 65536),
    "program_words": ("a power of two from 64 to 65536", lambda v: _power_of_two(v) and 64 <= v <= 65536),
    "data_width": ("one of 64, 128, 256, 512", lambda v: v in (64, 128, 256, 512)),
    "block_m": ("a power of two from 8 to 1024", lambda v: _power_of_two(v) and 8 <= v <= 1024),
    "block_k_tiles": ("a power of two from 1 to 64", lambda v: _power_of_two(v) and v <= 64),
    "block_n_tiles": ("a power of two from 1 to 64", lambda v: _power_of_two(v) and v <= 64),
    "acc_entries": ("a power of two from 16 to 65536", lambda v: _power_of_two(v) and 16 <= v <= 65536),
    "queue_depth": ("a power of two from 16 to 128", lambda v: _power_of_two(v) and 16 <= v <= 128),
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
    _check_combination(config, where)
    return config


def _check_combination(config: NpuConfig, where: str) -> None:
    """What the RTL would refuse at elaboration, in words. ConfigError."""
    if config.array_rows != config.array_cols:
        raise ConfigError(
            f"{where}: array_rows = {config.array_rows} and array_cols = {config.array_cols}; the array"
            " must be square"
        )
    for key, words, least in (("array_cols", config.array_cols, 2), ("vector_lanes", config.vector_lanes, 1)):
        bits = 32 * words
        if bits % config.data_width or not least <= bits // config.data_width <= 8:
            raise ConfigError(
                f"{where}: {key} = {words} values are {bits} bits; they must be {least} to 8 beats of"
                f" data_width = {config.data_width}"
            )
    if not config.vector_lanes <= config.vector_length <= config.row_elements:
        raise ConfigError(
            f"{where}: vector_length = {config.vector_length}; it must be at least vector_lanes ="
            f" {config.vector_lanes} and at most row_elements = {config.row_elements}"
        )
    if config.block_m < 2 * config.array_rows:
        raise ConfigError(
            f"{where}: block_m = {config.block_m}; it must be at least two tiles of array_rows ="
            f" {config.array_rows}"
        )
    if config.acc_entries % config.block_m or config.acc_entries // config.block_m > config.block_n_tiles:
        raise ConfigError(
            f"{where}: acc_entries = {config.acc_entries} must be a multiple of block_m ="
            f" {config.block_m}, at most"
            f" block_n_tiles = {config.block_n_tiles} of them"
        )


def load_config(name: str) -> NpuConfig:
    """Read and validate `rtl/configs/<name>.toml`.

    Raises:
        ConfigError: no such configuration (the message lists those that exist), or `parse_config` refuses it.
    """
    path = CONFIG_DIR / f"{name}.toml"
    if name not in config_names():
        raise ConfigError(f"no configuration {name!r}; those that exist: {', '.join(config_names())}")
    return parse_config(name, path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
