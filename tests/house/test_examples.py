"""The examples run."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("config", ["default", "small"])
def test_a_custom_operation(config: str) -> None:
    program = [sys.executable, str(EXAMPLES / "custom_op.py"), "--backend", "cmodel", "--config", config]
    result = subprocess.run(program, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "1001 elements" in result.stdout
    assert "equal" in result.stdout


def test_a_recorded_layer() -> None:
    program = [sys.executable, str(EXAMPLES / "record.py"), "--backend", "cmodel"]
    result = subprocess.run(program, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "18 commands in 41 packets" in result.stdout
    assert "bits of the direct calls: equal" in result.stdout


def test_a_layer_on_several_devices() -> None:
    program = [sys.executable, str(EXAMPLES / "sharding.py"), "--backend", "cmodel"]
    result = subprocess.run(program, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "3 devices: cycles 0, 0, 0; 15,360 bytes between them" in result.stdout
    assert "bits of one device: equal" in result.stdout


@pytest.mark.parametrize("example", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.stem)
def test_a_configuration_that_does_not_exist_is_refused(example: Path) -> None:
    program = [sys.executable, str(example), "--config", "nope"]
    result = subprocess.run(program, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "error: argument --config: no configuration 'nope'; those that exist: default, " in result.stderr
    assert "Traceback" not in result.stderr
