"""The report of a divided layer, and the command that prints it."""

import json

import pytest
from typer.testing import CliRunner

from echo_npu.cli import app
from echo_npu.sharding import ShardReport


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
