"""The C library, built once, and loaded as a client of a server with two devices."""

import ctypes
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.plugins.c_library import FLAGS, SOURCES, loaded
from tests.runtime.server.conftest import server_path

__all__ = ["server_path"]


@pytest.fixture(scope="session")
def library_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("library") / "libecho_npu.so"
    subprocess.run(["cc", *FLAGS, "-shared", "-fPIC", *SOURCES, "-pthread", "-o", str(made)], check=True)
    return made


@pytest.fixture
def in_place_of_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return what makes a program of the shell the one that the library starts, where no server runs."""

    def make(script: str) -> Path:
        command = tmp_path / "serve"
        command.write_text(f"#!/bin/sh\n{script}\n")
        command.chmod(0o700)
        monkeypatch.setenv("ECHO_NPU_SOCKET", str(tmp_path / "none.sock"))
        monkeypatch.setenv("ECHO_NPU_COMMAND", str(command))
        return command

    return make


@pytest.fixture
def library(library_file: Path, server_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ctypes.CDLL]:
    monkeypatch.setenv("ECHO_NPU_SOCKET", str(server_path))
    made = loaded(library_file)
    yield made
    for device in range(2):
        made.echoNpuSetDevice(device)
        made.echoNpuReset()
    made.echoNpuSetDevice(0)
