"""The report of a divided layer, and the command that prints it."""

import contextlib
import json

import pytest
from typer.testing import CliRunner

import echo_npu
from echo_npu.backends.rtlmodel import Options
from echo_npu.cli import app
from echo_npu.commands.command import Command
from echo_npu.commands.packets import Opcode
from echo_npu.model.memory import DeviceMemory
from echo_npu.sharding import ShardReport
from echo_npu.sharding.report import TINY, report_layer, report_linear
from tests.runtime.backends.model_simulation import ModelSimulation


def report(**changes: object) -> ShardReport:
    facts = {
        "what": "a layer", "backend": "rtlmodel", "config": "small", "devices": 2, "tokens": 3,
        "one_device_cycles": 900, "cycles": (450, 500), "critical_cycles": 600, "phases": 4,
        "traffic_bytes": 1234, "speedup": 1.5, "bit_exact": True, "one_device_seconds": 1.0, "seconds": 0.5,
    }  # fmt: skip
    return ShardReport(**{**facts, **changes})  # type: ignore[arg-type]


def test_a_report_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    assert report().efficiency == 0.75
    Console(width=140).print(report().render())
    said = capsys.readouterr().out
    for word in ("450", "55.6 %", "4 exchanges", "1,234 bytes", "speed-up 1.50", "equal"):
        assert word in said
    Console(width=140).print(report(bit_exact=False, speedup=None, one_device_cycles=0).render())
    said = capsys.readouterr().out
    assert "DIFFERENT" in said
    assert "speed-up" not in said


def test_a_report_of_cycles_and_of_one_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few bits of one weight of the last device, far below any tolerance."""
    monkeypatch.setattr(ModelSimulation, "harm", None)
    with contextlib.ExitStack() as stack:
        devices = [
            stack.enter_context(echo_npu.Device(ModelSimulation("small", Options()))) for _ in range(2)
        ]
        report_linear(devices, 5, 40, 36)  # brings the programs to the devices
        good = report_linear(devices, 5, 40, 36)
        assert good.bit_exact
        assert good.phases == 1
        assert good.traffic_bytes == 5 * 36 * 4
        assert good.one_device_cycles > 0
        assert good.critical_cycles == max(good.cycles)
        assert good.speedup == good.one_device_cycles / good.critical_cycles
        assert good.efficiency == good.speedup / 2
        layer = report_layer(devices, "it", TINY, tokens=1, position=2, block_format=None)
        assert layer.bit_exact
        assert layer.phases == 4
        assert max(layer.cycles) <= layer.critical_cycles < sum(layer.cycles)
        assert layer.speedup == layer.one_device_cycles / layer.critical_cycles

        def wrong(command: Command, memory: DeviceMemory) -> None:
            if memory is devices[1].backend.memory and command.packet.opcode == Opcode.MATMUL:  # type: ignore[attr-defined]
                memory.bytes[command.packet.src2_addr] ^= 0x20

        monkeypatch.setattr(ModelSimulation, "harm", wrong)
        assert not report_linear(devices, 5, 40, 36).bit_exact


@pytest.mark.parametrize(
    "words", [["linear", "3", "8", "12"], ["layer", "tiny", "--tokens", "2", "--position", "1"]]
)
def test_the_command(words: list[str]) -> None:
    command = ["shard", *words, "--devices", "3", "--backend", "cmodel"]
    found = CliRunner().invoke(app, [*command, "--json"])
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout)
    assert (result["devices"], result["bit_exact"], result["cycles"]) == (3, True, [0, 0, 0])
    assert result["traffic_bytes"] == (
        3 * 12 * 4 * 2 if words[0] == "linear" else 2 * 4 * (96 + 192 + 192) * 2
    )
    assert result["speedup"] is None
    shown = CliRunner().invoke(app, command)
    assert "bits of one device: equal" in shown.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["linear", "3", "8", "13"], "n is 13"),
        (["layer", "huge"], "no layer 'huge'"),
        (["layer", "tiny", "--devices", "4"], "kv_heads is 3"),
        (["layer", "tiny", "--devices", "5"], "hidden is 96"),
    ],
)
def test_wrong_arguments(words: list[str], message: str) -> None:
    found = CliRunner().invoke(app, ["shard", *words])
    assert found.exit_code == 2
    assert message in found.stderr
