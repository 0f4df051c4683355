"""Hardware configurations are complete and validated; a refusal names the key and its legal values."""

import dataclasses
import errno
import os
import re
from pathlib import Path

import pytest

from echo_sim.config import (
    LEGAL,
    ConfigError,
    absolute,
    config_names,
    load_config,
    parse_config,
    small_memory_config_names,
)
from echo_sim.designs import npu_design
from echo_sim.places import CONFIGS
from echo_sim.random_config import MOST
from tests.refusals import refuses

SMALL = (CONFIGS / "small.toml").read_text(encoding="utf-8")


def changed(key: str, value: str) -> str:
    """Return small.toml with another value for one key."""
    lines = [f"{key} = {value}" if line.startswith(f"{key} ") else line for line in SMALL.splitlines()]
    return "\n".join(lines)


@pytest.mark.parametrize("name", config_names())
def test_committed_configurations_are_legal(name: str) -> None:
    config = load_config(name)
    assert config.name == name
    assert config.parameters()["ArrayRows"] == config.array_rows
    assert config.parameters()["BlockKTiles"] == config.block_k_tiles
    assert len(config.parameters()) == 14


@pytest.mark.parametrize(
    ("name", "changes", "blocks"),
    [
        ("default", {}, True),
        ("default", {"block_k_tiles": 2, "data_width": 128}, True),
        ("default", {"block_k_tiles": 1}, False),
        ("default", {"data_width": 64}, False),
        ("default", {"array_rows": 8, "array_cols": 8}, False),
        ("small", {}, True),
        ("small", {"block_k_tiles": 2}, False),
        ("small", {"acc_entries": 64}, False),
        ("small", {"array_rows": 8, "array_cols": 8}, False),
    ],
)
def test_which_configurations_have_weights_in_blocks(
    name: str, changes: dict[str, int], blocks: bool
) -> None:
    """As docs/packets.md says."""
    config = dataclasses.replace(load_config(name), **changes)
    assert config.has_blocks is blocks


def test_both_configurations_of_the_contract_exist() -> None:
    assert {"default", "small"} <= set(config_names())


def test_unknown_name_lists_those_that_exist() -> None:
    with pytest.raises(ConfigError, match=r"'huge'.*default, large, small"):
        load_config("huge")


def test_a_lockstep_configuration_has_a_second_device(tmp_path: Path) -> None:
    config, alone = load_config("lockstep-small"), load_config("small")
    assert config.name == "lockstep-small"
    assert config.parameters() == alone.parameters()
    assert npu_design("lockstep-small").parameters["Lockstep"] == 1
    assert npu_design("small").parameters["Lockstep"] == 0
    assert load_config("lockstep-random-7").parameters() == load_config("random-7").parameters()
    path = tmp_path / "own.toml"
    path.write_text(changed("program_words", "2048"), encoding="utf-8")
    assert load_config(f"lockstep-{path}").program_words == 2048
    assert absolute("lockstep-own.toml") == f"lockstep-{Path('own.toml').resolve()}"
    with pytest.raises(ConfigError, match="'huge'"):
        load_config("lockstep-huge")


def test_a_pipelined_configuration_differs_in_one_key(tmp_path: Path) -> None:
    config, alone = load_config("pipeline-small"), load_config("small")
    assert config.name == "pipeline-small"
    assert config.parameters() == alone.parameters() | {"Pipeline": 1}
    assert alone.parameters()["Pipeline"] == 0
    path = tmp_path / "own.toml"
    path.write_text(changed("program_words", "2048"), encoding="utf-8")
    assert load_config(f"pipeline-{path}").parameters()["Pipeline"] == 1
    assert absolute("pipeline-own.toml") == f"pipeline-{Path('own.toml').resolve()}"
    both = load_config("lockstep-pipeline-small")
    assert (both.name, both.pipeline) == ("lockstep-pipeline-small", 1)
    assert absolute("lockstep-pipeline-own.toml") == f"lockstep-pipeline-{Path('own.toml').resolve()}"
    assert npu_design("lockstep-pipeline-small").parameters["Lockstep"] == 1
    for name in ("pipeline-huge", "pipeline-lockstep-small", "pipeline-pipeline-small"):
        with pytest.raises(ConfigError, match="no configuration"):
            load_config(name)


def test_a_file_may_leave_the_pipeline_out() -> None:
    """Files from before the key have the device that they had."""
    text = "\n".join(line for line in SMALL.splitlines() if not line.startswith("pipeline "))
    assert parse_config("small", text, "here") == load_config("small")


@pytest.mark.parametrize("name", ["", "../small", "small.toml", "random-", "random-x", "rtl/configs"])
def test_what_names_no_configuration(name: str) -> None:
    with pytest.raises(ConfigError, match=r"random-<seed>, and any TOML file"):
        load_config(name)


