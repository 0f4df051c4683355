"""The table of a run: a line for each operation, or for each operation of all layers."""

from dataclasses import replace

from rich.console import Console

from echo_npu import Device
from echo_npu.models import ModelRun, report, run_model, tiny_stack


def _shown(run: ModelRun) -> list[str]:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(report.render(run))
    return capture.get().splitlines()


def test_a_long_run_has_a_line_for_all_layers(device: Device, twin: Device) -> None:
    run = run_model(tiny_stack(4), device, twin)
    lines = [line for line in _shown(run) if "[NPU]" in line]
    assert len(lines) == 1 + 18 + 3
    assert any("k projection, 4 times" in line for line in lines)
    assert any("final norm " in line for line in lines)


def test_a_short_run_has_a_line_for_each_operation(device: Device, twin: Device) -> None:
    run = run_model(tiny_stack(1), device, twin)
    assert sum("[NPU]" in line for line in _shown(run)) == len(run.records)


def test_the_worst_of_merged_operations_is_shown(device: Device, twin: Device) -> None:
    run = run_model(tiny_stack(4), device, twin)
    records = [
        replace(record, cycles=100, bus=0.5, utilisation=0.25 if record.macs else None)
        for record in run.records
    ]
    wrong = next(i for i, record in enumerate(records) if record.name == "layer 2: up projection")
    records[wrong] = replace(records[wrong], cycles=300, utilisation=0.75, bus=1.0, error=0.125, exact=False)
    run = replace(run, records=tuple(records))
    (line,) = [line for line in _shown(run) if "up projection, 4 times" in line]
    for cell in ("600", "50.0 %", "75.0 %", "NO", "1.2e-01"):
        assert f" {cell} " in line
    assert any("FAILED layer 2: up projection" in line for line in _shown(run))
