"""The campaign's command line with passing and failing programs, without a simulator."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tb.cli import main
from tb.results import CampaignResult
from tb.stimulus.steps import RegisterRead, StepProgram
from tb.uvm import program_campaign
from tb.uvm.program_campaign import BATCH, FailedProgram, ProgramCampaign, batches

FAILURE = FailedProgram("ExactMismatchError", "a bit is wrong")


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A device that fails for odd seeds, and for every program that reads register 4."""

    def seeds(self: ProgramCampaign, seeds: Sequence[int]) -> list[FailedProgram | None]:
        return [FAILURE if seed % 2 else None for seed in seeds]

    def programs(self: ProgramCampaign, programs: Sequence[StepProgram]) -> list[FailedProgram | None]:
        return [FAILURE if RegisterRead(4) in program.steps else None for program in programs]

    def drawn(self: ProgramCampaign, seed: int) -> StepProgram:
        return StepProgram(tuple(RegisterRead(4 * number) for number in range(20)), {}, {})

    def campaign_here(config: str, sequence: str, *, name: str) -> ProgramCampaign:
        return ProgramCampaign(config, sequence, name=name, failures=tmp_path)

    for function in (seeds, programs, drawn):
        monkeypatch.setattr(ProgramCampaign, function.__name__, function)
    monkeypatch.setattr(program_campaign, "build", lambda config: None)
    monkeypatch.setattr(program_campaign, "ProgramCampaign", campaign_here)


@pytest.mark.usefixtures("device")
def test_failing_programs_are_kept_short(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SEED", "10")
    path = tmp_path / "result" / "uvm.json"
    assert main(["uvm", "--config", "small", "--count", "3", "--json", str(path)]) == 1
    result = CampaignResult.load(path)
    assert result.figures == {"uvm_programs": 3, "uvm_failed": 1}
    assert [item.name for item in result.items] == ["mixed small 11"]
    printed = capsys.readouterr().out
    assert "make uvm SEQUENCE=mixed CONFIG=small SEED=11 N=1" in printed
    assert "3 programs of 'mixed' from seed 10" in printed
    (kept,) = tmp_path.glob("*.json")
    assert f"REPLAY={kept}" in printed
    assert StepProgram.load(kept).steps == (RegisterRead(4),)
    monkeypatch.setattr(program_campaign, "build", lambda config: print(f"built {config}"))
    assert main(["uvm", "--replay", str(kept)]) == 1
    printed = capsys.readouterr().out
    assert "ExactMismatchError" in printed
    assert "built small" in printed


@pytest.mark.usefixtures("device")
def test_the_first_failure_may_end_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SEED", "10")
    assert main(["uvm", "--config", "small", "--count", str(3 * BATCH), "--first"]) == 1
    assert f"{BATCH} programs of 'mixed' from seed 10" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("device")
def test_passing_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEED", "10")
    assert main(["uvm", "--config", "small", "--count", "1"]) == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    "arguments", [["--count", "0"], ["--hours", "0"], ["--replay", "no-such-file.json"], ["--config", "huge"]]
)
def test_wrong_arguments(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_campaign, "build", program_campaign.load_config)
    assert main(["uvm", *arguments]) == 2


def test_batches() -> None:
    assert list(batches(5, 3, None)) == [[5, 6, 7]]
    assert [len(batch) for batch in batches(0, BATCH + 1, None)] == [BATCH, 1]
    assert list(batches(0, None, 0.0)) == []


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '"x"', "3",
        '{"steps": {}, "images": [], "timing": {}, "via": "ring"}',
        '{"steps": [{"kind": "RegisterRead", "nothing": 1}], "images": {}, "timing": {}, "via": "ring"}',
        '{"steps": [{"kind": "HostWrite", "data": {"zlib": "abcd"}}]}',
    ],
)  # fmt: skip
def test_a_file_that_is_no_program_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="is not a kept program"):
        program_campaign.replay(path, "small", 1)
