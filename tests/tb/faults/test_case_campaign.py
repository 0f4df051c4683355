"""Small runs of both campaigns on the RTL must find each planted error."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from echo_npu.commands.checked import CheckedCommand
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import NpuCommandPacket, Opcode, packet_bytes
from echo_npu.spec import registers as regs
from echo_npu.spec.status import ErrorCode, State
from echo_sim.build import COVERAGE_VARIABLE
from tb.cli import main
from tb.faults import case_campaign, fault_case
from tb.faults.case_campaign import CaseCampaign, FailedCase, replayed
from tb.faults.fault_case import KINDS, FaultCase
from tb.faults.fuzz_case import FuzzCase
from tb.faults.prediction import PredictedDevice
from tb.faults.runner import CaseRunner, judge
from tb.faults.script import Script
from tb.faults.stage import RING, FaultStage
from tb.shard import Shard

CONFIG = "small"
HERE, THERE = 0x0030_0000, 0x1030_0000  # memory that no drawn command uses

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module")
def runner() -> CaseRunner:
    return CaseRunner(CONFIG, "tests-faults")


@pytest.fixture(scope="module")
def stage() -> Iterator[FaultStage]:
    return FaultStage(CONFIG, random.Random(1), 40, PredictedDevice(CONFIG))


def played(runner: CaseRunner, stage: FaultStage, *cases: Script) -> list[list[str]]:
    """Return the faults found in each case."""
    records = runner.run(stage.images, stage.routines, stage.first, cases, seed=1)
    return [judge(case, record) for case, record in zip(cases, records, strict=True)]


def begun(stage: FaultStage) -> Script:
    script = Script()
    stage.ready(script)
    return script


def copy(nbytes: int) -> bytes:
    return NpuCommandPacket(Opcode.MEMCPY, 0, HERE, 0, THERE, m=nbytes).pack()


def copying(stage: FaultStage, *, allowed: int = 40, wanted: bytes = bytes(range(40))) -> Script:
    script = begun(stage)
    loads = stage.device.taken
    script.memory(HERE, bytes(range(40)))
    script.allow([(THERE, THERE + allowed)])
    script.packet(copy(40))
    script.wait()
    script.state((State.DONE, 0, 0, 0, 0, loads + 1))
    script.check([(THERE, wanted)], "the copy")
    script.forbid()
    stage.finish(script)
    return script


def test_a_right_case_passes_and_leaves_nothing(runner: CaseRunner, stage: FaultStage) -> None:
    untouched = begun(stage)
    untouched.check([(HERE, bytes(40)), (THERE, bytes(40))], "memory behind a case")
    stage.finish(untouched)
    assert played(runner, stage, copying(stage), untouched, copying(stage)) == [[], [], []]


def test_a_stray_write_is_found(runner: CaseRunner, stage: FaultStage) -> None:
    (found,) = played(runner, stage, copying(stage, allowed=39))
    assert found == [f"stray write: 1 outside of the destinations, the first at 0x{THERE + 32:08x}"]


def test_a_wrong_byte_is_found(runner: CaseRunner, stage: FaultStage) -> None:
    (found,) = played(runner, stage, copying(stage, wanted=bytes(range(39)) + b"\xff"))
    assert found[0] == "wrong: bytes that differ in the copy is 0x1, not 0x0"
    assert f"0x{THERE + 39:x}" in found[1]


def test_a_write_after_the_reset_is_found(runner: CaseRunner, stage: FaultStage) -> None:
    """The case forbids writes too early, so writes under way are found."""
    script = begun(stage)
    script.knob("write_latency", 50)
    script.allow([(THERE, THERE + 512)])
    script.packet(copy(512))
    script.run(60)
    script.forbid()
    script.wait()
    (found,) = played(runner, stage, script)
    assert found[0].startswith("stray write: ")


def test_a_hang_is_found_and_the_next_case_is_played(runner: CaseRunner, stage: FaultStage) -> None:
    script = begun(stage)
    script.hold("r", 100_000)
    script.allow([(THERE, THERE + 40)])
    script.packet(copy(40))
    script.wait(2000)
    found = played(runner, stage, script, copying(stage))
    assert found[0][0].startswith("hang: still busy; STATUS 0x1")
    assert found[1] == []


def test_a_crash_of_the_player_is_told(runner: CaseRunner, stage: FaultStage) -> None:
    """An assertion of the RTL would end the simulator; here the player refuses a case in the middle."""
    script = begun(stage)
    script.words += (250).to_bytes(4, "little")
    with pytest.raises(RuntimeError, match="unknown operation: 250"):
        played(runner, stage, script)


def test_interrupts_are_cleared_by_every_wait(runner: CaseRunner, stage: FaultStage) -> None:
    """Whatever has been done before it, a tail that is refused while an extension is awaited included."""

    class Waiting(FuzzCase):
        """Does that alone, and reads IRQ_STATUS."""

        refused = 0

        def _step(self) -> None:
            self._refused_while_waiting()
            self.refused += self._device.error == ErrorCode.RING_INDEX
            one = Script()
            one.access(
                regs.AXI_PROT, 0, 0xF, 0, read=regs.IRQ_STATUS, data=self._device.peek(regs.IRQ_STATUS)
            )
            self.script.insert(one)
            self._clear_error()

    cases = [Waiting(stage, seed, 8) for seed in range(4)]
    assert sum(case.refused for case in cases) > 1
    assert played(runner, stage, *(case.script for case in cases)) == [[]] * 4


@pytest.mark.parametrize("name", case_campaign.NAMES)
def test_a_device_that_fails_before_the_first_case_is_a_failure(
    name: case_campaign.Name, runner: CaseRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class UnreadyStage(FaultStage):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.first.state((State.ERROR, 0, 0, 0, 0, 0))

    monkeypatch.setattr(case_campaign, "FaultStage", UnreadyStage)
    campaign = CaseCampaign(name, CONFIG, 1, runner)
    campaign.run(100_000)
    (failure,) = campaign.failures
    assert failure.case == case_campaign.NOT_READY
    assert any(each.startswith("wrong: ") for each in failure.wrong)
    assert replayed(campaign.keep(failure, tmp_path), "tests-faults") == failure.wrong


def test_the_first_failure_ends_it(monkeypatch: pytest.MonkeyPatch, runner: CaseRunner) -> None:
    ran: list[int] = []

    def batch(campaign: CaseCampaign, number: int, size: int) -> None:
        ran.append(number)
        campaign.figures["packets"] += size
        campaign.failures += [FailedCase(number, 0, ["wrong"], [])] * number

    monkeypatch.setattr(CaseCampaign, "batch", batch)
    for first, batches in ((True, [0, 1]), (False, [0, 1, 2, 3])):
        ran.clear()
        CaseCampaign("fuzz", CONFIG, 1, runner).run(4 * case_campaign.BATCH_PACKETS, first=first)
        assert ran == batches


def test_one_beat_of_a_burst_fails(runner: CaseRunner, stage: FaultStage) -> None:
    for write, code in ((False, ErrorCode.READ_RESPONSE), (True, ErrorCode.WRITE_RESPONSE)):
        for decode in (False, True):
            script = begun(stage)
            loads = stage.device.taken
            script.fail_burst(write=write, burst=0, beat=3, decode=decode)
            script.allow([(THERE, THERE + 40)])
            script.packet(copy(40))
            script.wait()
            script.state((State.ERROR, code, loads, THERE if write else HERE, 0, loads))
            script.failed()
            script.write((regs.CONTROL, regs.CONTROL_CLEAR_ERROR.mask))
            script.forbid()
            stage.finish(script)
            (record,) = runner.run(stage.images, stage.routines, stage.first, [script], seed=1)
            assert judge(script, record) == []
            assert record.words.tolist()[12:14] == [1, THERE if write else HERE]


def test_another_device_has_another_initial_state(runner: CaseRunner, stage: FaultStage) -> None:
    """The new device's program memory is random, and its registers have their reset values."""
    script = Script()
    script.power(5)
    script.state((State.IDLE, 0, 0, 0, 0, 0))
    script.insert(stage.first)
    script.reset(1)
    stage.ready(script)
    stage.finish(script)
    assert played(runner, stage, script, copying(stage)) == [[], []]


