"""Build the backend of ggml for a version of llama-cpp-python, and try it: `make llama`, `make llama-test`.

The headers, and for the trial ggml, llama.cpp and its test-backend-ops, come from the source distribution of
that version, which pip downloads once into sim_build/llama.
"""

import argparse
import ctypes
import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from echo_sim.numerals import Whole
from spec.marked_page import replace_part

ROOT: Final = Path(__file__).resolve().parents[1]
PLACE: Final = ROOT / "sim_build" / "llama"
PLUGIN: Final = PLACE / "libggml-echo-npu.so"
PAGE: Final = ROOT / "docs" / "llama_cpp.md"
TRIED: Final = "0.3.36"
"""The version of llama-cpp-python that is taken where none is installed."""
INTERFACE: Final = 2
"""The version of ggml's backend interface that the backend is written for."""
PROMPTS: Final = (
    "The capital of France is",
    "What is a systolic array?",
    "Once upon a time",
    "def fibonacci(n):",
    "The three laws of thermodynamics",
)
RESULT: Final = re.compile(r"^  (\w+)\((.*)\): .*?\b(OK|FAIL|not supported)\b")
COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


class LlamaError(Exception):
    """Something that is missing or does not fit, in words."""


def version() -> str:
    """Return the installed version of llama-cpp-python, else the one that was tried."""
    try:
        return importlib.metadata.version("llama-cpp-python")
    except importlib.metadata.PackageNotFoundError:
        return TRIED


def sources() -> Path:
    """Return the unpacked source distribution; download it if it is not there."""
    place = PLACE / version()
    unpacked = place / f"llama_cpp_python-{version()}"
    if not unpacked.exists():
        place.mkdir(parents=True, exist_ok=True)
        given = os.environ.get("LLAMA_SDIST")
        archive = Path(given) if given else place / f"{unpacked.name}.tar.gz"
        if not given and not archive.exists():
            print(f"downloading llama-cpp-python {version()} (75 MB)", flush=True)
            package = f"llama-cpp-python=={version()}"
            only = ["--no-deps", "--no-binary", "llama-cpp-python", "--quiet", "--disable-pip-version-check"]
            run([sys.executable, "-m", "pip", "download", *only, "--dest", str(place), package])
        with tempfile.TemporaryDirectory(dir=place) as folder, tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
            (Path(folder) / unpacked.name).rename(unpacked)
    return unpacked / "vendor" / "llama.cpp"


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """Run a command; LlamaError if it fails."""
    try:
        subprocess.run(command, check=True, env=environment)
    except (OSError, subprocess.CalledProcessError) as error:
        raise LlamaError(f"{shlex.join(command)}: {error}") from None


def build_plugin(source: Path) -> None:
    """Compile the backend against the headers of a version."""
    headers = (source / "ggml" / "src" / "ggml-backend-impl.h").read_text(encoding="utf-8")
    found = re.search(r"#define GGML_BACKEND_API_VERSION (\d+)", headers)
    if found is None or int(found[1]) != INTERFACE:
        raise LlamaError(
            f"llama-cpp-python {version()} has version {found[1] if found else 'none'} of ggml's backend "
            f"interface, the backend is written for version {INTERFACE}: install llama-cpp-python=={TRIED}"
        )
    PLACE.mkdir(parents=True, exist_ok=True)
    runtime = ROOT / "plugins" / "runtime"
    link = PLACE / "echo_npu_link.o"
    flags = ["-O2", "-fPIC", "-Wall", "-Wextra", f"-I{runtime}"]
    run(["cc", "-std=c11", *flags, "-c", str(runtime / "echo_npu_link.c"), "-o", str(link)])
    headers_of = [f"-isystem{source / 'ggml' / folder}" for folder in ("include", "src")]
    defines = ["-DGGML_BACKEND_SHARED", "-DGGML_BACKEND_BUILD"]
    main = ROOT / "plugins" / "ggml" / "echo_npu_backend.cpp"
    compiler = shlex.split(os.environ.get("CXX") or "c++")
    made = PLUGIN.with_suffix(".new")
    run(
        [
            *compiler, "-std=c++17", "-shared", "-fvisibility=hidden", *flags, *defines, *headers_of,
            str(main), str(link), "-pthread", "-o", str(made),
        ]
    )  # fmt: skip
    made.replace(PLUGIN)
    print(f"{PLUGIN.relative_to(ROOT)} for llama-cpp-python {version()}", flush=True)


