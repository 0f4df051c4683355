"""Every pair of register writes that are in flight together has the outcome of one behind the other."""

import random

import pytest

from echo_npu.commands.packets import PACKET_BYTES, NpuCommandPacket, Opcode
from tb.faults.in_flight import KINDS, MOST_LATE, WritePair, drawn, pairs
from tb.faults.predicted_case import PredictedCase
from tb.faults.prediction import PredictedDevice
from tb.faults.runner import CaseRunner, judge
from tb.faults.stage import FaultStage

CONFIG = "small"
NOP = NpuCommandPacket(Opcode.NOP).pack()


class PairCase(PredictedCase):
    """One pair, on a device in its state."""

    def __init__(self, stage: FaultStage, seed: int, pair: WritePair) -> None:
        super().__init__(stage, seed)
        self._submission([NOP], by_ring=True)  # sets up the ring
        if pair.in_error:
            self._submission([b"\xff" * PACKET_BYTES], by_ring=bool(seed & 1))
        self._in_flight(pair, [NOP] * 3)
        self._clear_error()
        stage.finish(self.script)


@pytest.mark.sim
def test_each_pair_on_the_rtl() -> None:
    stage = FaultStage(CONFIG, random.Random(1), 4, PredictedDevice(CONFIG))
    wanted = list(pairs())
    scripts = [PairCase(stage, seed, pair).script for seed, pair in enumerate(wanted)]
    runner = CaseRunner(CONFIG, "tests-in-flight")
    records = runner.run(stage.images, stage.routines, stage.first, scripts, seed=1)
    found = [
        f"{pair}: {wrong}"
        for pair, script, record in zip(wanted, scripts, records, strict=True)
        for wrong in judge(script, record)
    ]
    assert not found, "\n".join(found)


def test_all_pairs_are_there() -> None:
    every = list(pairs())
    assert {(pair.first, pair.second) for pair in every} == {(a, b) for a in KINDS for b in KINDS}
    assert {pair.late for pair in every} == set(range(MOST_LATE + 1))
    assert len(every) == len(set(every))


def test_pairs_are_drawn_from_them() -> None:
    rng = random.Random(2)
    every = set(pairs())
    some = {drawn(rng, in_error=rng.random() < 0.5) for _ in range(3000)}
    assert {pair for pair in some if not pair.refused or "RING_TAIL" in (pair.first, pair.second)} <= every
    assert WritePair("clear_error", "DOORBELL", 0, True) in some
