"""What `chat_screen` shows on a terminal and elsewhere."""

import pytest

from echo_npu.cli.chat_screen import Screen

TEXT = "a\x1b]0;title\x07b\r\x9b2J\x7f\n\tc"


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    screen = Screen(enabled=True)
    with screen.answer("reading"):
        screen.add(TEXT)
    return capsys.readouterr().out


def test_a_terminal_is_not_commanded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    text = shown(capsys)
    assert "a\u241b]0;title\u2407b\u240d\ufffd2J\u2421" in text
    assert not set("\x07\x7f\x9b") & set(text)
    assert "\x1b]" not in text


def test_a_file_gets_the_text_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert shown(capsys) == TEXT + "\n"
