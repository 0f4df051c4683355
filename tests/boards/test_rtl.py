"""The RTL behind the files of a card."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import echo_npu
from echo_npu.backends.rtlmodel import RtlmodelBackend
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.models import run_model, tiny_layer
from echo_npu.selftest import run_selftest
from echo_npu.spec.status import State
from tb.repository import ROOT
from tests.boards.slots import inserted, shown_in

pytestmark = pytest.mark.sim

CONFIG = "small"


@pytest.fixture
def place(tmp_path: Path) -> Path | None:
    """Where the device files are shown; None on a machine without FUSE."""
    return shown_in(tmp_path)


def test_a_transformer_layer_has_the_bits_of_the_simulator(place: Path | None) -> None:
    """All of device memory, after the layer on a card and on the simulator that is behind it."""
    behind = RtlmodelBackend.open(CONFIG, {})
    runs = []
    with echo_npu.open("rtlmodel", config=CONFIG) as direct, inserted(behind, CONFIG, place) as slot:
        assert isinstance(direct.backend, RtlmodelBackend)
        with slot.open() as card:
            for device in (direct, card):
                with echo_npu.open("cmodel", config=CONFIG) as twin:
                    runs.append(run_model(tiny_layer(3), device, twin))
            assert behind.memory.differences(direct.backend.memory) == []
            card.backend.write_mem(0x1FFF_FFF0, np.ones(1, np.uint8))
            assert behind.memory.differences(direct.backend.memory) == [(0x1FFF_FFF0, 1, 0)]
    for run in runs:
        assert run.failures == []
    assert [record.macs for record in runs[0].records] == [record.macs for record in runs[1].records]
    assert len(runs[0].records) > 10


def test_the_selftest(place: Path | None) -> None:
    """A simulated clock is slow, and so are the time-outs: see `clock_mhz`."""
    with (
        inserted(RtlmodelBackend.open(CONFIG, {"stalls": 0.2}), CONFIG, place) as slot,
        slot.open() as npu,
        echo_npu.open("cmodel", config=CONFIG) as twin,
    ):
        done = run_selftest(npu, twin)
    assert done.passed, [check for check in done.checks if not check.passed]
    assert {"copy within memory", "matmul 96x96x96"} <= {speed.name for speed in done.speeds}


def test_a_card_that_was_left_in_the_middle_of_its_work(place: Path | None) -> None:
    """The next user finds an idle device; the command that ran has been ended."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    with inserted(RtlmodelBackend.open(CONFIG, {}), CONFIG, place) as slot:
        with slot.open() as npu:
            npu.limit(watchdog_cycles=10_000_000, protect_ring=True)
            npu.submit_batch(matmul_packets(0x1000, 0x80_0000, 0x1000_0000, 100, 100, 100))
            assert npu.status().state == State.BUSY
        with slot.open() as npu:
            assert npu.status().state == State.IDLE
            assert npu.counters()["macs"] == 0
            assert np.array_equal(npu.matmul(x, x.T), x @ x.T)


@pytest.mark.parametrize(
    ("module", "chosen", "least"),
    [("ops", "", 50), ("simulation", "", 8), ("equality", "without and (programs or batch or registers)", 6)],
)
def test_tests_of_the_rtl_pass_through_a_card(
    place: Path | None, module: str, chosen: str, least: int
) -> None:
    """A part of what `make test-boards` runs."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"tests/rtlmodel/test_{module}.py",
            "-k",
            chosen,
        ],
        cwd=ROOT,
        env={**os.environ, "ECHO_NPU_THROUGH": "fpga", "ECHO_NPU_CONFIG": CONFIG},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= least
