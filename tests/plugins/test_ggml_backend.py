"""The backend of ggml: it is found, passes cases of test-backend-ops, computes a tiny llama, and fails aloud.

ggml is built from the source distribution of llama-cpp-python, which pip downloads once.
"""

import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import echo_npu
from echo_npu.device import Device
from echo_npu.server import graphs as server_graphs
from echo_npu.server import operations, protocol, session
from echo_npu.server.graphs import GraphRunner
from echo_npu.server.protocol import AnswerStatus, GraphFlag, GraphNode, RequestKind
from echo_npu.server.server import DeviceServer
from scripts import llama_build
from scripts.llama import sample, try_operations, try_sample
from scripts.llama_build import PLUGIN, LlamaError, build_ggml, build_plugin, link_with_ggml, sources
from tb.repository import ROOT
from tests.plugins.scripted_server import ScriptedAnswer, answer, hello, scripted
from tests.plugins.scripted_server import opened as opening
from tests.runtime.server.server_client import ServerClient, opened

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
def buffers(ggml: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program buffers.cpp."""
    program = tmp_path_factory.mktemp("buffers") / "buffers"
    link_with_ggml(ggml, [str(ROOT / "tests" / "plugins" / "buffers.cpp")], program)
    return program


@pytest.fixture(scope="module")
def devices(ggml: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program devices.cpp."""
    program = tmp_path_factory.mktemp("devices") / "devices"
    link_with_ggml(ggml, [str(ROOT / "tests" / "plugins" / "devices.cpp")], program)
    return program


@pytest.fixture(scope="module")
def faults(ggml: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program faults.cpp."""
    program = tmp_path_factory.mktemp("faults") / "faults"
    link_with_ggml(ggml, [str(ROOT / "tests" / "plugins" / "faults.cpp")], program)
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


def words_of(ran: subprocess.CompletedProcess[str]) -> list[str]:
    """Return what the backend has said on standard error; ggml's own lines begin with its functions."""
    return [line for line in ran.stderr.splitlines() if line.startswith(("NPU", "ECHO NPU"))]


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


BOTH = GraphFlag.REFUSE_NAN | GraphFlag.FUSE
"""The flags of every graph."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the server is told of graphs: "run", or the operations of a new one, or its wrong flags."""
    made: list[str] = []
    run_graph, run_new = GraphRunner.run, GraphRunner.run_new

    def noted_run(runner: GraphRunner, key: int) -> bool:
        made.append("run")
        return run_graph(runner, key)

    def noted_new(runner: GraphRunner, key: int, nodes: Sequence[GraphNode], flags: GraphFlag) -> None:
        made.append(" ".join(node.op for node in nodes) if flags == BOTH else repr(flags))
        run_new(runner, key, nodes, flags)

    monkeypatch.setattr(GraphRunner, "run", noted_run)
    monkeypatch.setattr(GraphRunner, "run_new", noted_new)
    return made


def test_a_graph_is_replayed_only_if_nothing_has_changed(
    graphs: Path, tmp_path: Path, calls: list[str]
) -> None:
    with served(tmp_path, "cmodel") as environment:
        ran = run(graphs, environment, "replay")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    # As it is, again, another input; another parameter, another address, another step, again.
    assert calls == ["SCALE", "run", "run", "SCALE", "SCALE", "SCALE", "run"]


def test_the_eight_graphs_that_were_run_last_are_replayed(
    graphs: Path, tmp_path: Path, calls: list[str]
) -> None:
    with served(tmp_path, "cmodel") as environment:
        ran = run(graphs, environment, "keys")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    # Of ten: the first two, the first one twice more, six others; the first and the ninth, both again; the
    # second and the tenth; the fourth.
    assert calls[:4] == ["SCALE", "SCALE", "run", "run"]
    assert calls[4:17] == [*["SCALE"] * 6, "run", "SCALE", "run", "run", "SCALE", "SCALE", "SCALE"]
    # The tenth, twice with a buffer more and twice without it: what the server forgets is not asked for.
    assert calls[17:] == ["SCALE", "run", "SCALE", "run"]


def test_a_graph_that_the_server_does_not_know_any_more_is_sent_again(
    graphs: Path, tmp_path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_graphs, "MOST_GRAPHS", 1)
    with served(tmp_path, "cmodel") as environment:
        ran = run(graphs, environment, "keys")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    # The server forgets each with the next one; the backend, once it was told, asks no more for it.
    again = ["run", "SCALE"]
    assert calls[:5] == ["SCALE", "SCALE", *again, "run"]
    assert calls[5:21] == [*["SCALE"] * 6, *again, "SCALE", *again, *again, "SCALE", "SCALE", "SCALE"]
    assert calls[21:] == ["SCALE", "run", "SCALE", "run"]


@pytest.mark.parametrize("which", ["views", "select", "outputs", "inplace"])
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


@pytest.mark.parametrize("which", ["moved", "inputs", "apart"])
def test_the_server_is_told_what_tensors_are(graphs: Path, tmp_path: Path, which: str) -> None:
    """Rows of every type are copied, also of tensors with gaps; what the graph computes is no input of it."""
    with served(tmp_path, "cmodel") as environment:
        ran = run(graphs, environment, which)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("which", ["neighbours", "parts", "sizes", "empty", "threads"])
def test_a_call_touches_what_it_names_of_a_buffer(buffers: Path, tmp_path: Path, which: str) -> None:
    with served(tmp_path, "cmodel") as environment:
        ran = run(buffers, environment, which)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert not words_of(ran)


def test_a_buffer_that_memory_does_not_hold_is_refused_in_words(buffers: Path, tmp_path: Path) -> None:
    with served(tmp_path, "cmodel") as environment:
        ran = run(buffers, environment, "large")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(words_of(ran)) == 2
    assert all(line.startswith("NPU0: a buffer cannot be allocated: ") for line in words_of(ran))


def test_a_device_says_what_it_is(devices: Path, tmp_path: Path) -> None:
    with served(tmp_path, "cmodel") as environment:
        with opened(tmp_path / "server.sock") as client:
            free, total, largest = protocol.MEMORY.unpack(client.ask(RequestKind.MEMORY))
        assert largest < free < total
        ran = run(devices, environment, "facts")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    wanted = f"{free} of {total}: ECHO NPU, cmodel, configuration default"
    assert ran.stdout.splitlines()[-1] == wanted


def test_the_server_is_asked_once_what_a_device_supports(
    devices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    check = operations.check

    def noted(device: Device, node: GraphNode) -> None:
        asked.append(node.op)
        check(device, node)

    monkeypatch.setattr(session, "check", noted)
    with served(tmp_path, "cmodel") as environment:
        ran = run(devices, environment, "supports")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert asked == ["SCALE", "SCALE", "MUL_MAT"]


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
    assert words_of(ran) == ["NPU0: cannot be opened: device 0 is in use by another client"]


def test_without_a_server_there_is_no_device(devices: Path, tmp_path: Path) -> None:
    place = {"ECHO_NPU_SOCKET": str(tmp_path / "none.sock"), "ECHO_NPU_COMMAND": str(tmp_path / "missing")}
    ran = run(devices, {**os.environ, **place}, "none")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    why = "the program in ECHO_NPU_COMMAND cannot be started: No such file or directory"
    assert words_of(ran) == [f"ECHO NPU: no device: no device server runs, and {why}"]


REFUSED = answer(b"because", AnswerStatus.BAD_ARGUMENT)
PLACE = answer(protocol.NUMBER.pack(0))
FAULTS = {
    "memory": ([answer(bytes(8))], ["does not tell its memory: an answer of 8 bytes, expected 24"]),
    "buffer": (
        [answer(protocol.NUMBER.pack(1 << 16))],
        ["the server gave memory that the device does not have"],
    ),
    "blocks": (
        [PLACE, REFUSED, answer(), REFUSED, REFUSED],
        ["a tensor cannot be read: because", "a tensor cannot be read: an answer of 0 bytes, expected 1088",
         "a tensor cannot be written: because", "a buffer cannot be freed: because"],
    ),
    "graph": (
        [PLACE, answer(b"because", AnswerStatus.NOT_SUPPORTED), ScriptedAnswer(b"", last=True)],
        ["a graph failed: because", "a graph failed: the device server has ended",
         "a graph failed: the connection to the device server has ended"],
    ),
}  # fmt: skip
"""Answers of a server when the device is open, and what the backend says of them."""


@pytest.mark.parametrize("which", FAULTS)
def test_what_a_server_does_not_do_is_an_error_in_words(faults: Path, tmp_path: Path, which: str) -> None:
    answers, words = FAULTS[which]
    path = tmp_path / "server.sock"
    with scripted(path, [hello()], [hello(), opening(), *answers]) as heard:
        ran = run(faults, {**os.environ, "ECHO_NPU_SOCKET": str(path)}, which)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert words_of(ran) == [f"NPU0: {each}" for each in words]
    assert len(heard.requests) == 3 + len(answers)


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
