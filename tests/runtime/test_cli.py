"""The command line, on the functional model."""

import importlib.metadata
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import rich.markup
import typer
from typer.testing import CliRunner

import echo_npu
from echo_npu.backends.cmodel import CmodelBackend
from echo_npu.benchmark import measure
from echo_npu.cli import app
from echo_npu.device import Device
from echo_sim import cache

KEYS = {
    "m", "k", "n", "dtype", "cycles", "macs", "utilisation", "roofline", "bit_exact", "max_rel_error",
    "wall_s", "cycles_per_s",
}  # fmt: skip


def call(*words: str) -> tuple[int, str, str]:
    """Run `echo-npu`; return exit status, standard output, standard error."""
    result = CliRunner().invoke(app, list(words), env={"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_version() -> None:
    status, out, _ = call("--version")
    assert status == 0
    assert out.split() == ["echo-npu", importlib.metadata.version("echo-npu")]
    assert out.split()[1] == echo_npu.__version__


def test_output_that_goes_nowhere_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from echo_npu.cli.app import main; main()", "cache", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "error: standard output: No space left on device\n"


@pytest.mark.parametrize("descriptor", ["2>/dev/full", "2>&-"])
@pytest.mark.parametrize("words", ["matmul 0 4 4 --backend cmodel", "matmul x 4 4", "asm /none", "sing"])
def test_a_refusal_keeps_its_status_when_it_cannot_be_printed(words: str, descriptor: str) -> None:
    main = "from echo_npu.cli.app import main; main()"
    command = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(main)} {words} {descriptor}"
    assert subprocess.run(["sh", "-c", command], check=False).returncode == 2


def test_closed_output_is_one_line() -> None:
    main = "from echo_npu.cli.app import main; main()"
    command = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(main)} --version >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: standard output is closed\n")


def test_matmul_json() -> None:
    status, out, _ = call("matmul", "5", "6", "7", "--backend", "cmodel", "--json")
    assert status == 0
    report = json.loads(out)
    assert set(report) == KEYS
    assert (report["m"], report["k"], report["n"], report["dtype"], report["macs"]) == (5, 6, 7, "fp32", 210)
    assert report["bit_exact"] is True
    assert 0 <= report["max_rel_error"] < 1e-6
    for key in ("cycles", "utilisation", "roofline", "cycles_per_s"):  # the functional model has no cycles
        assert report[key] is None


@pytest.mark.parametrize("flags", [["--trans-a"], ["--trans-b"], ["--trans-a", "--trans-b"], ["--seed", "9"]])
def test_matmul_flags(flags: list[str]) -> None:
    words = ("matmul", "5", "6", "7", "--backend", "cmodel", "--config", "small", "--json")
    status, out, _ = call(*words, *flags)
    assert status == 0
    assert json.loads(out)["bit_exact"] is True


@pytest.mark.parametrize(
    ("dtype", "out_dtype"),
    [
        ("bf16", "fp32"),
        ("bf16", "bf16"),
        ("fp16", "fp32"),
        ("fp16", "fp16"),
        ("int8", "fp32"),
        ("int8", "int8"),
        ("int8", "int32"),
    ],
)
def test_matmul_of_every_type(dtype: str, out_dtype: str) -> None:
    words = ["matmul", "9", "300", "20", "--trans-b", "--backend", "cmodel", "--json"]
    status, out, _ = call(*words, "--dtype", dtype, "--out-dtype", out_dtype)
    assert status == 0
    report = json.loads(out)
    assert set(report) == KEYS
    assert (report["dtype"], report["macs"], report["bit_exact"]) == (dtype, 9 * 300 * 20, True)
    unit = {"bf16": 2.0**-8, "fp16": 2.0**-11, "int8": 2.0**-6, "int32": 0, "fp32": 2.0**-16}[out_dtype]
    assert report["max_rel_error"] <= unit


def test_matmul_table() -> None:
    status, out, _ = call("matmul", "5", "6", "7", "--backend", "cmodel")
    assert status == 0
    assert "utilisation" in out
    assert "yes" in out