def test_what_was_reached_is_written(
    stage: FaultStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Coverage is written if $ECHO_NPU_COVERAGE is set, also that of a device that was replaced."""
    monkeypatch.setenv(COVERAGE_VARIABLE, str(tmp_path))
    script = Script()
    script.power(5)
    script.insert(stage.first)
    counting = CaseRunner(CONFIG, "tests-faults-coverage")
    assert played(counting, stage, script) == [[]]
    (points,) = tmp_path.glob("*.dat")
    counts = [int(line.rsplit(b" ", 1)[1]) for line in points.read_bytes().splitlines()[1:]]
    assert len(counts) > 10_000
    assert sum(count > 0 for count in counts) > 3_000


def test_products_have_the_model_s_bits(runner: CaseRunner, stage: FaultStage) -> None:
    device = stage.device
    script = begun(stage)
    source = next(iter(stage.maker.images))
    slots = [packet_bytes(packet) for packet in matmul_packets(source + 64, source + 512, THERE, 5, 7, 6)]
    for slot in slots:
        device.submit(slot)
        script.allow([(THERE, THERE + 120)])
        script.packet(slot)
    device.drain()
    script.wait()
    script.state(device.registers())
    script.check([(THERE, device.memory.read(THERE, 120).tobytes())], "the product")
    stage.finish(script)
    assert played(runner, stage, script) == [[]]


@pytest.mark.parametrize("offset", [regs.RING_BASE, regs.RING_SIZE])
def test_a_ring_that_holds_packets_is_not_moved(runner: CaseRunner, stage: FaultStage, offset: int) -> None:
    """The device ignores the change, and accepts no doorbell before the ring is empty."""
    keeps, refuses = begun(stage), begun(stage)
    loads = stage.device.taken
    for script in (keeps, refuses):
        script.knob("read_latency", 200)
        setup = {regs.RING_BASE: RING, regs.RING_SIZE: 64}
        script.write(*setup.items(), (regs.CONTROL, regs.CONTROL_RING_ENABLE.mask), (regs.RING_TAIL, 40))
        script.write((offset, {regs.RING_BASE: RING + 4096, regs.RING_SIZE: 20}[offset]))
    refuses.write((regs.RING_TAIL, 10))
    keeps.wait()
    keeps.state((State.DONE, 0, 0, 0, 0, loads + 40))
    keeps.write((regs.RING_TAIL, 10), (regs.CONTROL, regs.CONTROL_SOFT_RESET.mask))
    keeps.wait(poll=16)
    refuses.wait()
    refuses.state((State.ERROR, ErrorCode.RING_CONFIG, 0, 0, 0, 0), (3, 0xFF, 0, 0, 0, 0))
    refuses.write((regs.CONTROL, regs.CONTROL_CLEAR_ERROR.mask))
    for script in (keeps, refuses):
        stage.finish(script)
    assert played(runner, stage, keeps, refuses) == [[], []]


@pytest.mark.parametrize(("name", "count"), [("faults", 1500), ("fuzz", 6000)])
def test_a_small_campaign_passes(
    name: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEED", "11")
    monkeypatch.setattr(case_campaign, "BATCH_FAULTS", 600)
    result = tmp_path / "result.json"
    assert main([name, "--config", CONFIG, "--count", str(count), "--json", str(result)]) == 0
    figures = json.loads(result.read_text())["figures"]
    assert figures["faults" if name == "faults" else "packets"] >= count
    assert figures["hangs"] == figures["stray_writes"] == figures["wrong"] == figures["crashes"] == 0
    if name == "faults":
        assert {f"faults_{kind}" for kind in KINDS} <= set(figures)
        assert figures["reported"] > 300
        assert figures["harmless"] > 200
    else:
        assert figures["packets_answered"] > count / 3
        assert len([figure for figure in figures if figure.startswith("errors_")]) >= 6


def test_parts_of_a_campaign_draw_different_cases(runner: CaseRunner) -> None:
    drawn = []
    for part in (1, 2):
        campaign = CaseCampaign("fuzz", CONFIG, 3, runner)
        campaign.run(200, Shard(part, 2))
        drawn.append(campaign.figures["cycles"])
    assert drawn[0] != drawn[1]


class Mistaken(PredictedDevice):
    """A model that reports another code than the device for one rule."""

    def registers(self) -> tuple[int, int, int, int, int, int]:
        state, code, *rest = super().registers()
        wrong = {ErrorCode.BAD_DIMENSION: ErrorCode.BAD_FLAGS}
        return (state, wrong.get(ErrorCode(code), code), *rest)


def test_a_wrong_code_is_found_kept_and_replayed(
    runner: CaseRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(case_campaign, "PredictedDevice", Mistaken)
    monkeypatch.setattr(case_campaign, "BATCH_PACKETS", 500)
    campaign = CaseCampaign("fuzz", CONFIG, 5, runner)
    campaign.batch(0, 500)
    assert campaign.failures
    assert campaign.figures["wrong"] == len(campaign.failures)
    failure = campaign.failures[0]
    assert "(BAD_DIMENSION in place of BAD_FLAGS)" in failure.wrong[0]
    kept = campaign.keep(failure, tmp_path)
    assert replayed(kept, "tests-faults-replay") == failure.wrong
    monkeypatch.setattr(case_campaign, "PredictedDevice", PredictedDevice)
    assert replayed(kept, "tests-faults-replay") == []


def test_a_bus_error_of_another_command_is_found(runner: CaseRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FaultCase, "_owners", lambda *_: set())  # whatever the device reports is wrong
    campaign = CaseCampaign("faults", CONFIG, 5, runner)
    campaign.batch(0, 60)
    assert any("which is of command" in each for failure in campaign.failures for each in failure.wrong)


def test_results_of_commands_before_a_fault_count(
    runner: CaseRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = fault_case._contents

    def other(device: PredictedDevice, command: CheckedCommand) -> list[tuple[int, bytes]]:
        return [(start, bytes(len(data))) for start, data in contents(device, command)]

    monkeypatch.setattr(fault_case, "_contents", other)
    campaign = CaseCampaign("faults", CONFIG, 5, runner)
    campaign.batch(0, 30)
    assert "bytes that differ in the result of command" in campaign.failures[0].wrong[0]


def test_the_command_line_refuses_nonsense(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words in (["--count", "0"], ["--shard", "0/2"], ["--config", "huge"]):
        assert main(["fuzz", *words]) == 2
    other = tmp_path / "other.json"
    for text, why in (
        ("{}", "it has no 'campaign'"),
        ("[1]", "it holds no JSON object"),
        (
            '{"campaign": "x", "config": "small", "seed": 1, "batch": 0, "case": 0}',
            "there is no campaign 'x'",
        ),
    ):
        other.write_text(text)
        assert main(["fuzz", "--replay", str(other)]) == 2
        assert f"error: {other} is not a kept case: {why}" in capsys.readouterr().err
    assert main(["fuzz", "--replay", str(tmp_path / "none")]) == 2
    assert f"error: {tmp_path / 'none'}: No such file or directory" in capsys.readouterr().err
