"""`echo-npu asm` and `echo-npu disasm`."""

import json
from pathlib import Path

import pytest

from echo_npu.vector.assembler import assemble
from tests.runtime.test_cli import call

TEXT = """.name axpy
    loop0: chunks
        fma o, s0, p0, s1
    next loop0, s0, s1
    end
"""


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_there_and_back(tmp_path: Path, flags: list[str]) -> None:
    source, words = tmp_path / "source.s", tmp_path / "axpy"
    source.write_text(TEXT)
    status, out, _ = call("asm", str(source), *flags)
    assert status == 0
    words.write_text(out)
    assert call("disasm", str(words)) == (0, TEXT, "")


def test_json(tmp_path: Path) -> None:
    source = tmp_path / "source.s"
    source.write_text(TEXT)
    _, out, _ = call("asm", str(source), "--json")
    report = json.loads(out)
    assert report["name"] == "axpy"
    assert report["passes"] == [1, 1, 1, 1]
    assert [int(word, 16) for word in report["words"]] == assemble(TEXT).words.tolist()


def test_errors_name_file_and_line(tmp_path: Path) -> None:
    source = tmp_path / "source.s"
    source.write_text("frob v0\n")
    status, _, error = call("asm", str(source))
    assert (status, error.strip()) == (2, f"error: {source}:1: there is no instruction 'frob'")
    source.write_text("0x44\n0x7f\n")
    status, _, error = call("disasm", str(source))
    assert status == 2
    assert "word 1, '0x7f': there is no opcode 0x7f" in error


@pytest.mark.parametrize(
    "text",
    ["1_0\n", "-5\n", "+5\n", "0x\n", "0x_44\n", "0x44 0x44\n", f"0x1{0:016x}\n", "٤٤\n", '{"words": []}',
     '{"name": "p", "words": []}', "", "; a comment\n", '{"name": "p", "words": 5}',
     '{"name": 1, "words": ["0x44"]}', '{"name": "p", "words": [44]}', "{"],
)  # fmt: skip
def test_what_is_no_program_is_refused(text: str, tmp_path: Path) -> None:
    source = tmp_path / "words"
    source.write_text(text, encoding="utf-8")
    status, out, error = call("disasm", str(source))
    assert (status, out) == (2, "")
    assert error.startswith(f"error: {source}: ")


@pytest.mark.parametrize("command", ["asm", "disasm"])
def test_a_file_that_cannot_be_read_is_named(command: str, tmp_path: Path) -> None:
    missing, binary = tmp_path / "none", tmp_path / "binary"
    binary.write_bytes(b"end\xff")
    refusals = {
        missing: f"{missing}: No such file or directory",
        tmp_path: f"{tmp_path}: Is a directory",
        binary: f"{binary} is no UTF-8 text: byte 3 begins no character",
    }
    for file, sentence in refusals.items():
        assert call(command, str(file)) == (2, "", f"error: {sentence}\n")
