"""The process group "echo_npu": its collectives, and training in two processes."""

import json
import os
import runpy
import subprocess
import sys
import threading
import types
import warnings
from pathlib import Path

import pytest
import torch

from echo_npu.torch.distributed import _process_group_class
from tb.repository import ROOT

EXAMPLE = ROOT / "examples" / "torch" / "lora_parallel.py"


def two_processes(program: Path, *words: str) -> str:
    """Run a program under torchrun, and return its standard output.

    Its processes end with it: torchrun stops them if a signal asks for its own end, but not if it is killed.
    """
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    process = subprocess.Popen(
        [*torchrun, str(program), *words],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        output, errors = process.communicate(timeout=600)
    except BaseException:
        process.terminate()
        print(*process.communicate(timeout=60), sep="\n")
        raise
    assert process.returncode == 0, errors
    return output


def test_collectives() -> None:
    program = Path(__file__).with_name("collectives.py")
    assert "every collective is right" in two_processes(program)


class SlowHost:
    """A group of the host whose thread uses the tensors of a collective for a while after its end."""

    def __init__(self) -> None:
        self.held: list[torch.Tensor] = []

    def allreduce(self, tensors: list[torch.Tensor], options: object) -> "SlowHost":
        factor = torch.ones(len(tensors[0]), requires_grad=True)
        self.held.append(factor * tensors[0])  # its gradient needs the tensor
        return self

    def wait(self) -> None:
        threading.Timer(0.2, self.held.clear).start()


def test_nobody_else_uses_the_tensors_of_a_collective_that_is_over() -> None:
    """Else a thread of gloo would wait for Python's lock when it drops them, and the end of the group for
    it."""
    host = SlowHost()
    tensor = torch.ones(3, device="echo_npu")
    _process_group_class().allreduce(types.SimpleNamespace(_host=host), [tensor], None)
    assert not host.held


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
