"""Hardware configurations: complete, validated, and refused with the key and its legal values."""

from __future__ import annotations

import pytest

from tb.npu_config import CONFIG_DIR, ConfigError, config_names, load_config, parse_config

SMALL = (CONFIG_DIR / "small.toml").read_text(encoding="utf-8")


def changed(key: str, value: str) -> str:
    """small.toml with another value for one key."""
    lines = [f"{key} = {value}" if line.startswith(f"{key} ") else line for line in SMALL.splitlines()]
    return "\n".join(lines)


@pytest.mark.parametrize("name", config_names())
def test_committed_configurations_are_legal(name: str) -> None:
    config = load_config(name)
    assert config.name == name
    assert config.parameters()["ArrayRows"] == config.array_rows
    assert config.parameters()["BlockKTiles"] == config.block_k_tiles
    assert len(config.parameters()) == 12


def test_both_configurations_of_the_contract_exist() -> None:
    assert {"default", "small"} <= set(config_names())


def test_unknown_name_lists_those_that_exist() -> None:
    with pytest.raises(ConfigError, match=r"'huge'.*default, small"):
        load_config("huge")


@pytest.mark.parametrize("name", ["", "../small", "small.toml"])
def test_a_name_is_not_a_path(name: str) -> None:
    with pytest.raises(ConfigError):
        load_config(name)


def test_unknown_key() -> None:
    with pytest.raises(ConfigError, match=r"unknown key aray_rows.*array_rows"):
        parse_config("x", SMALL + "\naray_rows = 4\n", "x.toml")


def test_missing_key() -> None:
    text = "\n".join(line for line in SMALL.splitlines() if not line.startswith("block_m"))
    with pytest.raises(ConfigError, match="missing key block_m"):
        parse_config("x", text, "x.toml")


@pytest.mark.parametrize("value", ["4.0", '"4"', "true", "[4]"])
def test_wrong_type(value: str) -> None:
    with pytest.raises(ConfigError, match=r"array_rows.*power of two"):
        parse_config("x", changed("array_rows", value), "x.toml")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("array_rows", "3", "power of two"),
        ("array_cols", "0", "power of two"),
        ("array_rows", "128", "2 to 64"),
        ("data_width", "32", "64, 128, 256, 512"),
        ("vector_lanes", "-4", "power of two"),
        ("queue_depth", "8", "16 to 128"),
        ("queue_depth", "256", "16 to 128"),
        ("vector_length", "8", "16 to 4096"),
        ("vector_length", "48", "power of two"),
        ("row_elements", "131072", "16 to 65536"),
        ("program_words", "32", "64 to 65536"),
        ("array_cols", "8", "square"),
        ("vector_length", "1024", "at most row_elements"),
        ("data_width", "256", "2 to 8 beats"),
        ("data_width", "128", "array_cols.*2 to 8 beats"),
        ("vector_lanes", "32", "2 to 16"),
        ("block_m", "4", "8 to 1024"),
        ("acc_entries", "16", "multiple of block_m"),
        ("acc_entries", "512", "at most block_n_tiles"),
    ],
)
def test_illegal_value_or_combination(key: str, value: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}.*{words}|{words}"):
        parse_config("x", changed(key, value), "x.toml")


def test_not_toml() -> None:
    with pytest.raises(ConfigError, match=r"x\.toml.*not TOML"):
        parse_config("x", "array_rows : 4", "x.toml")
