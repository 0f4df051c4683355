"""The same program of PyTorch leaves the same bits on cmodel and on rtlmodel."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tb.repository import ROOT

pytestmark = pytest.mark.sim


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def test_a_training_step(tmp_path: Path) -> None:
    """Gradients, parameters and optimizer state of a LeNet and of a language model's layer."""
    left = []
    for backend in ("cmodel", "rtlmodel"):
        file = tmp_path / backend
        done = subprocess.run(
            [sys.executable, "-m", "tests.rtlmodel.torch_step", backend, "small", str(file)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "runtime")])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        left.append(torch.load(file))
    assert len(left[0]) == len(left[1]) > 60
    for number, (model, rtl) in enumerate(zip(*left, strict=True)):
        assert (model.dtype, model.shape) == (rtl.dtype, rtl.shape)
        assert torch.equal(bits(model), bits(rtl)), f"tensor {number}"


def test_a_step_of_a_lora_is_repeated() -> None:
    """From the state before it, adapters and optimizer get the same bits."""
    pytest.importorskip("peft")
    program = ROOT / "examples" / "torch" / "lora.py"
    words = ["--backend", "cmodel", "--config", "small", "--steps", "2", "--replay", "2", "--json"]
    done = subprocess.run([sys.executable, str(program), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    replay = json.loads(done.stdout)["replay"]
    assert replay["equal"] == replay["tensors"] == 48
    assert replay["cycles"] > 100_000


def test_a_compiled_layer() -> None:
    """It takes fewer cycles, on `small` by a fifth or more; results differ by roundings."""
    program = ROOT / "examples" / "torch" / "compiled.py"
    words = [sys.executable, str(program), "--config", "small", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert 0 < result["cycles compiled"] <= 0.8 * result["cycles"]
    assert result["difference"] < 1e-5
