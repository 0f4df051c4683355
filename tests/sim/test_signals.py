"""Tests and tools do not depend on the signal settings of the shell that started them."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tb.repository import ROOT

SENT = {"SIGINT", "SIGTERM", "SIGHUP"}


def users(tree: ast.Module) -> set[str]:
    """Return the tests of a module that name a signal which a shell may ignore, and do not set it."""
    if any(isinstance(node, ast.Assign) and "usual_signals" in ast.unparse(node) for node in tree.body):
        return set()  # a mark of the whole module
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute) and inner.attr in SENT and not sets_signals(node)
    }


def sets_signals(test: ast.FunctionDef) -> bool:
    """Return whether a test has the fixture; a helper with its mark has not."""
    marked = any("usual_signals" in ast.unparse(each) for each in test.decorator_list)
    return marked or "usual_signals" in [each.arg for each in test.args.args]


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("test_*.py")), ids=lambda path: path.stem)
def test_who_sends_a_signal_sets_what_it_does(path: Path) -> None:
    assert not users(ast.parse(path.read_text(encoding="utf-8")))


IGNORING = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
    signal.signal(number, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def ignoring(*words: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process that ignores the signals that nohup, background shells and supervisors
    ignore."""
    return subprocess.run(
        [sys.executable, "-c", IGNORING, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_processes_are_ended_and_judged_where_signals_are_ignored() -> None:
    """The tests of child processes pass: statuses are known, and stopped processes end."""
    done = ignoring("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/sim/test_processes.py")
    assert done.returncode == 0, done.stdout


def test_the_fixture_is_what_makes_a_signal_work(tmp_path: Path) -> None:
    """Without the fixture the same test fails, because an ignored interrupt has no effect."""
    (tmp_path / "test_interrupt.py").write_text(
        "import os, signal, pytest\n"
        "from tests.conftest import usual_signals\n"
        "def interrupted():\n"
        "    with pytest.raises(KeyboardInterrupt):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "def test_alone():\n    interrupted()\n"
        "@pytest.mark.usefixtures('usual_signals')\ndef test_with():\n    interrupted()\n"
    )
    done = ignoring("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path))
    assert "1 failed, 1 passed" in done.stdout, done.stdout
