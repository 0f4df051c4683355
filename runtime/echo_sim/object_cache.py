"""Compile Verilator's own runtime once for all simulators.

    object_cache.py CACHE COMPILATION INCLUDE g++ ... -c -o x.o x.cpp

Verilator compiles its runtime anew for each model, which takes longer than a small model itself. This program
runs in front of the compiler (make variable OBJCACHE). It keeps the objects of sources under INCLUDE in
CACHE, named after everything that they depend on, and passes all other sources to the compiler. COMPILATION
stands for the compiler and its version.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path


def cached_object(cache: Path, compilation: str, include: Path, command: list[str]) -> Path | None:
    """Return where the object of this compiler call is kept; None for a source outside of `include`."""
    source = Path(command[-1])
    if "-c" not in command or source.parent.resolve() != include.resolve():
        return None
    target = command[command.index("-o") + 1]
    headers = b"".join(path.read_bytes() for path in sorted(include.glob("verilated*.h")))
    facts = "\0".join(argument for argument in command if argument != target).encode()
    known = facts + b"\0" + compilation.encode() + b"\0"
    digest = hashlib.sha256(known + source.read_bytes() + headers).hexdigest()
    return cache / f"{source.stem}-{digest[:24]}.o"


def main() -> int:
    """Run the compiler, or copy the object that is kept; return the exit status."""
    cache, compilation, include, command = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4:]
    kept = cached_object(cache, compilation, include, command)
    if kept is None:
        return subprocess.call(command)
    target = Path(command[command.index("-o") + 1])
    if kept.exists():
        shutil.copyfile(kept, target)
        return 0
    status = subprocess.call(command)
    if status == 0:
        cache.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}.part")
        shutil.copyfile(target, part)
        part.replace(kept)  # if two builds do the same, the last one wins, and both objects are whole
    return status


if __name__ == "__main__":
    sys.exit(main())
