"""Files of chunks: what is broken is refused, wherever it is broken."""

import dataclasses
import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest

from echo_npu.backends.rtlfarm.chunk import _MAGIC, RunChunk, _layout
from echo_npu.errors import BackendError
from echo_npu.register_ops import WaitIrq
from tests.refusals import refuses
from tests.runtime.backends.model_simulation import ModelSimulation, opened, simulations

__all__ = ["simulations"]


@pytest.fixture
def kept(tmp_path: Path, simulations: type[ModelSimulation], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a chunk."""
    chunks: list[RunChunk] = []
    with opened(jobs=1) as device:
        submit = device.backend._submit  # type: ignore[attr-defined]
        monkeypatch.setattr(
            device.backend._recorder,  # type: ignore[attr-defined]
            "_submit",
            lambda chunk: (chunks.append(chunk), submit(chunk)),
        )
        device.add(np.arange(3000, dtype=np.float32), np.ones(3000, np.float32))
        device.wait()
    chunks[0].save(tmp_path / "x.chunk")
    return tmp_path / "x.chunk"


def test_every_broken_file_is_refused(kept: Path) -> None:
    good = kept.read_bytes()
    assert isinstance(RunChunk.load(kept), RunChunk)
    for place in range(0, len(good), max(1, len(good) // 200)):
        if 4 <= place < 10:
            continue  # the time and the system, which a gzip file may have any of
        kept.write_bytes(good[:place] + bytes([good[place] ^ 0x41]) + good[place + 1 :])
        refuses(BackendError, "is no chunk of this version", RunChunk.load, kept)
        kept.write_bytes(good[:place])
        refuses(BackendError, "is no chunk of this version", RunChunk.load, kept)


@pytest.mark.parametrize("content", ["pickle", b"", b"\x80\x05.", b"(lp0\nI1\nI2\nu."])
def test_other_pickles_are_refused(content: str | bytes, tmp_path: Path) -> None:
    pickled = pickle.dumps({"chunk": 1}) if isinstance(content, str) else content
    path = tmp_path / "x.chunk"
    path.write_bytes(gzip.compress(_MAGIC + pickled))
    refuses(BackendError, "is no chunk of this version", RunChunk.load, path)


def test_a_chunk_whose_parts_have_other_fields_is_refused(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python would give them the values by their places."""
    content = gzip.decompress(kept.read_bytes())
    assert content.startswith(_MAGIC)
    monkeypatch.setattr(WaitIrq, "_fields", ("cycles",))
    other = f"echo-npu chunk {_layout()}\n".encode()
    assert other != _MAGIC
    monkeypatch.undo()
    assert f"echo-npu chunk {_layout()}\n".encode() == _MAGIC
    kept.write_bytes(gzip.compress(other + content[len(_MAGIC) :]))
    refuses(BackendError, "is no chunk of this version", RunChunk.load, kept)


def test_a_chunk_of_another_version_is_refused(kept: Path) -> None:
    chunk = RunChunk.load(kept)
    other = object.__new__(RunChunk)
    other.__dict__.update({each.name: getattr(chunk, each.name) for each in dataclasses.fields(chunk)[1:]})
    kept.write_bytes(gzip.compress(_MAGIC + pickle.dumps(other)))
    refuses(BackendError, "is no chunk of this version", RunChunk.load, kept)
