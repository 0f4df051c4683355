"""What all tests share."""

from __future__ import annotations

import os

from tb.npu_config import ROOT

# Before anything imports tb.runner. Workers run at the same time, and some tests run the same simulation.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ.setdefault("ECHO_NPU_RUNS", str(ROOT / "sim_build" / "runs" / worker))
