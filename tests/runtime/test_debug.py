"""ECHO_NPU_DEBUG_LEVEL: which lines appear at which level, and their colours."""

import re
from collections.abc import Callable

import numpy as np
import pytest

from echo_npu import Device, debug
from tests.refusals import refuses

Lines = Callable[..., list[str]]
TAGS = ("NPU", "CPU", "COPY", "VIEW")


def work(npu: Device) -> None:
    """Run operations of every kind."""
    tensor = npu.tensor(np.ones((2, 2), np.float32))
    npu.matmul(tensor.T, tensor)
    npu.add(np.ones(3, np.float32), np.ones(3, np.float32))
    debug.cpu("softmax (2, 2)")


@pytest.fixture
def lines(npu: Device, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Lines:
    """Return a function that runs `work` at a debug level and returns the lines of standard error."""

    def run(level: str, does: Callable[[Device], object] = work, *, color: bool = False) -> list[str]:
        monkeypatch.setenv("ECHO_NPU_DEBUG_LEVEL", level)
        monkeypatch.delenv("NO_COLOR", raising=False)
        if not color:
            monkeypatch.setenv("NO_COLOR", "1")
        does(npu)
        captured = capsys.readouterr()
        assert captured.out == ""
        return captured.err.splitlines()

    return run


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
def test_levels(lines: Lines, level: str, tags: set[str]) -> None:
    said = lines(level, color=True)
    assert {tag for tag in TAGS if f"[{tag}]" in "".join(said)} == tags
    assert any("submit MATMUL" in line for line in said) == (level == "3")
    assert all(re.match(r"\x1b\[3\dm\[[A-Z]+\]\x1b\[0m ", line) for line in said)


def test_no_color_is_respected(lines: Lines) -> None:
    said = lines("3")
    assert said
    assert all(re.match(r"\[(NPU|CPU|COPY|VIEW)\] ", line) for line in said)


def test_the_lines_say_what_happened(lines: Lines) -> None:
    a, b = np.ones((3, 4), np.float32), np.ones((5, 4), np.float32)
    text = "\n".join(lines("2", lambda npu: npu.matmul(a, b, trans_b=True)))
    assert "MATMUL (3, 4) x (5, 4), trans_b=True -> (3, 5)" in text
    for said in ("host_to_device 48 bytes", "device_to_host 60 bytes"):
        assert said in text


def test_a_wrong_level_is_named(lines: Lines) -> None:
    refuses(ValueError, "ECHO_NPU_DEBUG_LEVEL is 'loud'", lines, "loud", lambda npu: npu.copy(np.ones(3)))


def test_silence(lines: Lines) -> None:
    with debug.silenced():
        assert lines("3") == []
    assert lines("3") != []