def build_libraries(source: Path, jobs: int) -> Path:
    """Build ggml, llama.cpp and test-backend-ops for the CPU; return their folder."""
    if shutil.which("cmake") is None:
        raise LlamaError("cmake is missing: install it, for example by apt-get install cmake")
    place = PLACE / version() / "build"
    switches = [
        "GGML_NATIVE=OFF",
        "GGML_OPENMP=OFF",
        "LLAMA_CURL=OFF",
        "LLAMA_OPENSSL=OFF",
        "BUILD_SHARED_LIBS=ON",
    ]
    switches += [f"LLAMA_BUILD_{part}=OFF" for part in ("TESTS", "TOOLS", "EXAMPLES", "SERVER")]
    switches += ["CMAKE_BUILD_TYPE=Release", "CMAKE_CXX_FLAGS_RELEASE=-O2", "CMAKE_C_FLAGS_RELEASE=-O2"]
    run(
        [
            "cmake",
            "-S",
            str(source),
            "-B",
            str(place),
            "--log-level=ERROR",
            *(f"-D{each}" for each in switches),
        ]
    )
    run(
        [
            "cmake",
            "--build",
            str(place),
            "--parallel",
            str(jobs),
            "--target",
            "ggml",
            "llama",
            "--",
            "--quiet",
        ]
    )
    program = place / "bin" / "test-backend-ops"
    test = source / "tests" / "test-backend-ops.cpp"
    if not program.exists() or program.stat().st_mtime < test.stat().st_mtime:
        compiler = shlex.split(os.environ.get("CXX") or "c++")
        folder = place / "bin"
        flags = ["-std=c++17", "-O1", "-DGGML_BACKEND_SHARED", f"-I{source / 'ggml' / 'include'}"]
        libraries = [f"-L{folder}", "-lggml", "-lggml-base", "-lggml-cpu", "-Wl,-rpath,$ORIGIN", "-pthread"]
        run([*compiler, *flags, str(test), *libraries, "-o", str(program)])
    return place / "bin"


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


def try_operations(
    libraries: Path, backend: str, names: Sequence[str]
) -> tuple[dict[str, list[int]], list[str]]:
    """Run test-backend-ops; return cases, supported and passed ones of each operation, and what failed."""
    counts: dict[str, list[int]] = {}
    wrong = []
    with served(backend) as environment:
        chosen: Sequence[Sequence[str]] = [["-o", name] for name in names] or [[]]
        for which in chosen:
            command = [str(libraries / "test-backend-ops"), "test", "-b", "NPU0", *which]
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
                    case = RESULT.match(COLOUR.sub("", line))
                    if case is None:
                        continue
                    count = counts.setdefault(case[1], [0, 0, 0])
                    count[0] += 1
                    count[1] += case[3] != "not supported"
                    count[2] += case[3] == "OK"
                    if case[3] == "FAIL":
                        wrong.append(COLOUR.sub("", line).strip())
                        print(wrong[-1], flush=True)
            if child.returncode and not wrong:
                wrong.append(f"{shlex.join(command)}: exit status {child.returncode}")
    return counts, wrong


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


def main() -> int:
    """Run one of the commands; 0 if all is right, 1 if a result is wrong, 2 if something is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build")
    tried = commands.add_parser("test")
    tried.add_argument("--backend", default="cmodel")
    tried.add_argument("--ops", default="", help="only these operations of test-backend-ops")
    tried.add_argument("--prompts", type=Whole(0, len(PROMPTS)), default=5)
    tried.add_argument("--tokens", type=Whole(1), default=50)
    tried.add_argument("--jobs", type=Whole(1), default=1)
    tried.add_argument("--update", action="store_true", help="write the table into docs/llama_cpp.md")
    arguments = parser.parse_args()
    try:
        source = sources()
        build_plugin(source)
        if arguments.command == "build":
            return 0
        libraries = build_libraries(source, arguments.jobs)
        counts, wrong = try_operations(libraries, arguments.backend, arguments.ops.split())
        print("\n".join(table(counts)))
        if arguments.update:
            replace_part(PAGE, "make llama-test UPDATE=1", table(counts))
        equal = not arguments.prompts or try_tokens(
            source, libraries, arguments.backend, arguments.prompts, arguments.tokens
        )
    except LlamaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return int(bool(wrong) or not counts or not equal)


if __name__ == "__main__":
    sys.exit(main())
