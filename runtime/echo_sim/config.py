"""Hardware configurations: `rtl/configs/<name>.toml`, validated before any tool sees them."""

import argparse
import dataclasses
import hashlib
import re
import tomllib
from pathlib import Path

from echo_sim.parameters import LEGAL, MEMORY, OPTIONAL, RULES, ConfigError, NpuConfig, check, legal_values
from echo_sim.places import CONFIGS
from echo_sim.random_config import random_config

__all__ = [
    "LEGAL",
    "MEMORY",
    "RULES",
    "ConfigError",
    "NpuConfig",
    "absolute",
    "check",
    "config_argument",
    "config_names",
    "load_config",
    "parse_config",
    "small_memory_config_names",
]

LOCKSTEP = "lockstep-"
"""Begins the name of a configuration whose board compares the device with one without clock gating."""
PIPELINE = "pipeline-"
"""Begins the name of a configuration with `pipeline` = 1 that is another one but for that."""


def config_names() -> list[str]:
    """Names of the configurations that exist, sorted."""
    return sorted(path.stem for path in CONFIGS.glob("*.toml"))


def small_memory_config_names() -> list[str]:
    """Names of the configurations that the testbench runs on: it places operands in memory below 4 GiB."""
    return [name for name in config_names() if not load_config(name).large_memory]


def parse_config(name: str, text: str, where: str) -> NpuConfig:
    """Validate the TOML `text` of the configuration `name`; `where` names the source in messages.

    Raises:
        ConfigError: unknown or missing keys, a wrong type, an illegal value or combination.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: not TOML: {error}") from error
    unknown = sorted(set(table) - {*LEGAL, *MEMORY})
    if unknown:
        keys = ", ".join((*LEGAL, *MEMORY))
        raise ConfigError(f"{where}: unknown key {', '.join(unknown)}; the keys are {keys}")
    missing = [key for key in LEGAL if key not in table and key not in OPTIONAL]
    if missing:
        raise ConfigError(f"{where}: missing key {', '.join(missing)}")
    for key, value in table.items():
        if type(value) is not int:
            raise ConfigError(
                f"{where}: {key} = {value!r} is a {type(value).__name__}; it must be {legal_values(key)}"
            )
    config = NpuConfig(name=name, **table)
    check(config, where)
    return config


def load_config(config: str) -> NpuConfig:
    """Return the configuration that a user names.

    Args:
        config: the name of a file in `rtl/configs`; `random-<seed>`, which `echo_sim.random_config` draws; or
            the path of a TOML file, whose configuration has the file's name and a hash of its values.
            `pipeline-` before any of these sets its key `pipeline`. `lockstep-` before any of these, those
            included, puts a second device without clock gating on the board, and compares all outputs in
            every clock.

    Raises:
        ConfigError: no such configuration (the message lists those that exist), or `parse_config` refuses it.
    """
    if config.startswith(LOCKSTEP):
        hardware = load_config(config.removeprefix(LOCKSTEP))
        return dataclasses.replace(hardware, name=LOCKSTEP + hardware.name)
    if config.startswith(PIPELINE) and not config.removeprefix(PIPELINE).startswith((LOCKSTEP, PIPELINE)):
        hardware = load_config(config.removeprefix(PIPELINE))
        return dataclasses.replace(hardware, name=PIPELINE + hardware.name, pipeline=1)
    if config in config_names():
        path = CONFIGS / f"{config}.toml"
        return parse_config(config, path.read_text(encoding="utf-8"), f"rtl/configs/{path.name}")
    if drawn := re.fullmatch(r"random-([0-9]{1,10})", config):
        return random_config(int(drawn[1]))
    path = Path(config)
    try:
        text = path.read_text(encoding="utf-8") if path.suffix == ".toml" and path.is_file() else None
    except OSError as error:
        raise ConfigError(f"configuration {config!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{config}: not TOML: byte {error.start} is no UTF-8") from None
    if text is not None:
        read = parse_config(path.stem, text, config)
        values = str(sorted((read.parameters() | read.defines()).items())).encode()
        stem = re.sub(r"[^A-Za-z0-9]+", "-", path.stem)
        return dataclasses.replace(read, name=f"{stem}-{hashlib.sha256(values).hexdigest()[:8]}")
    raise ConfigError(
        f"no configuration {config!r}; those that exist: {', '.join(config_names())}, random-<seed>, and any"
        " TOML file whose name ends in .toml"
    )


def config_argument(config: str) -> str:
    """Return a configuration's name or path, for argparse; ArgumentTypeError if there is none."""
    try:
        load_config(config)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return config


def absolute(config: str) -> str:
    """Return a name that is valid in any directory: the path of a TOML file becomes absolute."""
    if not config.endswith(".toml"):
        return config
    path = config.removeprefix(LOCKSTEP).removeprefix(PIPELINE)
    return config.removesuffix(path) + str(Path(path).resolve())
