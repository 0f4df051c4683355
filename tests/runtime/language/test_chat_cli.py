"""`echo-npu chat` and `echo-npu perplexity`: what they print, how they exit, what they refuse."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import echo_npu
from echo_npu.cli import app
from echo_npu.language.generator import TextGenerator
from echo_npu.language.network import Network
from echo_npu.models.gguf_model import GgufModel
from tests.runtime.model_files import write_model


def invoke(*words: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(app, [*words, "--backend", "cmodel"], input=typed)


def chat(path: Path, *words: str, typed: str | None = None) -> Result:
    return invoke("chat", "--model", str(path), "--context", "64", *words, typed=typed)


def expected(model: GgufModel, prompt: str, count: int) -> str:
    with echo_npu.open("cmodel") as device:
        network = Network(device, model, context=64)
        ids = model.tokenizer.encode(prompt).ids
        tokens = list(TextGenerator(network).generate(ids, count, stops=(0,)))
    return str(model.tokenizer.decode(tokens, skip_special_tokens=False))


def test_an_answer(model_path: Path, model: GgufModel) -> None:
    result = chat(model_path, "--prompt", "hi", "--tokens", "4", "--check")
    assert result.exit_code == 0, result.output
    assert result.stdout == expected(model, "user: hi\nassistant: ", 4) + "\n"
    assert "tokens from position 0" in result.stderr
    assert "equal to the functional model" in result.stderr


def test_raw_continues_the_prompt(model_path: Path, model: GgufModel) -> None:
    result = chat(model_path, "--prompt", "the the", "--raw", "--tokens", "3")
    assert result.exit_code == 0, result.output
    assert result.stdout == expected(model, "the the", 3) + "\n"


def test_json(model_path: Path, model: GgufModel) -> None:
    result = chat(model_path, "--prompt", "hi", "--system", "be", "--tokens", "3", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["text"] == expected(model, "system: be\nuser: hi\nassistant: ", 3)
    assert (report["model"], report["backend"], report["prompt"]) == ("small", "cmodel", "hi")
    assert len(report["steps"]) == 3
    keys = "position count token cycles bound seconds own_seconds device_seconds checked"
    assert all(set(step) == set(keys.split()) for step in report["steps"])
    assert report["seconds"] == pytest.approx(sum(step["seconds"] for step in report["steps"]))


def test_half_rounds_the_blocks(model_path: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the theme of the other, and the one")
    words = ("perplexity", str(text), "--model", str(model_path), "--context", "16", "--json")
    blocks, half = (json.loads(invoke(*words, *more).stdout) for more in ((), ("--half",)))
    assert half["perplexity"] != blocks["perplexity"]
    assert half["perplexity"] == pytest.approx(blocks["perplexity"], rel=0.01)
    steps = [
        json.loads(chat(model_path, "--prompt", "hi", "--tokens", "1", "--json", *more).stdout)["steps"]
        for more in ((), ("--half",))
    ]
    assert steps[1][0]["bound"] > steps[0][0]["bound"]


def test_a_conversation(model_path: Path, model: GgufModel) -> None:
    result = chat(model_path, "--tokens", "2", typed="hi\nthe\n\n")
    assert result.exit_code == 0, result.output
    first = expected(model, "user: hi\nassistant: ", 2)
    second = expected(model, f"user: hi\nassistant: {first}\nuser: the\nassistant: ", 2)
    assert result.stdout == f"> {first}\n> {second}\n> "
    ended = chat(model_path, typed="")
    assert ended.exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--json"], "--json needs a --prompt"),
        (["--raw"], "--raw continues a --prompt"),
        (["--raw", "--prompt", "a", "--system", "b"], "--raw continues a --prompt"),
        (["--prompt", "a", "--layers", "9"], "layers is 9"),
        (["--prompt", "a", "--context", "4000"], "context is 4000"),
        (["--prompt", "a", "--temperature", "-1"], "temperature is -1"),
        (["--prompt", "a b c d e f g", "--context", "4"], "the context has 4 positions"),
        (["--prompt", "", "--raw"], "no token"),
        (["llama9", "--prompt", "a"], "no model 'llama9'"),
        (["--prompt", "a\udcff", "--raw"], "no UTF-8 text"),
        (["--prompt", "a", "--system", "\udcff"], "no UTF-8 text"),
    ],
)
def test_wrong_arguments(model_path: Path, words: list[str], message: str) -> None:
    result = chat(model_path, *words)
    assert result.exit_code == 2, result.output
    assert message in result.stderr


@pytest.mark.parametrize(
    "words",
    [["--layers", "9"], ["--context", "4000"], ["--context", "4"], ["--raw", "--prompt", ""]],
)
def test_what_the_model_lacks_is_refused_before_a_device_is_opened(
    model_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(echo_npu, "open")
    assert chat(model_path, "--prompt", "a", *words).exit_code == 2


def test_files_that_are_no_model(tmp_path: Path) -> None:
    path = tmp_path / "small.gguf"
    assert chat(path, "--prompt", "a").exit_code == 2
    path.write_bytes(b"GGUF")
    assert "no whole GGUF file" in chat(path, "--prompt", "a").stderr
    write_model(path, template=None)
    result = chat(path, "--prompt", "a")
    assert (result.exit_code, "chat_template" in result.stderr) == (2, True)
    assert chat(path, "--prompt", "a", "--raw", "--tokens", "1").exit_code == 0


def test_a_conversation_without_standard_input(model_path: Path) -> None:
    words = ["chat", "--model", str(model_path), "--context", "64", "--backend", "cmodel"]
    command = [sys.executable, "-c", "from echo_npu.cli import main; main()", *words]
    closed = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *command], capture_output=True, text=True, check=False
    )
    assert (closed.returncode, "Traceback" in closed.stderr) == (0, False)
    broken = subprocess.run(command, input=b"a \xff b\n", capture_output=True, check=False)
    assert broken.returncode == 2
    assert b"no UTF-8 text" in broken.stderr
    assert b"Traceback" not in broken.stderr


def conversation(path: Path, program: str) -> subprocess.Popen[str]:
    words = ["chat", "--model", str(path), "--context", "64", "--backend", "cmodel"]
    return subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def check_interrupted(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "interrupted" in errors
    assert "Traceback" not in errors


@pytest.mark.usefixtures("usual_signals")
def test_ctrl_c(model_path: Path) -> None:
    process = conversation(model_path, "from echo_npu.cli import main; main()")
    assert process.stdout is not None
    assert process.stdout.read(2) == "> "
    process.send_signal(signal.SIGINT)
    check_interrupted(process)


INTERRUPTED_FLUSH = """
import io, signal, sys
from echo_npu.cli import main

