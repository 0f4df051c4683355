"""Files that are never there in part."""

import json
import threading
from pathlib import Path

import pytest

from tb.whole_files import write_whole


def test_many_threads_write_one_file(tmp_path: Path) -> None:
    """Each of them ends, and what is read in between is always whole."""
    path = tmp_path / "folder" / "file.json"
    texts = [json.dumps([number] * 5000) for number in range(8)]
    failed: list[BaseException] = []
    write_whole(path, texts[0])

    def write(text: str) -> None:
        try:
            for _ in range(40):
                write_whole(path, text)
                assert path.read_text("utf-8") in texts
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "new\ud800")
    assert path.read_text("utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]
