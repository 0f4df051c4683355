"""The numbered devices of a process, and copies between them."""

import os
import subprocess
import sys

import pytest

import echo_npu
from echo_npu.devices import from_environment
from tb.repository import ROOT
from tests.refusals import refuses

CHECKS = (
    "one_by_default counted current_is_per_thread separate copies within_one_device beyond_four_gib "
    "both_directions_at_once no_foreign_copy_is_recorded forked closed"
)


def test_numbered_devices() -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ECHO_NPU")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.numbered_devices"],
        cwd=ROOT,
        env=kept | {"PYTHONPATH": f"{ROOT / 'runtime'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == CHECKS.split()


def test_a_wrong_number_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHO_NPU_DEVICES", "two")
    refuses(ValueError, ["ECHO_NPU_DEVICES", "'two'"], from_environment)
    monkeypatch.setenv("ECHO_NPU_DEVICES", "17")
    refuses(ValueError, ["devices is 17", "1 to 16"], from_environment)
    monkeypatch.delenv("ECHO_NPU_DEVICES")
    refuses(TypeError, ["devices is 2.0"], echo_npu.configure, devices=2.0)
