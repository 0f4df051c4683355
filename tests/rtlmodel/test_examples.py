"""The examples run on the RTL."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

pytestmark = pytest.mark.sim


def test_a_custom_operation_has_the_bits_of_the_functional_model(config: str) -> None:
    program = [sys.executable, str(EXAMPLES / "custom_op.py"), "--backend", "rtlmodel", "--config", config]
    result = subprocess.run(program, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "bits of the functional model: equal" in result.stdout
    assert " 0 cycles" not in result.stdout


def test_a_run_on_two_cores() -> None:
    program = [sys.executable, str(EXAMPLES / "farm.py"), "--config", "small", "--jobs", "2"]
    result = subprocess.run(program, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "chunks equal on the RTL" in result.stdout
    assert "RTL chunks" in result.stderr


def test_a_recorded_layer_has_the_bits_of_direct_calls(config: str, tmp_path: Path) -> None:
    trace = tmp_path / "timeline.json"
    program = [sys.executable, str(EXAMPLES / "record.py"), "--config", config, "--trace", str(trace)]
    result = subprocess.run(program, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "bits of the direct calls: equal" in result.stdout
    assert trace.stat().st_size > 0
