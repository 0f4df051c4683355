"""Build the backend of ggml for a version of llama-cpp-python, and try it: `make llama`, `make llama-test`.

scripts/llama_build.py builds what they need.
"""

import argparse
import ctypes
import importlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from echo_npu import list_backends
from echo_npu.models.report import ProgressBar
from echo_sim.numerals import Whole
from scripts.llama_build import (
    PLACE,
    PLUGIN,
    LlamaError,
    build_ggml,
    build_libraries,
    build_plugin,
    sources,
)
from spec.marked_page import replace_part
from tb.repository import ROOT

PAGE: Final = ROOT / "docs" / "llama_cpp.md"
SAMPLE: Final = ROOT / "scripts" / "llama_sample.txt"
"""Cases of test-backend-ops, one a line, that the simulated RTL computes in minutes."""
PROMPTS: Final = (
    "The capital of France is",
    "What is a systolic array?",
    "Once upon a time",
    "def fibonacci(n):",
    "The three laws of thermodynamics",
)
RESULT: Final = re.compile(r"^.*?  (\w+)\((.*)\): .*?\b(OK|FAIL|not supported)\b")
"""The line of a case. One that fails begins with its error."""
LAST_LINES: Final = 20
COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


@contextmanager
def served(backend: str) -> Iterator[dict[str, str]]:
    """Yield an environment in which the backend starts a server of its own, which ends after its client."""
    with tempfile.TemporaryDirectory() as folder:
        yield {
            **os.environ,
            "ECHO_NPU_SOCKET": str(Path(folder) / "server.sock"),
            "ECHO_NPU_BACKEND": backend,
            "ECHO_NPU_COMMAND": str(Path(sys.executable).with_name("echo-npu")),
            "GGML_BACKEND_PATH": str(PLUGIN),
        }


# --- test-backend-ops ---------------------------------------------------------------------------------------


def sample() -> list[str]:
    """Return the cases of the sample, as test-backend-ops names them."""
    return SAMPLE.read_text(encoding="utf-8").splitlines()


def results(program: Path, environment: Mapping[str, str], which: str) -> Iterator[tuple[str, str, str]]:
    """Run test-backend-ops on operations or cases with commas between, "" for all of them.

    Yields: for each case the operation, its parameters and the verdict; LlamaError at the end, with its last
        lines, if the program fails without a FAIL among the verdicts.
    """
    command = [str(program), "test", "-b", "NPU0", *(["-o", which] if which else [])]
    failed = False
    last: deque[str] = deque(maxlen=LAST_LINES)
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            last.append(COLOUR.sub("", line))
            case = RESULT.match(last[-1])
            if case is not None:
                failed |= case[3] == "FAIL"
                yield case[1], case[2], case[3]
    if child.returncode < 0 or (child.returncode and not failed):
        raise LlamaError(f"{shlex.join(command)[:200]}: exit status {child.returncode}\n{''.join(last)}")


def try_operations(
    program: Path, environment: Mapping[str, str], chosen: Sequence[str]
) -> tuple[dict[str, list[int]], list[str]]:
    """Return cases, supported and passed ones of each operation, and what failed, of all choices."""
    counts: dict[str, list[int]] = {}
    wrong = []
    before = committed()
    expected = sum(cases for name, (cases, *_) in before.items() if name in chosen or chosen == [""])
    with ProgressBar("cases", expected) as bar:
        for which in chosen:
            for name, parameters, verdict in results(program, environment, which):
                count = counts.setdefault(name, [0, 0, 0])
                count[0] += 1
                count[1] += verdict != "not supported"
                count[2] += verdict == "OK"
                bar.advance(name)
                if verdict == "FAIL":
                    wrong.append(f"{name}({parameters})")
                    print(wrong[-1], flush=True)
    return counts, wrong


def try_sample(program: Path, environment: Mapping[str, str], cases: Sequence[str]) -> list[str]:
    """Run these cases; return those that fail, are not supported, or do not exist."""
    left = dict.fromkeys(cases, "does not exist")
    for name, parameters, verdict in results(program, environment, ",".join(cases)):
        case = f"{name}({parameters})"
        if verdict != "OK":
            left[case] = verdict
        elif left.get(case) == "does not exist":
            del left[case]  # one that exists twice is met again
    return [f"{case}: {why}" for case, why in left.items()]


