"""The examples of examples/torch on the functional model."""

import json
import subprocess
import sys
from typing import Any

import pytest

from echo_npu.models.extras import MissingExtraError, smollm2_file
from tb.repository import ROOT


def run(name: str, *arguments: str) -> dict[str, Any]:
    program = ROOT / "examples" / "torch" / name
    words = [sys.executable, str(program), "--backend", "cmodel", "--json", *arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.slow
def test_lenet_learns_digits() -> None:
    pytest.importorskip("sklearn")
    result = run("lenet.py")
    tenth = len(result["losses"]) // 10
    assert sum(result["losses"][-tenth:]) < sum(result["losses"][:tenth]) / 4
    assert result["right"] >= 0.95 * result["tested"]
    assert not result["operators on the CPU"]


@pytest.mark.parametrize("shape", ["tiny", "0.5b"])
def test_qwen2(shape: str) -> None:
    pytest.importorskip("transformers")
    result = run("qwen2.py", "--shape", shape)
    assert result["logits error"] < max(2 * result["logits error of the CPU"], 1e-6)
    assert not result["operators on the CPU"]
    if shape == "tiny":
        assert result["gradient error"] < 1e-5
        assert result["tokens"] == result["tokens of the CPU"]
        assert len(result["tokens"]) == 4


def test_an_adapter_is_trained() -> None:
    pytest.importorskip("peft")
    result = run("lora.py")
    assert len(result["losses"]) == 20
    assert result["losses"][-1] < result["losses"][0] - 0.3
    assert not result["operators on the CPU"]


@pytest.mark.slow
def test_an_adapter_of_smollm2_is_trained() -> None:
    pytest.importorskip("peft")
    try:
        smollm2_file()
    except MissingExtraError as error:
        pytest.skip(str(error))
    result = run("lora.py", "--model", "smollm2", "--steps", "3")
    first, second, last = result["losses"]
    assert first > second > last
    assert last < first - 0.5
    assert not result["operators on the CPU"]


def test_a_step_that_there_is_not() -> None:
    pytest.importorskip("peft")
    program = ROOT / "examples" / "torch" / "lora.py"
    words = [sys.executable, str(program), "--steps", "2", "--replay", "3"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--replay is 3; there are 2 steps" in done.stderr


def test_a_compiled_layer() -> None:
    result = run("compiled.py")
    assert 0 < result["commands compiled"] <= 24
    assert result["difference"] < 1e-5
    assert not result["fallbacks"]
