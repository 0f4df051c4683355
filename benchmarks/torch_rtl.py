"""Measure a training step and a compiled layer of PyTorch on the RTL.

python -m benchmarks.torch_rtl: steps of the LeNet of examples/torch/lenet.py, as JSON. A program of its own,
because a process chooses the devices of PyTorch once.
"""

import importlib.util
import json
import statistics
import subprocess
import sys
import time
from types import ModuleType
from typing import Any, Final

import torch
from torch.nn import functional

import echo_npu.torch
from echo_npu.errors import BackendError
from tb.repository import ROOT

EXAMPLES: Final = ROOT / "examples" / "torch"
WARM: Final = 3
"""Steps that make launch plans and load programs, before what is measured."""

STEPS: Final = 5


def _example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lenet_steps() -> dict[str, float]:
    """Return the median `cycles` of a LeNet's AdamW step, eager, and `host`: the processor time of this
    process over the wall time of all measured steps."""
    example = _example("lenet")
    echo_npu.torch.configure(backend="rtlmodel", config="default")
    torch.manual_seed(0)
    images, labels = example.digits()
    x, y = images[: example.BATCH].to("echo_npu"), labels[: example.BATCH].to("echo_npu")
    model = example.lenet().to("echo_npu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        torch.accelerator.synchronize()

    for _ in range(WARM):
        step()
    device = echo_npu.torch.device()
    cycles = []
    wall, own = time.perf_counter(), time.process_time()
    for _ in range(STEPS):
        before = device.counters()["cycles"]
        step()
        cycles.append(device.counters()["cycles"] - before)
    wall, own = time.perf_counter() - wall, time.process_time() - own
    return {"cycles": statistics.median(cycles), "host": own / wall}


def _printed(words: list[str]) -> dict[str, Any]:
    """Run a program and return the JSON that it prints; BackendError if it fails."""
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BackendError(f"{' '.join(words)} failed: {done.stderr.strip().splitlines()[-1:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def table() -> list[str]:
    """Return the table of the page; BackendError if a program fails."""
    lenet = _printed(["-m", "benchmarks.torch_rtl"])
    layer = _printed([str(EXAMPLES / "compiled.py"), "--json"])
    fast, share = layer["cycles compiled"], layer["cycles compiled"] / layer["cycles"]
    return [
        "| on the RTL, configuration `default` | |",
        "| --- | ---: |",
        f"| LeNet, AdamW step, batch 16 | {lenet['cycles']:,.0f} cycles |",
        f"| processor time of the host in such a step, over its wall time | {lenet['host']:.1%} |",
        f"| decoder layer, 16 tokens, operator by operator | {layer['cycles']:,} cycles |",
        f"| compiled: {layer['commands compiled']} commands | {fast:,} cycles, {share:.2f} of that |",
    ]


if __name__ == "__main__":
    print(json.dumps(lenet_steps()))
