"""The process group "echo_npu": its collectives, and training in two processes."""

import json
import os
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tb.repository import ROOT

EXAMPLE = ROOT / "examples" / "torch" / "lora_parallel.py"


def two_processes(program: Path, *words: str) -> str:
    """Run a program under torchrun, and return its standard output."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*torchrun, str(program), *words],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_collectives() -> None:
    program = Path(__file__).with_name("collectives.py")
    assert "every collective is right" in two_processes(program)


def test_two_processes_train_what_one_trains_on_the_whole_batch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Losses and parameters of a LoRA agree within the rounding of float32.

    AdamW divides a gradient by its own size, so the rounding of a gradient is relative to the learning rate,
    0.02, for each step.
    """
    pytest.importorskip("peft")
    words = ["--backend", "cmodel", "--steps", "3", "--json"]
    shared = json.loads(two_processes(EXAMPLE, *words))
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *words])
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of transformers and peft
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    alone = json.loads(capsys.readouterr().out)
    assert (alone["processes"], shared["processes"]) == (1, 2)
    assert shared["losses"] == pytest.approx(alone["losses"], rel=1e-6)
    assert len(alone["parameters"]) == len(shared["parameters"]) == 12
    for expected, found in zip(alone["parameters"], shared["parameters"], strict=True):
        assert found == pytest.approx(expected, rel=1e-6, abs=3 * 0.02 * 5e-4)
        assert any(expected)
