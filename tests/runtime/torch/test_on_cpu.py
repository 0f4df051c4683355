"""`import torch` registers the device, and what runs on the CPU does not notice."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def results(autoload: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("on_cpu.py"))],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": autoload},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_programs_on_the_cpu_do_the_same_with_and_without_the_device() -> None:
    expected, found = results("0"), results("1")
    assert not [text for text in expected.values() if "Error" in str(text)]
    assert found == expected
