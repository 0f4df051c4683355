"""The protocol fuzzed: the C library against a hostile server, the server against hostile clients.

    make fuzz-protocol COUNT=100000 SEED=7

sends so many messages each way. A failure names the seed, with which the same command repeats it.
"""

import os
import subprocess
from pathlib import Path

import pytest

from echo_npu.server.protocol import AnswerStatus
from echo_sim.numerals import Whole, choose_seed
from tb.repository import ROOT
from tests.runtime.server.conftest import server_path
from tests.runtime.server.hostile_clients import attack

__all__ = ["server_path"]

RUNTIME = ROOT / "plugins" / "runtime"
HARNESS = ROOT / "tests" / "plugins" / "hostile_server.c"
COUNT = Whole(1)(os.environ.get("ECHO_NPU_FUZZ_COUNT") or "2000")
SEED = choose_seed()
REPLAY = f"make fuzz-protocol COUNT={COUNT} SEED={SEED}"


@pytest.fixture
def harness(tmp_path: Path) -> Path:
    program = tmp_path / "hostile_server"
    flags = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{RUNTIME}", "-pthread"]
    sanitizers = ["-fsanitize=address,undefined,bounds-strict", "-fno-sanitize-recover=all"]
    sources = [str(path) for path in (HARNESS, *sorted(RUNTIME.glob("*.c")))]
    subprocess.run(["cc", *flags, *sanitizers, *sources, "-o", str(program)], check=True)
    return program


def test_the_library_survives_a_server_that_answers_what_it_likes(harness: Path, tmp_path: Path) -> None:
    command = [str(harness), str(tmp_path / "hostile.sock"), str(SEED), str(COUNT)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60 + COUNT // 100, check=False)
    assert ran.returncode == 0, f"{REPLAY}\n{ran.stdout}{ran.stderr}"
    assert int(ran.stdout.split()[0]) >= COUNT


def test_the_server_survives_clients_that_send_what_they_like(server_path: Path) -> None:
    try:
        found = attack(server_path, SEED, COUNT)
    except Exception as error:
        raise AssertionError(REPLAY) from error
    assert sum(found.values()) == COUNT
    # Most messages get behind the first checks.
    assert found[AnswerStatus.OK] > COUNT // 10
    assert found[AnswerStatus.BAD_ARGUMENT] > 0
    print({status.name: count for status, count in found.items()})
