"""Measure PyTorch on the device: `make bench-torch`.

PyTorch's own operator database on the functional model, each sample beside the CPU: results must be equal
within a tolerance, and counted is how many samples run without an operator on the CPU. Then the host's time
of a launch, commands and doorbells of training steps, and on the RTL the cycles of a training step and of a
compiled layer.

Exit status: 0 measured; 1 a result is wrong, or the device failed.
"""

import argparse
import os
from typing import Final

import torch
from rich.console import Console

import echo_npu
import echo_npu.torch
from benchmarks import torch_database, torch_launch, torch_rtl, torch_steps
from echo_npu.models.report import ProgressBar
from spec.marked_page import replace_part
from tb.committed_cycles import UPDATE_VARIABLE
from tb.repository import ROOT

PAGE: Final = ROOT / "docs" / "pytorch.md"
COMMAND: Final = "make bench-torch UPDATE=1"
QUICK: Final = 3
"""Samples of an operator in a short run."""


def database(
    dtypes: tuple[str, ...], most: int | None, only: str | None
) -> dict[str, torch_database.DatabaseFigures]:
    """Return what `torch_database.measure` finds in each type, with a progress bar."""
    found = {}
    for name in dtypes:
        dtype = getattr(torch, name)
        count = sum(1 for _ in torch_database.operators(dtype, only))
        with ProgressBar(f"operators in {name}", count) as bar:
            found[name] = torch_database.measure(dtype, most, only, bar.advance)
    return found


def main() -> int:
    """Command line entry point; returns the process's exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} samples of each operator")
    parser.add_argument("--dtype", choices=torch_database.DTYPES, help="only the database, in this type")
    parser.add_argument("--operator", help="only the database, of this operator")
    chosen = parser.parse_args()
    part = chosen.dtype is not None or chosen.operator is not None
    updating = bool(os.environ.get(UPDATE_VARIABLE))
    if updating and (chosen.quick or part):
        parser.error("a part measures too little to commit")
    torch.set_num_threads(1)
    echo_npu.torch.configure(backend="cmodel")
    try:
        lines = [] if part else [*torch_launch.table(), "", *torch_rtl.table(), "", *torch_steps.table(), ""]
        dtypes = torch_database.DTYPES if chosen.dtype is None else (chosen.dtype,)
        found = database(dtypes, QUICK if chosen.quick else None, chosen.operator)
    except echo_npu.NpuError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {error}", soft_wrap=True)
        return 1
    lines += torch_database.table(found)
    print("\n".join(lines))
    if not any(each.samples for each in found.values()):
        parser.error("no operator of the database has that name and type")
    wrong = [f"{op} in {name}" for name, each in found.items() for op in each.wrong]
    if wrong:
        Console(stderr=True).print(f"[bold red]wrong results:[/] {', '.join(wrong)}", soft_wrap=True)
        return 1
    if updating:
        replace_part(PAGE, COMMAND, lines)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
