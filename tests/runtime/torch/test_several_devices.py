"""Several NPUs in one process."""

import os
import subprocess
import sys
from pathlib import Path


def test_several_devices() -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("several_devices.py"))],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    names = ["current_device", "separate", "copies", "mixed", "training", "scaled_gradients"]
    assert done.stdout.split() == names
