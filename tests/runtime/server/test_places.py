"""Where the device server listens, and the folder that it makes."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from echo_npu.server.places import make_folder, socket_path


def test_the_socket_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ECHO_NPU_SOCKET", str(tmp_path / "own.sock"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert socket_path() == tmp_path / "own.sock"


def test_the_socket_of_a_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ECHO_NPU_SOCKET", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert socket_path() == tmp_path / "echo-npu" / "server.sock"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert socket_path() == Path(f"/tmp/echo-npu-{os.getuid()}/server.sock")


def test_a_new_folder_is_of_this_user_alone(tmp_path: Path) -> None:
    make_folder(tmp_path / "new" / "server.sock")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("owner", "mode", "wrong"),
    [
        ("self", 0o755, ""),
        ("self", 0o1777, ""),
        ("self", 0o775, "may be written by other users"),
        ("self", 0o757, "may be written by other users"),
        ("root", 0o1777, ""),
        ("root", 0o755, "belongs to another user"),
        ("other", 0o700, "belongs to another user"),
        ("other", 0o1777, "belongs to another user"),  # its owner may replace every file in it
    ],
)
def test_whose_folder_is_used(
    owner: str, mode: int, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = 1000
    facts = SimpleNamespace(st_uid={"self": own, "root": 0, "other": 1001}[owner], st_mode=0o040000 | mode)
    monkeypatch.setattr(os, "getuid", lambda: own)
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: None)
    monkeypatch.setattr(Path, "stat", lambda *_, **__: facts)
    if not wrong:
        make_folder(tmp_path / "server.sock")
        return
    with pytest.raises(PermissionError, match=wrong):
        make_folder(tmp_path / "server.sock")
