"""Errors of the system, as sentences."""

from pathlib import Path

import pytest

from echo_sim.messages import sentence


def test_a_file_is_named_first(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    with pytest.raises(FileNotFoundError) as caught:
        missing.read_bytes()
    assert sentence(caught.value) == f"{missing}: No such file or directory"


@pytest.mark.parametrize(
    "error", [ValueError("wrong"), OSError(28, "No space left on device"), OSError("odd")]
)
def test_others_keep_their_text(error: Exception) -> None:
    assert sentence(error) == str(error)
