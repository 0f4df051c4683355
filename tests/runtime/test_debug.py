"""ECHO_NPU_DEBUG_LEVEL: which lines appear at which level, and their colours."""

import re

import numpy as np
import pytest

from echo_npu import Device, debug

TAGS = ("NPU", "CPU", "COPY", "VIEW")


def work(npu: Device) -> None:
    """Something of every kind."""
    tensor = npu.tensor(np.ones((2, 2), np.float32))
    npu.matmul(tensor.T, tensor)
    npu.add(np.ones(3, np.float32), np.ones(3, np.float32))
    debug.cpu("softmax (2, 2)")


@pytest.mark.parametrize(
    ("level", "tags"),
    [
        ("", set()),
        ("0", set()),
        ("1", {"NPU", "CPU"}),
        ("2", {"NPU", "CPU", "COPY"}),
        ("3", {"NPU", "CPU", "COPY", "VIEW"}),
    ],
)
def test_levels(
    npu: Device,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    level: str,
    tags: set[str],
) -> None:
    monkeypatch.setenv("ECHO_NPU_DEBUG_LEVEL", level)
    monkeypatch.delenv("NO_COLOR", raising=False)
    work(npu)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert {tag for tag in TAGS if f"[{tag}]" in captured.err} == tags
    assert ("submit MATMUL" in captured.err) == (level == "3")
    for line in captured.err.splitlines():
        assert re.match(r"\x1b\[3\dm\[[A-Z]+\]\x1b\[0m ", line)


def test_no_color_is_respected(
    npu: Device, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ECHO_NPU_DEBUG_LEVEL", "3")
    monkeypatch.setenv("NO_COLOR", "1")
    work(npu)
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(re.match(r"\[(NPU|CPU|COPY|VIEW)\] ", line) for line in lines)


def test_the_lines_say_what_happened(
    npu: Device, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ECHO_NPU_DEBUG_LEVEL", "2")
    npu.matmul(np.ones((3, 4), np.float32), np.ones((5, 4), np.float32), trans_b=True)
    text = capsys.readouterr().err
    assert "MATMUL (3, 4) x (5, 4), trans_b=True -> (3, 5)" in text
    assert "host_to_device 48 bytes" in text
    assert "device_to_host 60 bytes" in text


def test_a_wrong_level_is_named(npu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHO_NPU_DEBUG_LEVEL", "loud")
    with pytest.raises(ValueError, match="ECHO_NPU_DEBUG_LEVEL is 'loud'"):
        npu.copy(np.ones(3))


def test_silence(npu: Device, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ECHO_NPU_DEBUG_LEVEL", "3")
    with debug.silenced():
        work(npu)
    assert capsys.readouterr().err == ""
    work(npu)
    assert capsys.readouterr().err != ""