def table(counts: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the lines of a table: operations with supported cases, then the names of all others."""
    lines = ["| operation | cases | supported | passed |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {name} | {count[0]} | {count[1]} | {count[2]} |"
        for name, count in sorted(counts.items())
        if count[1]
    ]
    others = [name for name, count in sorted(counts.items()) if not count[1]]
    return [*lines, "", f"Without a supported case: {', '.join(others)}."] if others else lines


def committed() -> dict[str, list[int]]:
    """Return the counts in the table of the page; 0 cases where it only names an operation."""
    page = PAGE.read_text(encoding="utf-8")
    counts = {
        name: [int(each) for each in numbers.split("|")]
        for name, numbers in re.findall(r"^\| ([A-Z]\w+) \| ([\d |]+) \|$", page, re.MULTILINE)
    }
    others = re.search(r"^Without a supported case: (.*)\.$", page, re.MULTILINE)
    return counts | {name: [0, 0, 0] for name in (others[1].split(", ") if others else [])}


# --- llama-cpp-python ---------------------------------------------------------------------------------------


def make_float32(target: Path) -> None:
    """Write SmolLM2 with its weights as float32, which are those that the device multiplies."""
    import numpy as np
    from gguf import GGUFReader, GGUFValueType, GGUFWriter
    from gguf.quants import dequantize

    from echo_npu.models.extras import smollm2_file

    reader, writer = GGUFReader(smollm2_file()), GGUFWriter(target, "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, inner)
    writer.add_file_type(0)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, values.reshape(tensor.shape[::-1].tolist()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def generated(model: Path, prompts: Sequence[str], count: int, *, npu: bool) -> list[list[int]]:
    """Return the likeliest tokens behind each prompt, by llama_cpp on the CPU or on the NPU."""
    llama_cpp: Any = importlib.import_module("llama_cpp")
    if npu and not llama_cpp.llama_supports_gpu_offload():
        raise LlamaError("the ggml that llama_cpp uses is not the one that knows the NPU")
    llm = llama_cpp.Llama(
        str(model), n_gpu_layers=99 if npu else 0, n_ctx=256, n_threads=2, seed=0, verbose=False
    )
    found = []
    for prompt in prompts:
        llm.reset()
        tokens: list[int] = []
        for token in llm.generate(llm.tokenize(prompt.encode()), temp=0.0, repeat_penalty=1.0):
            tokens.append(int(token))
            if len(tokens) == count:
                break
        found.append(tokens)
    llm.close()
    return found


def try_tokens(source: Path, libraries: Path, backend: str, prompts: int, count: int) -> bool:
    """Compare the NPU's tokens with the CPU's on the same weights; return whether all are equal."""
    from echo_npu.models.extras import smollm2_file

    sys.path.insert(0, str(source.parents[1]))
    exact = PLACE / "smollm2-f32.gguf"
    if not exact.exists():
        make_float32(exact.with_suffix(".new"))
        exact.with_suffix(".new").replace(exact)
    with served(backend) as environment:
        os.environ.update(environment, LLAMA_CPP_LIB_PATH=str(libraries))
        del os.environ["GGML_BACKEND_PATH"]  # it is loaded below, as a program would
        chosen = PROMPTS[:prompts]
        wanted = generated(exact, chosen, count, npu=False)
        ctypes.CDLL(str(libraries / "libggml.so")).ggml_backend_load(str(PLUGIN).encode())
        got = generated(smollm2_file(), chosen, count, npu=True)
    for prompt, here, there in zip(chosen, got, wanted, strict=True):
        equal = sum(a == b for a, b in zip(here, there, strict=True))
        print(f"{prompt!r}: {equal} of {count} tokens equal", flush=True)
    return got == wanted


# --- the command line ---------------------------------------------------------------------------------------


def run_sample(source: Path, backend: str, jobs: int) -> bool:
    """Run the sample; return whether something is wrong."""
    with served(backend) as environment:
        wrong = try_sample(build_ggml(source, jobs) / "test-backend-ops", environment, sample())
    print("\n".join(wrong) or f"{len(sample())} cases passed on {backend}")
    return bool(wrong)


def main() -> int:
    """Run one of the commands; 0 if all is right, 1 if a result is wrong, 2 if something is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build")
    tried = commands.add_parser("test")
    tried.add_argument("--backend", default="cmodel", choices=list_backends())
    tried.add_argument("--ops", default="", help="only these operations of test-backend-ops")
    tried.add_argument("--prompts", type=Whole(0, len(PROMPTS)), default=5)
    tried.add_argument("--tokens", type=Whole(1), default=50)
    tried.add_argument("--jobs", type=Whole(1), default=1)
    tried.add_argument("--sample", action="store_true", help="only the cases of scripts/llama_sample.txt")
    tried.add_argument("--update", action="store_true", help="write the table into docs/llama_cpp.md")
    arguments = parser.parse_args()
    try:
        source = sources()
        build_plugin(source)
        if arguments.command == "build":
            return 0
        if arguments.sample:
            return int(run_sample(source, arguments.backend, arguments.jobs))
        libraries = build_libraries(source, arguments.jobs)
        with served(arguments.backend) as environment:
            names = arguments.ops.split() or [""]
            counts, wrong = try_operations(libraries / "test-backend-ops", environment, names)
        print("\n".join(table(counts)))
        if arguments.update:
            replace_part(PAGE, "make llama-test UPDATE=1", table(committed() | counts))
        equal = not arguments.prompts or try_tokens(
            source, libraries, arguments.backend, arguments.prompts, arguments.tokens
        )
    except LlamaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return int(bool(wrong) or not counts or not equal)


if __name__ == "__main__":
    sys.exit(main())
