"""The socket of the device server: one server at a path, whoever else starts at the same moment."""

import contextlib
import fcntl
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from echo_npu.server import listener
from echo_npu.server.listener import AddressInUseError, listen

TOGETHER = 8


@pytest.fixture
def dead_socket(tmp_path: Path) -> Iterator[Path]:
    """The path of a socket whose server has died."""
    path = tmp_path / "server.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()
    yield path
    path.unlink(missing_ok=True)


def test_one_of_several_servers_gets_the_place_of_a_dead_one(
    dead_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Barrier(TOGETHER)
    bind = listener._bind

    def slowly(made: socket.socket, path: Path) -> None:
        threading.Event().wait(0.05)  # the others look at the dead socket meanwhile
        bind(made, path)
        threading.Event().wait(0.05)  # bound, but nobody can connect yet

    def one(_: int) -> socket.socket | None:
        start.wait()
        try:
            return listen(dead_socket)
        except AddressInUseError:
            return None

    monkeypatch.setattr(listener, "_bind", slowly)
    with ThreadPoolExecutor(TOGETHER) as pool:
        made = [each for each in pool.map(one, range(TOGETHER)) if each is not None]
    with contextlib.ExitStack() as sockets:
        for each in made:
            sockets.enter_context(each)
        assert len(made) == 1
        client = sockets.enter_context(socket.socket(socket.AF_UNIX))
        client.connect(str(dead_socket))
        made[0].accept()[0].close()


def test_a_folder_that_stays_locked_is_named(dead_socket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "LOCK_WAIT_S", 0.2)
    folder = os.open(dead_socket.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with pytest.raises(OSError, match=f"the folder {dead_socket.parent} is locked by another process"):
            listen(dead_socket)
    finally:
        os.close(folder)


def test_a_server_that_takes_no_connection_has_the_place(tmp_path: Path) -> None:
    """Its queue is full: to connect would wait for ever."""
    path = tmp_path / "server.sock"
    with socket.socket(socket.AF_UNIX) as stopped, socket.socket(socket.AF_UNIX) as waiting:
        stopped.bind(str(path))
        stopped.listen(0)
        waiting.connect(str(path))
        with pytest.raises(AddressInUseError):
            listen(path)


def test_a_socket_of_another_kind_is_named(tmp_path: Path) -> None:
    path = tmp_path / "server.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(path))
        with pytest.raises(OSError, match=f"no socket can be made at {path}: "):
            listen(path)
