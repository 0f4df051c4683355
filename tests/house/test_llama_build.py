"""An archive that is no source distribution of llama-cpp-python is refused in words."""

import tarfile
from pathlib import Path

import pytest

from scripts import llama_build


@pytest.mark.parametrize("content", [None, b"", b"no archive", "another folder", "cut"])
def test_what_is_no_source_distribution_is_refused(
    content: bytes | str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "given.tar.gz"
    if isinstance(content, bytes):
        archive.write_bytes(content)
    elif content is not None:
        (tmp_path / "file").write_bytes(bytes(1 << 20))
        with tarfile.open(archive, "w:gz") as made:
            made.add(tmp_path / "file", "other/file")
        if content == "cut":
            archive.write_bytes(archive.read_bytes()[:500])
    monkeypatch.setattr(llama_build, "PLACE", tmp_path / "llama")
    monkeypatch.setenv("LLAMA_SDIST", str(archive))
    with pytest.raises(llama_build.LlamaError, match=r"given\.tar\.gz is no source distribution llama_cpp"):
        llama_build.sources()
    assert not list((tmp_path / "llama").glob("*/llama_cpp_python-*"))