def test_a_file_is_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is part of file names, and configurations of the same name differ by their values."""
    names = set()
    for words in ("1024", "2048"):
        path = tmp_path / words / "my own.toml"
        path.parent.mkdir()
        path.write_text(changed("program_words", words), encoding="utf-8")
        config = load_config(str(path))
        assert config.program_words == int(words)
        names.add(config.name)
        monkeypatch.chdir(path.parent)
        assert load_config("my own.toml") == config
        assert absolute("my own.toml") == str(path)
    assert len(names) == 2
    assert all(re.fullmatch(r"my-own-[0-9a-f]{8}", name) for name in names)
    assert absolute("small") == "small"
    path.write_text(changed("program_words", "8"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"my own\.toml: program_words = 8"):
        load_config(str(path))


def test_only_a_file_that_ends_in_toml_is_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "small.txt").write_text(SMALL, encoding="utf-8")
    (tmp_path / "folder.toml").mkdir()
    for name in ("small.txt", "folder.toml"):
        with pytest.raises(ConfigError, match=r"no configuration.*any TOML file"):
            load_config(str(tmp_path / name))


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name longer than any file's, or a file of somebody else, is one message."""

    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with pytest.raises(ConfigError, match="cannot be read: File name too long"):
        load_config("x" * 5000 + ".toml")
    path = tmp_path / "secret.toml"
    path.write_text(SMALL, encoding="utf-8")
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(ConfigError, match=r"secret\.toml' cannot be read: Permission denied"):
        load_config(str(path))


def test_random_configurations_are_those_of_their_seed() -> None:
    drawn = [load_config(f"random-{seed}") for seed in range(60)]
    assert drawn == [load_config(f"random-{seed}") for seed in range(60)]
    assert [config.name for config in drawn] == [f"random-{seed}" for seed in range(60)]
    for key, legal in LEGAL.items():
        found = {getattr(config, key) for config in drawn}
        assert {value for value in legal if value <= MOST.get(key, value) and value <= 16} <= found, key


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
        ("array_rows", "128", "4 to 64"),
        ("data_width", "32", "from 64 to 512"),
        ("vector_lanes", "-4", "power of two"),
        ("queue_depth", "8", "16 to 128"),
        ("queue_depth", "256", "16 to 128"),
        ("vector_length", "8", "16 to 4096"),
        ("vector_length", "48", "power of two"),
        ("row_elements", "131072", "16 to 65536"),
        ("program_words", "512", "1024 to 65536"),
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


def combined(**values: int) -> str:
    """Return small.toml with other values for some keys."""
    text = SMALL
    for key, value in values.items():
        text = re.sub(rf"^{key} = \d+", f"{key} = {value}", text, flags=re.MULTILINE)
    return text


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"vector_length": 16, "vector_lanes": 16},
            "vector_length = 16; .*two words .* Legal: 32, 64, 128, 256, 512$",
        ),
        (
            {"block_k_tiles": 1, "block_n_tiles": 1, "block_m": 8, "acc_entries": 16},
            "block_n_tiles = 1; .*banks of tiles. Legal: 2, 4, 8, 16, 32, 64$",
        ),
        ({"acc_entries": 512}, "acc_entries = 512; .* Legal: 32, 64, 128, 256$"),
        ({"block_m": 1024}, "acc_entries = 128; .* Legal: 1024, 2048, 4096, 8192$"),
        ({"data_width": 512}, "array_cols = 4; .*beats.* Legal: 32, 64$"),
    ],
)
def test_a_refusal_lists_what_is_legal(values: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config("x", combined(**values), "x.toml")


def test_a_file_that_is_no_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "binary.toml"
    path.write_bytes(b"x = 1\n\xff")
    with pytest.raises(ConfigError, match=r"binary\.toml: not TOML: byte 6 is no UTF-8"):
        load_config(str(path))


def test_not_toml() -> None:
    with pytest.raises(ConfigError, match=r"x\.toml.*not TOML"):
        parse_config("x", "array_rows : 4", "x.toml")


def test_the_sizes_of_memory_are_optional_and_define_widths(tmp_path: Path) -> None:
    without = "\n".join(line for line in SMALL.splitlines() if "_mib" not in line)
    assert parse_config("small", without, "here") == load_config("small")
    assert load_config("small").defines() == {}
    assert "large" not in small_memory_config_names()
    more = without + "\nactivation_mib = 512\n"
    assert parse_config("x", more, "here").defines() == {
        "NPU_WEIGHT_MIB": "256",
        "NPU_ACTIVATION_MIB": "512",
    }
    names = set()
    for mib in (256, 512, 1024):
        path = tmp_path / "mine.toml"
        path.write_text(f"{without}\nweight_mib = {mib}\n", encoding="utf-8")
        names.add(load_config(str(path)).name)
    assert len(names) == 3
    for value in (128, 384, 16384):
        refuses(
            ConfigError,
            "a power of two from 256 to 8192",
            parse_config,
            "x",
            f"{without}\nweight_mib = {value}",
            "x",
        )