class Interrupted(io.TextIOWrapper):
    done = False

    def flush(self):
        super().flush()
        if not self.done:
            self.done = True
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.stdout = Interrupted(sys.stdout.buffer)
main()
"""


@pytest.mark.usefixtures("usual_signals")
def test_ctrl_c_while_the_prompt_is_flushed(model_path: Path) -> None:
    check_interrupted(conversation(model_path, INTERRUPTED_FLUSH))


INTERRUPTED_AFTERWARDS = """
import io, signal, sys, time
from echo_npu.cli import main

class Slow(io.TextIOWrapper):
    prompted, flushes = False, 0

    def write(self, text):
        Slow.prompted |= text == "> "
        return super().write(text)

    def flush(self):
        super().flush()
        Slow.flushes += Slow.prompted
        if Slow.flushes == 2:
            time.sleep(2)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.stdout = Slow(sys.stdout.buffer)
main()
"""


@pytest.mark.usefixtures("usual_signals")
def test_ctrl_c_behind_the_prompt(model_path: Path) -> None:
    """It counts while the output is flushed once more, as `input` does, which would ignore it."""
    process = conversation(model_path, INTERRUPTED_AFTERWARDS)
    assert process.stdout is not None
    assert process.stdout.read(2) == "> "
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    check_interrupted(process)


def test_perplexity(model_path: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the theme of the other, and the one")
    words = ("perplexity", str(text), "--model", str(model_path), "--context", "16")
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("perplexity ")
    report = json.loads(invoke(*words, "--json").stdout)
    assert 50 < report["perplexity"] < 3000
    assert f"perplexity {report['perplexity']:.3f} over {report['tokens']} tokens" in result.stdout
    missing = tmp_path / "none.txt"
    refused = invoke("perplexity", str(missing), "--model", str(tmp_path / "none.gguf"))
    assert refused.exit_code == 2
    assert f"{missing}: No such file or directory" in refused.stderr.replace("\n", "")


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "has 0 tokens"), (b"e", "has 1 tokens"), (b"the \xff", "is no UTF-8 text: byte 4")],
)
def test_texts_without_a_perplexity(model_path: Path, tmp_path: Path, content: bytes, words: str) -> None:
    text = tmp_path / "text.txt"
    text.write_bytes(content)
    result = invoke("perplexity", str(text), "--model", str(model_path))
    assert (result.exit_code, f"text.txt {words}" in result.stderr) == (2, True)
