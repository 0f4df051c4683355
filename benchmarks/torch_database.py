"""Compare PyTorch's own operator database on the device with the CPU, and count what runs without the CPU."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import torch

import echo_npu.torch

DEVICE: Final = "echo_npu"
DTYPES: Final = ("float32", "bfloat16", "int64", "bool")
TOLERANCE: Final = {torch.float32: (1e-3, 1e-4), torch.bfloat16: (3e-2, 3e-2)}
"""Relative and absolute; everything that is no floating-point number must be equal."""

OMITTED: Final = ("sparse", "to_dense", "windows")
"""Parts of the names of operators that make or take sparse tensors, and of windows, which take no tensor."""

EXPLAINED: Final = {
    "empty": "uninitialised",
    "empty_like": "uninitialised",
    "empty_permuted": "uninitialised",
    "empty_strided": "uninitialised",
    "new_empty": "uninitialised",
    "new_empty_strided": "uninitialised",
    "div.trunc_rounding": "the CPU itself rounds differently in whole vectors and in the rest",
    "native_batch_norm": "without training, mean and rate are not empty, as on other accelerators",
    "_native_batch_norm_legit": "mean and rate are float32, as on other accelerators",
    "native_layer_norm": "mean and rate are float32, as on other accelerators",
    "_unsafe_masked_index_put_accumulate": "a sum is rounded once, the CPU's at every step",
}
"""Why an operator's results differ although nothing is wrong."""


@dataclass
class DatabaseFigures:
    """Of one type.

    Attributes:
        samples: that the CPU takes.
        native: of them, those that ran without an operator on the CPU; views count as such.
        failed: the first difference or error by operator.
        on_cpu: samples by the operators that ran on the CPU.
    """

    samples: int = 0
    native: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    on_cpu: Counter[str] = field(default_factory=Counter)

    @property
    def wrong(self) -> list[str]:
        """Operators whose differences nothing explains."""
        return [name for name in self.failed if name not in EXPLAINED]


ON_CPU: Final = ("tensor_split",)
"""Operators that take their other tensors from the CPU only, whatever device their first one is on."""


def moved(value: Any, device: str) -> Any:
    """Return a sample's argument on another device, with the same strides in the same storage."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        if value.layout != torch.strided or value.is_conj() or value.is_neg():
            return value.to(device)
        every = value.untyped_storage().nbytes() // value.element_size()
        whole = torch.as_strided(value, (every,), (1,), 0).to(device)
        return torch.as_strided(whole, value.size(), value.stride(), value.storage_offset())
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


def operators(dtype: torch.dtype, only: str | None = None) -> Iterator[tuple[str, Any]]:
    """Yield those of the database that take the type, with their names; `only` is a name with or without its
    variant."""
    from torch.testing._internal.common_methods_invocations import op_db

    for each in op_db:
        name = f"{each.name}.{each.variant_test_name}".rstrip(".")
        known = dtype in each.dtypes and not any(word in each.name for word in OMITTED)
        if known and only in (None, each.name, name):
            yield name, each


def measure(
    dtype: torch.dtype, most: int | None, only: str | None, advance: Callable[[str], None]
) -> DatabaseFigures:
    """Run samples of every operator.

    Args:
        most: samples of an operator; None: all.
        only: as of `operators`.
        advance: is called with an operator's name when its samples are done.
    """
    figures = DatabaseFigures()
    for name, op in operators(dtype, only):
        for count, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
            if count == most:
                break
            _run(figures, name, op, (sample.input, sample.args, sample.kwargs), dtype)
        advance(name)
    return figures


def _run(figures: DatabaseFigures, name: str, op: Any, given: Any, dtype: torch.dtype) -> None:
    """Run one sample on the CPU and on the device, and count it."""
    torch.manual_seed(0)
    try:
        x, args, kwargs = moved(given, "cpu")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = op(x, *args, **kwargs)
    except Exception:
        return  # no sample for this build of the CPU
    figures.samples += 1
    x, args, kwargs = moved(given, DEVICE)
    if op.name in ON_CPU:
        args, kwargs = moved((args, kwargs), "cpu")
    torch.manual_seed(0)
    echo_npu.torch.reset_op_counts()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = op(x, *args, **kwargs)
        on_cpu = [key for key, each in echo_npu.torch.op_counts().items() if each["cpu"]]
        figures.native += not on_cpu
        figures.on_cpu.update(on_cpu)
        compare(found, expected, dtype)
    except Exception as error:
        figures.failed.setdefault(name, (str(error).strip() or type(error).__name__).splitlines()[0][:90])


def table(found: dict[str, DatabaseFigures]) -> list[str]:
    """Return the tables of the page: shares by type, and what differs, with its reason."""
    lines = [
        "| operator database in | samples | without an operator on the CPU | most often on the CPU |",
        "| --- | ---: | ---: | --- |",
    ]
    for name, each in found.items():
        often = ", ".join(f"`{op.removeprefix('aten::')}`" for op, _ in each.on_cpu.most_common(6))
        share = each.native / max(each.samples, 1)
        lines.append(f"| {name} | {each.samples:,} | {share:.1%} | {often} |")
    failed: dict[str, list[str]] = {}
    for name, each in found.items():
        for op, text in each.failed.items():
            failed.setdefault(op, []).append(name)
            if op not in EXPLAINED:
                failed[op].append(f"WRONG: {text}")
    lines += ["", "| operator with differences | in | reason |", "| --- | --- | --- |"]
    lines += [
        f"| `{op}` | {', '.join(where)} | {EXPLAINED.get(op, 'none')} |" for op, where in failed.items()
    ]
    return lines
