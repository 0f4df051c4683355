"""A campaign holds its folder: the same changes share it, others wait, and a crash leaves nothing locked."""

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest

from tb.mutation import tree
from tb.mutation.held import held
from tb.mutation.patches import FOLDER, load_bug

SPAWN = multiprocessing.get_context("spawn")
LIMIT_S = 30.0


def written(folder: Path, text: str, refused: dict[int, str] | None = None) -> Callable[[], dict[int, str]]:
    """Return what writes `text` into the folder."""

    def fill() -> dict[int, str]:
        folder.mkdir(exist_ok=True)
        (folder / "x.sv").write_text(text)
        return refused or {}

    return fill


def never() -> dict[int, str]:
    raise AssertionError("the folder is written although another campaign holds it")


def campaign(folder: Path, text: str, holding: Event, crash: bool) -> None:
    """Hold the folder with `text` in it until the process is killed."""

    def fill() -> dict[int, str]:
        if crash:
            holding.set()
            threading.Event().wait()
        return written(folder, text, {7: "no lvalue"})()

    with held(folder, text, fill):
        holding.set()
        threading.Event().wait()


@pytest.fixture
def started(tmp_path: Path) -> Any:
    """Return a function that starts a campaign in a process, and waits until it holds the folder."""
    processes = []

    def start(text: str, *, crash: bool = False) -> int:
        holding = SPAWN.Event()
        process = SPAWN.Process(target=campaign, args=(tmp_path / "tree", text, holding, crash))
        process.start()
        processes.append(process)
        assert holding.wait(LIMIT_S)
        assert process.pid
        return process.pid

    yield start
    for process in processes:
        process.kill()
        process.join()


def test_the_same_changes_share_a_folder(tmp_path: Path, started: Callable[[str], int]) -> None:
    started("a")
    with held(tmp_path / "tree", "a", never) as refused:
        assert refused == {7: "no lvalue"}
        with held(tmp_path / "tree", "a", never) as again:
            assert again == refused


def test_other_changes_wait_for_the_end_of_a_killed_campaign(
    tmp_path: Path, started: Callable[[str], int]
) -> None:
    folder = tmp_path / "tree"
    holder = started("a")
    said: queue.Queue[str] = queue.Queue()
    found: queue.Queue[str] = queue.Queue()

    def second() -> None:
        with held(folder, "b", written(folder, "b"), said.put):
            found.put((folder / "x.sv").read_text())

    thread = threading.Thread(target=second)
    thread.start()
    assert f"waiting for {folder}: a campaign with other changes holds it" in said.get(timeout=LIMIT_S)
    assert (folder / "x.sv").read_text() == "a"
    assert found.empty()
    os.kill(holder, signal.SIGKILL)
    assert found.get(timeout=LIMIT_S) == "b"
    thread.join()
    assert said.empty()  # one line, however long it waits


def test_a_folder_whose_writer_died_is_written_again(tmp_path: Path, started: Callable[..., int]) -> None:
    folder = tmp_path / "tree"
    with held(folder, "a", written(folder, "a")):
        pass
    os.kill(started("b", crash=True), signal.SIGKILL)
    (folder / "x.sv").write_text("half of b")
    with held(folder, "a", written(folder, "a")) as refused:
        assert refused == {}
        assert (folder / "x.sv").read_text() == "a"


def test_a_folder_that_is_being_written_has_no_contents(tmp_path: Path) -> None:
    """Who comes in when its writer dies must not take it for what it was before."""
    folder = tmp_path / "tree"
    with held(folder, "a", written(folder, "a")):
        record = tmp_path / ".tree.held"
        assert record.read_text()

    def fill() -> dict[int, str]:
        assert not record.read_text()
        return {}

    with held(folder, "b", fill):
        assert record.read_text()


def test_a_failure_leaves_nothing_held(tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    with pytest.raises(AssertionError), held(folder, "a", never):
        pass
    with held(folder, "b", written(folder, "b")):
        assert (folder / "x.sv").read_text() == "b"


def test_a_tree_with_other_bugs_waits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two campaigns of one name judge each their own changes."""
    monkeypatch.setattr(tree, "TREES", tmp_path)
    monkeypatch.setattr(tree, "_complaints", lambda _: [])
    names = ("read_buffer_one_short", "tail_fills_beat")
    first, second = (load_bug(FOLDER / f"{name}.patch") for name in names)
    file = first.edits[0].file
    ended = threading.Event()
    seen: queue.Queue[tuple[str, bool]] = queue.Queue()

    def other() -> None:
        with tree.usable("bugs", {1: second.edits}) as (folder, _):
            seen.put((next(folder.rglob(file)).read_text(), ended.is_set()))

    with tree.usable("bugs", {1: first.edits}) as (folder, _):
        held_text = next(folder.rglob(file)).read_text()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(1.0)
        assert thread.is_alive()
        assert next(folder.rglob(file)).read_text() == held_text
        ended.set()
    text, after = seen.get(timeout=LIMIT_S)
    thread.join()
    assert after
    assert text != held_text
