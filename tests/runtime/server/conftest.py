"""A device server on the functional model, in a thread."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import echo_npu
from echo_npu.server.server import DeviceServer
from tests.runtime.server.server_client import ServerClient


@pytest.fixture
def server_path(tmp_path: Path) -> Iterator[Path]:
    """The socket of a server with two devices; nothing of it is left afterwards."""
    path = tmp_path / "server.sock"
    server = DeviceServer(path, [partial(echo_npu.open, "cmodel")] * 2)
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield path
    server.stop()
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as waker:
        waker.connect(str(path))  # a server that waits for a client looks whether to stop only now and then
    thread.join(60)
    assert not thread.is_alive()
    assert not path.exists()


@pytest.fixture
def client(server_path: Path) -> Iterator[ServerClient]:
    """A client that has the first device."""
    with ServerClient(server_path) as made:
        yield made.open()
