"""The backend of ggml: it is found, passes cases of test-backend-ops, computes a tiny llama, and fails aloud.

ggml is built from the source distribution of llama-cpp-python, which pip downloads once.
"""

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import echo_npu
from echo_npu.device import Device
from echo_npu.server.graphs import GraphRunner
from echo_npu.server.server import DeviceServer
from scripts import llama_build
from scripts.llama import sample, try_operations, try_sample
from scripts.llama_build import PLUGIN, LlamaError, build_ggml, build_plugin, link_with_ggml, sources
from tb.repository import ROOT
from tests.runtime.server.server_client import ServerClient

MAKE: dict[str, Callable[[], Device]] = {
    "cmodel": partial(echo_npu.open, "cmodel"),
    "rtlmodel": partial(echo_npu.open, "rtlmodel", config="default"),
}


@pytest.fixture(scope="module")
def ggml() -> Path:
    """The folder of ggml; the backend is built too."""
    source = sources()
    build_plugin(source)
    return build_ggml(source, 2)


@pytest.fixture(scope="module")
def decode(ggml: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program decode.cpp."""
    program = tmp_path_factory.mktemp("decode") / "decode"
    link_with_ggml(ggml, [str(ROOT / "tests" / "plugins" / "decode.cpp")], program)
    return program


@pytest.fixture(scope="module")
def graphs(ggml: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program graphs.cpp."""
    program = tmp_path_factory.mktemp("graphs") / "graphs"
    link_with_ggml(ggml, [str(ROOT / "tests" / "plugins" / "graphs.cpp")], program)
    return program


@pytest.fixture(scope="module")
def devices(ggml: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program devices.cpp."""
    program = tmp_path_factory.mktemp("devices") / "devices"
    link_with_ggml(ggml, [str(ROOT / "tests" / "plugins" / "devices.cpp")], program)
    return program


@contextmanager
def served(folder: Path, backend: str, devices: int = 1) -> Iterator[dict[str, str]]:
    """Serve devices in a thread; yield the environment of a program that uses them."""
    path = folder / "server.sock"
    server = DeviceServer(path, [MAKE[backend]] * devices)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield {**os.environ, "ECHO_NPU_SOCKET": str(path), "GGML_BACKEND_PATH": str(PLUGIN)}
    finally:
        server.stop()
        thread.join(60)


def run(program: Path, environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(program), str(PLUGIN), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def test_hundred_cases_pass_on_the_functional_model(ggml: Path, tmp_path: Path) -> None:
    cases = sample()[::3]
    assert len(cases) >= 100
    with served(tmp_path, "cmodel") as environment:
        assert not try_sample(ggml / "test-backend-ops", environment, cases)


def test_a_case_that_does_not_exist_is_not_passed(ggml: Path, tmp_path: Path) -> None:
    case = sample()[0]
    with served(tmp_path, "cmodel") as environment:
        wrong = try_sample(ggml / "test-backend-ops", environment, [case, "ADD(type=f99)"])
    assert wrong == ["ADD(type=f99): does not exist"]


@pytest.mark.parametrize("backend", ["cmodel", "rtlmodel"])
def test_two_tokens_of_a_tiny_llama_are_those_of_the_processor(
    decode: Path, tmp_path: Path, backend: str
) -> None:
    with served(tmp_path, backend) as environment:
        ran = run(decode, environment, "2")
    title, *tokens = ran.stdout.splitlines()
    assert ran.returncode == 0, ran.stderr
    assert title.startswith("NPU0: ECHO NPU, ")
    assert len(tokens) == 2
    for line in tokens:
        made, of_the_processor = line.split()[1].rstrip(","), line.split()[4].rstrip(",")
        assert made == of_the_processor
        assert line.endswith("splits 2, error small")


def test_a_nan_fails_the_graph_with_a_line_about_it(decode: Path, tmp_path: Path) -> None:
    with served(tmp_path, "cmodel") as environment:
        ran = run(decode, environment, "1", "nan")
    assert ran.returncode == 0, ran.stdout
    assert "NPU0: a graph failed: MUL_MAT made a NaN" in ran.stderr


def test_a_graph_is_replayed_only_if_nothing_has_changed(
    graphs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    for name in ("run", "run_new"):
        function = getattr(GraphRunner, name)

        def counted(runner: GraphRunner, *words: Any, name: str = name, function: Any = function) -> Any:
            calls.append(name)
            return function(runner, *words)

        monkeypatch.setattr(GraphRunner, name, counted)
    with served(tmp_path, "cmodel") as environment:
        ran = run(graphs, environment, "replay")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    # As it is, again, another input; another parameter, another address, another step, again.
    assert calls == ["run_new", "run", "run", "run_new", "run_new", "run_new", "run"]


@pytest.mark.parametrize("which", ["views", "select", "outputs"])
def test_what_others_read_is_written_and_what_is_not_chosen_is_not_computed(
    graphs: Path, tmp_path: Path, which: str
) -> None:
    with served(tmp_path, "cmodel") as environment:
        ran = run(graphs, environment, which)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("which", ["parts", "large"])
def test_weights_are_written_and_read_in_parts(graphs: Path, tmp_path: Path, which: str) -> None:
    with served(tmp_path, "cmodel") as environment:
        ran = run(graphs, environment, which)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_two_devices_have_memory_and_graphs_of_their_own(devices: Path, tmp_path: Path) -> None:
    with served(tmp_path, "cmodel", devices=2) as environment:
        ran = run(devices, environment, "two")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_plugin_that_is_preloaded_is_there(devices: Path, tmp_path: Path) -> None:
    with served(tmp_path, "cmodel") as environment:
        del environment["GGML_BACKEND_PATH"]
        assert run(devices, environment, "preloaded").returncode == 1
        ran = run(devices, environment | {"LD_PRELOAD": str(PLUGIN)}, "preloaded")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_device_in_use_is_not_there(devices: Path, tmp_path: Path) -> None:
    with served(tmp_path, "cmodel") as environment, ServerClient(tmp_path / "server.sock") as other:
        other.hello()
        other.open(0)
        ran = run(devices, environment, "busy")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_case_that_fails_is_counted_as_such(tmp_path: Path) -> None:
    program = tmp_path / "test-backend-ops"
    lines = (
        "  ADD(type=f32): \x1b[1;32mOK\x1b[0m",
        "[MUL] ERR = 1.5 > 0.0005   MUL(type=f32,k=(1,2)): \x1b[1;31mFAIL\x1b[0m",
        "  SUB(type=bf16): not supported [NPU0]",
    )
    program.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + "\nEND\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    counts, wrong = try_operations(program, {}, [""])
    assert counts == {"ADD": [1, 1, 1], "MUL": [1, 1, 0], "SUB": [1, 0, 0]}
    assert wrong == ["MUL(type=f32,k=(1,2))"]
    program.write_text(
        program.read_text(encoding="utf-8").replace("exit 1", "kill -ABRT $$"), encoding="utf-8"
    )
    with pytest.raises(LlamaError, match=r"exit status -6\n(.*\n)*\[MUL\] ERR"):
        try_operations(program, {}, [""])


def test_a_source_distribution_that_cannot_be_fetched_is_an_error_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_build, "PLACE", tmp_path)
    monkeypatch.delenv("LLAMA_SDIST", raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(llama_build.LlamaError, match="cannot be downloaded; LLAMA_SDIST=file"):
        sources()