@pytest.mark.parametrize(
    "types", [[], ["--dtype", "bf16", "--out-dtype", "bf16"], ["--dtype", "int8", "--out-dtype", "int32"]]
)
def test_a_result_that_differs_in_one_bit_is_an_error(
    monkeypatch: pytest.MonkeyPatch, types: list[str]
) -> None:
    matmul = Device.matmul

    def wrong(self: Device, *args: object, **kwargs: object) -> object:
        result = matmul(self, *args, **kwargs)  # type: ignore[arg-type]
        raw = bytearray(4)
        self.memcpy(raw, result.ptr, 4)
        self.memcpy(result.ptr, bytes([raw[0] ^ 1, *raw[1:]]), 4)
        return result

    monkeypatch.setattr(Device, "matmul", wrong)
    status, out, _ = call("matmul", "5", "6", "7", "--backend", "cmodel", "--json", *types)
    assert status == 1
    assert json.loads(out)["bit_exact"] is False


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["matmul", "0", "6", "7"], 2, "m is 0"),
        (["matmul", "1", "6", "99999999"], 2, "n is 99999999"),
        (["matmul", "1", "-6", "7"], 2, "k is -6"),
        (["matmul", "1", "x", "7"], 2, "'x': it must be a whole number"),
        (["matmul", "1", "2"], 2, "Missing argument"),
        (["matmul", "1", "2", "3", "--foo"], 2, "--foo"),
        (
            ["matmul", "1", "2", "3", "--dtype", "fp64"],
            2,
            "dtype is 'fp64'; the device has fp32, bf16, fp16, int8",
        ),
        (
            ["matmul", "1", "2", "3", "--dtype", "bf16", "--out-dtype", "int32"],
            2,
            "out_dtype is 'int32'; of bf16 operands it can be fp32, bf16",
        ),
        (["matmul", "1", "2", "3", "--config", "giant"], 2, "default, large, small"),
        (["matmul", "1", "2", "3", "--latency", "9"], 2, "no option 'latency'"),
        (["matmul", "1", "2", "3", "--waves"], 2, "no option 'waves'"),
        (["matmul", "9000", "9000", "1"], 1, "out of memory in the activation region"),
        (["matmul", "100000", "100000", "100000"], 1, "out of memory in the activation region: asked for"),
        (["matmul", "1", "100000", "100000"], 1, "out of memory in the weight region: asked for 40000000000"),
        (["matmul", "100000", "1", "100000", "--dtype", "int8"], 1, "out of memory in the activation region"),
        (["info", "--config", "giant"], 2, "default, large, small"),
        (["sing"], 2, "sing"),
    ],
)
def test_wrong_arguments_are_explained(words: list[str], status: int, message: str) -> None:
    backend = ["--backend", "cmodel"] if words[0] in ("matmul", "info") else []
    got, out, err = call(*words, *backend)
    assert got == status
    assert message in err
    assert "Traceback" not in out + err


def test_an_unknown_backend_is_named() -> None:
    for command in (["info"], ["matmul", "1", "2", "3"], ["bench", "gemm"]):
        status, _, err = call(*command, "--backend", "gpu")
        assert status == 2
        assert "the backends are asic, cmodel, fpga, rtlfarm, rtlmodel" in err


def test_info() -> None:
    status, out, _ = call("info", "--backend", "cmodel", "--config", "small")
    assert status == 0
    assert "array rows" in out
    status, out, _ = call("info", "--backend", "cmodel", "--config", "small", "--json")
    facts = json.loads(out)
    assert facts["backends"] == ["asic", "cmodel", "fpga", "rtlfarm", "rtlmodel"]
    assert facts["capabilities"]["array_rows"] == 4


def test_info_shows_the_card_and_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    more = {
        "card": {"transport": "uio", "device": "/dev/uio0", "memory_physical_address": 0x7000_0000},
        "simulator": {"pid": 4321, "log": "sim_build/[bold]/run.log", "waves": None},
    }
    monkeypatch.setattr(CmodelBackend, "info", lambda self: more)
    status, out, _ = call("info", "--backend", "cmodel", "--config", "small")
    assert status == 0
    rows = {tuple(re.split(r" {2,}", line.strip())) for line in out.splitlines()}
    assert rows >= {
        ("card: transport", "uio"),
        ("card: device", "/dev/uio0"),
        ("card: memory physical address", "0x70000000"),
        ("simulator: pid", "4321"),
        ("simulator: log", "sim_build/[bold]/run.log"),
    }
    assert "None" not in out


def _helps(command: Any, name: str) -> Iterator[tuple[str, str]]:
    """Return the help texts of a command, its parameters and the commands below it, with their places."""
    yield name, command.help or ""
    for each in command.params:
        yield f"{name} {each.name}", getattr(each, "help", None) or ""
    for below, inner in getattr(command, "commands", {}).items():
        yield from _helps(inner, f"{name} {below}")


def test_help_is_shown_as_it_is_written() -> None:
    texts = dict(_helps(typer.main.get_command(app), "echo-npu"))
    assert len(texts) > 100
    for place, text in texts.items():
        assert rich.markup.render(text).plain == text, place


def test_help_defines_the_figures() -> None:
    status, out, _ = call("matmul", "--help")
    text = " ".join(out.split())
    assert status == 0
    assert "macs / (cycles * peak), with peak = array rows * array columns, four times that for int8" in text
    assert "bound / cycles" in text
    assert {"info", "matmul", "bench", "layer"} <= set(call("--help")[1].split())


def test_relative_error_is_relative_to_the_terms() -> None:
    a, b = np.array([[1.0, -1.0]], np.float32), np.array([[1.0], [1.0]], np.float32)
    assert measure.relative_error(np.array([[0.5]], np.float32), a, b) == 0.25
    assert measure.relative_error(np.zeros((1, 1), np.float32), 0 * a, b) == 0


def test_a_cache_that_cannot_be_cleared_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(cache, "clear", refused)
    status, out, error = call("cache", "--clear")
    assert (status, out) == (1, "")
    assert "the host refused access to the builds in" in error
