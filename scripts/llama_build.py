"""Build the backend of ggml, and what of llama.cpp its tests take, for a version of llama-cpp-python.

Everything comes from the source distribution of that version, which pip downloads once into sim_build/llama.
"""

import importlib.metadata
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tb.repository import ROOT

PLACE: Final = ROOT / "sim_build" / "llama"
PLUGIN: Final = PLACE / "libggml-echo-npu.so"
TRIED: Final = "0.3.36"
"""The version of llama-cpp-python that is taken where none is installed."""
INTERFACE: Final = 2
"""The version of ggml's backend interface that the backend is written for."""
PROGRAMS: Final = ("llama-bench", "llama-perplexity", "llama-completion", "llama-cli", "llama-server")


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
            try:
                run([sys.executable, "-m", "pip", "download", *only, "--dest", str(place), package])
            except LlamaError as error:
                raise LlamaError(
                    f"the source distribution {archive.name}, which has the headers of ggml, cannot be "
                    f"downloaded; LLAMA_SDIST=file names one that is there ({error})"
                ) from None
        _unpack(archive, unpacked)
    return unpacked / "vendor" / "llama.cpp"


def _unpack(archive: Path, target: Path) -> None:
    """Make the folder `target` of the one of that name in an archive; LlamaError if there is none."""
    try:
        with tempfile.TemporaryDirectory(dir=target.parent) as folder, tarfile.open(archive) as opened:
            if hasattr(tarfile, "data_filter"):  # not before Python 3.11.4
                opened.extraction_filter = tarfile.data_filter
            opened.extractall(folder)
            (Path(folder) / target.name).rename(target)
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise LlamaError(f"{archive} is no source distribution {target.name}: {error}") from None


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """Run a command; LlamaError if it fails."""
    try:
        subprocess.run(command, check=True, env=environment)
    except (OSError, subprocess.CalledProcessError) as error:
        raise LlamaError(f"{shlex.join(command)[:300]}: {type(error).__name__}") from None


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
    run([*_compiler("CC", "cc"), "-std=c11", *flags, "-c", str(runtime / "echo_npu_link.c"), "-o", str(link)])
    headers_of = [f"-isystem{source / 'ggml' / folder}" for folder in ("include", "src")]
    defines = ["-DGGML_BACKEND_SHARED", "-DGGML_BACKEND_BUILD"]
    main = ROOT / "plugins" / "ggml" / "echo_npu_backend.cpp"
    made = PLUGIN.with_suffix(".new")
    run(
        [
            *_cpp(), "-shared", "-fvisibility=hidden", *flags, *defines, *headers_of,
            str(main), str(link), "-pthread", "-o", str(made),
        ]
    )  # fmt: skip
    made.replace(PLUGIN)
    print(f"{PLUGIN.relative_to(ROOT)} for llama-cpp-python {version()}", flush=True)


def build_ggml(source: Path, jobs: int) -> Path:
    """Build ggml and its test-backend-ops without optimisation, and return their folder.

    That takes some twenty seconds of a processor, where llama.cpp takes minutes. The code for AVX is taken
    where it runs, since it quantises otherwise than ggml's generic code.
    """
    with_avx = _has_avx()
    place = PLACE / version() / ("ggml-avx" if with_avx else "ggml")
    program = place / "test-backend-ops"
    if program.exists():
        return place
    (place / "objects").mkdir(parents=True, exist_ok=True)
    ggml = source / "ggml"
    (place / "ggml-version.h").write_text(
        f'#define GGML_VERSION "{version()}"\n#define GGML_COMMIT "{version()}"\n', encoding="utf-8"
    )
    processor = ggml / "src" / "ggml-cpu"
    files = [
        path
        for folder in (
            ggml / "src",
            processor,
            processor / "tiled",
            *([processor / "arch" / "x86"] if with_avx else []),
        )
        for path in sorted(folder.iterdir())
        if path.suffix in (".c", ".cpp")
    ]
    test = source / "tests" / "test-backend-ops.cpp"
    folders = [place, ggml / "include", ggml / "src", processor]
    names = ["_GNU_SOURCE", "GGML_USE_CPU", "GGML_SCHED_MAX_COPIES=4", "NDEBUG"]
    if not with_avx:
        names.append("GGML_CPU_GENERIC")
    flags = [
        "-O0",
        "-w",
        "-fPIC",
        "-pthread",
        *(["-mavx2", "-mfma", "-mf16c"] if with_avx else []),
        *(f"-I{each}" for each in folders),
        *(f"-D{each}" for each in names),
    ]

    def compiled(path: Path) -> str:
        made = place / "objects" / f"{path.parent.name}-{path.name}.o"
        language = [*_compiler("CC", "cc"), "-std=gnu11"] if path.suffix == ".c" else _cpp()
        run([*language, *flags, "-c", str(path), "-o", str(made)])
        return str(made)

    with ThreadPoolExecutor(jobs) as pool:
        tests, *objects = pool.map(compiled, [test, *files])
    run([*_cpp(), "-shared", *objects, "-pthread", "-ldl", "-o", str(place / "libggml.so")])
    made = program.with_suffix(".new")
    link_with_ggml(place, [tests], made)
    made.replace(program)
    return place


def link_with_ggml(place: Path, parts: Sequence[str], program: Path) -> None:
    """Make a program of sources and objects with the ggml in a folder."""
    include = sources() / "ggml" / "include"
    libraries = [f"-L{place}", "-lggml", f"-Wl,-rpath,{place}", "-pthread"]
    run([*_cpp(), "-O1", f"-I{include}", *parts, *libraries, "-o", str(program)])


def _has_avx() -> bool:
    """Return whether this processor has the instructions that ggml's code for x86 is built with."""
    try:
        known = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
    words = set(known.split())
    return platform.machine() == "x86_64" and {"avx2", "fma", "f16c"} <= words


def _compiler(variable: str, default: str) -> list[str]:
    return shlex.split(os.environ.get(variable) or default)


def _cpp() -> list[str]:
    return [*_compiler("CXX", "c++"), "-std=c++17"]


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
        "CMAKE_BUILD_RPATH_USE_ORIGIN=ON",  # libraries are those beside it, wherever the folder is
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
        folder = place / "bin"
        flags = ["-O1", "-DGGML_BACKEND_SHARED", f"-I{source / 'ggml' / 'include'}"]
        libraries = [f"-L{folder}", "-lggml", "-lggml-base", "-lggml-cpu", "-Wl,-rpath,$ORIGIN", "-pthread"]
        run([*_cpp(), *flags, str(test), *libraries, "-o", str(program)])
    return place / "bin"
