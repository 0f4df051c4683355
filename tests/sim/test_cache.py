"""The kept builds: they are listed, and nothing else is removed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from echo_sim import cache, places


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a cache with a simulator of 100 bytes and a folder of 7."""
    folder = tmp_path / "builds"
    for path, size in (("small-fast/fingerprint", 100), ("runs/first/log", 7)):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_bytes(bytes(size))
    monkeypatch.setattr(cache, "SIM_BUILD", folder)
    return folder


def test_simulators_are_told_from_other_folders(builds: Path) -> None:
    assert cache.kept() == [cache.Kept("runs", 7, False), cache.Kept("small-fast", 100, True)]


def test_a_file_that_goes_while_it_is_counted_has_no_bytes(
    builds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def walk(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        for parent, folders, files in os.walk(folder):
            yield parent, folders, [*files, "gone"]

    monkeypatch.setattr(cache, "os", SimpleNamespace(walk=walk))
    assert [each.nbytes for each in cache.kept()] == [7, 100]


def test_every_folder_has_a_label(builds: Path) -> None:
    for name in ("objects", "runs-2", "zig"):
        (builds / name).mkdir()
    assert {each.name: each.label for each in cache.kept()} == {
        "objects": "compiled parts of simulators",
        "runs": "directories in which simulators run",
        "runs-2": "directories in which simulators run",
        "small-fast": "simulator",
        "zig": "what the C++ compiler of ziglang keeps",
    }


def test_clear_says_what_it_freed(builds: Path) -> None:
    assert cache.clear() == 107
    assert not list(builds.iterdir())
    assert cache.clear() == 0


def test_what_cannot_be_removed_is_not_counted(builds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(cache.shutil, "rmtree", refused)
    with pytest.raises(OSError, match="Permission denied"):
        cache.clear()


def test_a_named_folder_keeps_what_else_is_in_it(tmp_path: Path) -> None:
    """ECHO_NPU_CACHE may be any folder: the cache is `echo-npu` in it."""
    (tmp_path / "photos").mkdir()
    (tmp_path / "echo-npu" / "small-fast").mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-c", "from echo_sim import cache; cache.clear()"],
        env={**os.environ, places.CACHE_VARIABLE: str(tmp_path)},
        check=True,
    )
    assert (tmp_path / "photos").is_dir()
    assert not (tmp_path / "echo-npu" / "small-fast").exists()
