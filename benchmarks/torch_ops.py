"""PyTorch's own operator database on the functional model, the host's time of a launch, training steps.

.venv/bin/python -m benchmarks.torch_ops [--quick] [--dtype float32] [--operator NAME]

Each sample runs on the device and on the CPU. Results must be equal within a tolerance; counted is how many
samples run without an operator on the CPU. --quick takes three samples of each operator.
"""

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

import echo_npu.torch
from benchmarks import torch_steps

DEVICE = "echo_npu"
DTYPES = ("float32", "bfloat16", "int64", "bool")
TOLERANCE = {torch.float32: (1e-3, 1e-4), torch.bfloat16: (3e-2, 3e-2)}

# Why an operator's samples differ although nothing is wrong.
EXPLAINED = {
    "empty": "uninitialised",
    "empty_like": "uninitialised",
    "empty_permuted": "uninitialised",
    "empty_strided": "uninitialised",
    "new_empty": "uninitialised",
    "new_empty_strided": "uninitialised",
    "as_strided.partial_views": "reads beyond the tensor that was moved",
    "tensor_split": "its indices must be on the CPU",
    "div.trunc_rounding": "bfloat16: the CPU itself rounds differently in whole vectors and in the rest",
    "native_batch_norm": "without training, mean and rate are not empty, as on other accelerators",
    "_native_batch_norm_legit": "bfloat16: mean and rate are float32, as on other accelerators",
    "native_layer_norm": "bfloat16: mean and rate are float32, as on other accelerators",
    "_unsafe_masked_index_put_accumulate": "bfloat16: a sum is rounded once, the CPU's at every step",
}


@dataclass
class Figures:
    """Of one type: samples, those without an operator on the CPU, failures by operator, CPU operators."""

    samples: int = 0
    native: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    on_cpu: Counter[str] = field(default_factory=Counter)


def moved(value: Any, device: str) -> Any:
    """A sample's argument on another device."""
    if isinstance(value, torch.Tensor):
        return value.detach().to(device)
    if isinstance(value, (list, tuple)):
        parts = [moved(each, device) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {name: moved(each, device) for name, each in value.items()}
    if isinstance(value, torch.device) or value == "cpu":
        return torch.device(device)
    return value


def compare(found: Any, expected: Any, dtype: torch.dtype) -> None:
    """Raise AssertionError if results differ."""
    if isinstance(expected, (list, tuple)):
        for one, other in zip(found, expected, strict=True):
            compare(one, other, dtype)
    elif isinstance(expected, torch.Tensor) and expected.layout == torch.strided:
        rtol, atol = TOLERANCE.get(dtype, (0.0, 0.0) if not expected.is_floating_point() else (1e-3, 1e-4))
        torch.testing.assert_close(found.cpu(), expected, rtol=rtol, atol=atol, equal_nan=True)


def operators(dtype: torch.dtype) -> Iterator[Any]:
    """Those of the database that take the type, but for sparse ones and window functions of no tensor."""
    from torch.testing._internal.common_methods_invocations import op_db

    for each in op_db:
        if dtype in each.dtypes and not any(word in each.name for word in ("sparse", "to_dense", "windows")):
            yield each


def measure(dtype: torch.dtype, most: int, only: str | None) -> Figures:
    """Run the samples of every operator."""
    figures = Figures()
    for op in operators(dtype):
        name = f"{op.name}.{op.variant_test_name}".rstrip(".")
        if only not in (None, op.name, name):
            continue
        for sample in list(op.sample_inputs("cpu", dtype, requires_grad=False))[:most]:
            given = (sample.input, sample.args, sample.kwargs)
            torch.manual_seed(0)
            try:
                x, args, kwargs = moved(given, "cpu")
                expected = op(x, *args, **kwargs)
            except Exception:
                continue  # not a sample for this build of the CPU
            figures.samples += 1
            x, args, kwargs = moved(given, DEVICE)
            torch.manual_seed(0)
            echo_npu.torch.reset_op_counts()
            try:
                found = op(x, *args, **kwargs)
                on_cpu = [key for key, each in echo_npu.torch.op_counts().items() if each["cpu"]]
                figures.native += not on_cpu
                figures.on_cpu.update(on_cpu)
                compare(found, expected, dtype)
            except Exception as error:
                figures.failed.setdefault(name, str(error).strip().splitlines()[0][:90])
    return figures


def microseconds(function: Callable[[], object], count: int = 100, rounds: int = 20) -> float:
    """The least processor time of one call; what was launched runs between the rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(count):
            function()
        best = min(best, time.process_time() - start)
        torch.accelerator.synchronize()
    return 1e6 * best / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three samples of each operator")
    parser.add_argument("--dtype", choices=DTYPES, help="only this type")
    parser.add_argument("--operator", help="only this operator")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    echo_npu.torch.configure(backend="cmodel")
    x = torch.rand(64, 64, device=DEVICE)
    print(f"launch of add 64x64: {microseconds(lambda: x + x):.0f} us of the host's time")
    print(f"view: {microseconds(lambda: x.view(-1)):.1f} us, transpose: {microseconds(x.t):.1f} us")
    print(torch_steps.table())
    wrong = []
    for name in DTYPES if chosen.dtype is None else (chosen.dtype,):
        figures = measure(getattr(torch, name), 3 if chosen.quick else 12, chosen.operator)
        share = 100 * figures.native / max(figures.samples, 1)
        print(f"{name}: {figures.samples} samples, {share:.1f} % without an operator on the CPU")
        print("  most often on the CPU: " + ", ".join(op for op, _ in figures.on_cpu.most_common(12)))
        for op, text in figures.failed.items():
            print(f"  {op}: {EXPLAINED.get(op, 'WRONG: ' + text)}")
        wrong += [f"{op} in {name}" for op in figures.failed if op not in EXPLAINED]
    if wrong:
        raise SystemExit(f"wrong results: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
