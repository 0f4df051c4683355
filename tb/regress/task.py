"""Part of a campaign as a command that any machine with this tree can run."""

import dataclasses
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from echo_sim.processes import run_bounded
from echo_sim.run import RUNS, RUNS_VARIABLE
from tb.repository import ROOT
from tb.results import CampaignResult, Item, Status

RESULT = "{result}"
"""Placeholder in a task's arguments for the file that the command must write."""

KEPT = "{kept}"
"""Placeholder in a closing task's arguments for the folder of files that earlier tasks left."""

LOG_BYTES = 16384


@dataclasses.dataclass(frozen=True)
class Task:
    """One command of a campaign.

    Attributes:
        name: unique in a plan.
        campaign: the campaign that it belongs to.
        arguments: of the Python interpreter, including RESULT.
        environment: additional environment variables.
        keeps: environment variable for a folder, whose files are kept.
        form: format of the result: a CampaignResult as JSON, or pytest's JUnit XML.
        timeout: in seconds.
        cost: estimated seconds; long tasks start first.
    """

    name: str
    campaign: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    keeps: str = ""
    form: Literal["json", "junit"] = "json"
    timeout: float = 3600.0
    cost: float = 10.0

    @property
    def stem(self) -> str:
        """Its name as part of a file's name."""
        return re.sub(r"[^A-Za-z0-9]+", "-", self.name)

    @property
    def replay(self) -> str:
        """Command line that runs it again."""
        command = " ".join(["python", *map(shlex.quote, self.arguments)])
        return self.settings + command.replace(shlex.quote(RESULT), "result")

    @property
    def settings(self) -> str:
        """Its environment, as shell assignments before a command."""
        return "".join(f"{name}={shlex.quote(value)} " for name, value in sorted(self.environment.items()))


@dataclasses.dataclass(frozen=True)
class TaskOutcome:
    """Outcome of a task: its result, the end of its output, and the files to be kept.

    The result has an "error" item if the command left no result, ended with an unexplained status, or took
    too long.
    """

    task: Task
    result: CampaignResult
    log: str
    host: str
    kept: Mapping[str, bytes] = dataclasses.field(default_factory=dict)


def run_task(task: Task) -> TaskOutcome:
    """Run a task to its end in this tree. Its processes end with it, and with this process."""
    started = time.monotonic()
    # Sockets lie below it, whose paths have at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="npu-") as folder:
        path, log, kept = (Path(folder) / name for name in ("result", "log", "kept"))
        kept.mkdir()
        command = [sys.executable, *(word.replace(RESULT, str(path)) for word in task.arguments)]
        python_path = [str(ROOT), str(ROOT / "runtime"), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(part for part in python_path if part),
            # A pytest that ends may delete the folder that another one has just begun with.
            "PYTEST_DEBUG_TEMPROOT": folder,
            RUNS_VARIABLE: str(RUNS / task.stem),  # unique per task
            **task.environment,
            **({task.keeps: str(kept)} if task.keeps else {}),
        }
        complaint = ""
        try:
            status = run_bounded(command, env=environment, cwd=ROOT, log=log, timeout=task.timeout)
        except subprocess.TimeoutExpired:
            status, complaint = -1, f"it took more than {task.timeout:.0f} s and was stopped"
        text = log.read_bytes()[-LOG_BYTES:].decode("utf-8", "replace") if log.exists() else ""
        seconds = time.monotonic() - started
        result = None
        if not complaint:
            try:
                result = CampaignResult.load(path) if task.form == "json" else from_junit(task, path, seconds)
                if status != 0 and result.passed:
                    complaint = f"its items passed, but it ended with status {status}"
            except (OSError, ValueError) as error:
                complaint = f"it ended with status {status} and left no result ({type(error).__name__})"
        if result is None:
            result = CampaignResult(task.campaign, 0, seconds)
        if complaint:
            said = "\n".join(text.splitlines()[-20:])
            item = Item(task.name, "error", seconds, f"{complaint}\n{said}".strip(), task.replay)
            result = dataclasses.replace(result, items=[*result.items, item])
        files = {file.name: file.read_bytes() for file in sorted(kept.iterdir()) if file.is_file()}
    return TaskOutcome(
        task, dataclasses.replace(result, name=task.campaign), text, socket.gethostname(), files
    )


def from_junit(task: Task, path: Path, seconds: float) -> CampaignResult:
    """Convert pytest's JUnit file. A skipped test counts as an "error".

    Raises OSError: no such file. ValueError: not JUnit XML.
    """
    try:
        suites = JUnitXml.fromfile(str(path))
    except SyntaxError as error:
        raise ValueError(f"{path} is not JUnit XML: {error}") from None
    items = []
    for suite in suites if isinstance(suites, JUnitXml) else [suites]:
        assert isinstance(suite, TestSuite)
        items += [_item(task, case) for case in suite]
    return CampaignResult(task.campaign, 0, seconds, {"tests": len(items)}, items)


def _item(task: Task, case: TestCase) -> Item:
    status: Status = "pass"
    message = ""
    for result in case.result:
        status = "fail" if isinstance(result, Failure) else "error"
        assert isinstance(result, (Failure, Error, Skipped))
        message = f"{result.message or ''}\n{result.text or ''}".strip()
    where = (case.classname or "").replace(".", "/")
    replay = f"{task.settings}python -m pytest {where}.py -k {shlex.quote(case.name or '')}"
    return Item(
        f"{case.classname}.{case.name}", status, case.time or 0.0, message, replay if status != "pass" else ""
    )
