"""Hold a folder with changed sources for the life of a campaign.

The lock is of the kernel (flock), so none outlives its holder. Campaigns with the same changes share a
folder; one with others waits.
"""

import contextlib
import dataclasses
import fcntl
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final

POLL_S: Final = 0.2


@dataclasses.dataclass(frozen=True)
class Contents:
    """What a held folder has.

    Attributes:
        wanted: digest of what its writer was asked for.
        refused: why Verilator rejects a change, by its number.
    """

    wanted: str
    refused: dict[int, str]


@contextlib.contextmanager
def held(
    folder: Path,
    wanted: str,
    fill: Callable[[], dict[int, str]],
    say: Callable[[str], None] = lambda text: print(text, flush=True),
) -> Iterator[dict[int, str]]:
    """Hold `folder` with the contents `wanted`, a digest; yield the reasons of refused changes by number.

    If nobody holds the folder, `fill` writes it and returns the reasons. If others hold it with the same
    contents, it stays as it is. With other contents this waits until they have ended.

    Args:
        say: gets a line when it begins to wait.

    Raises what `fill` raises.
    """
    path = folder.with_name(f".{folder.name}.held")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+", encoding="utf-8") as file:
        told = False
        while (contents := _try(file, wanted, fill)) is None:
            if not told:
                say(f"waiting for {folder}: a campaign with other changes holds it, or another one writes it")
                told = True
            time.sleep(POLL_S)
        yield contents.refused


def _try(file: IO[str], wanted: str, fill: Callable[[], dict[int, str]]) -> Contents | None:
    """Return the contents, with a shared lock on the file, if they are those wanted."""
    if _locked(file, fcntl.LOCK_EX):
        _write(file, None)  # if this process dies while it writes, nobody takes the folder for whole
        _write(file, Contents(wanted, fill()))
    # Another process may come in while the kernel turns one kind of lock into the other.
    if not _locked(file, fcntl.LOCK_SH):
        return None
    contents = _read(file)
    if contents is not None and contents.wanted == wanted:
        return contents
    fcntl.flock(file, fcntl.LOCK_UN)
    return None


def _locked(file: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(file: IO[str], contents: Contents | None) -> None:
    file.truncate(0)
    if contents is not None:
        file.write(json.dumps(dataclasses.asdict(contents)))
    file.flush()


def _read(file: IO[str]) -> Contents | None:
    file.seek(0)
    text = file.read()
    if not text:
        return None
    found = json.loads(text)
    return Contents(found["wanted"], {int(number): why for number, why in found["refused"].items()})
