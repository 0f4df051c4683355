"""The mutation campaign's result and command line."""

import pytest

from tb.mutation import campaign
from tb.mutation.judge import Finding, blocks_of
from tb.mutation.schemata import Mutant


def mutant(number: int) -> Mutant:
    return Mutant("m.sv", f"assign a = {number};", "constant", str(number), "0", 1, 10 + number, ())


MUTANTS = {number: mutant(number) for number in range(1, 5)}
FINDINGS = {1: Finding("matmul.test_shapes", "AssertionError", 1.5), 2: Finding("", "", 9.0)}


def test_result_and_report() -> None:
    equivalents = {mutant(3).identity: "Nobody looks."}
    result = campaign.result_of(MUTANTS, FINDINGS, equivalents, {4: "not an lvalue"}, 7, 300, 60.0)
    assert result.figures == {"mutants": 4, "killed": 1, "survived": 1, "equivalent": 1, "illegal": 1}
    assert not result.passed
    assert [item.status for item in result.items] == ["pass", "fail", "pass", "pass"]
    assert [item.detail.split(":")[0] for item in result.items] == [
        "killed by matmul.test_shapes",
        "",
        "equivalent",
        "illegal",
    ]
    assert result.items[1].replay == "make mutate SEED=7 N=300 MUTANT=2"
    text = campaign.report(result)
    assert "SURVIVED m.sv: assign a = 2; | 2 -> 0" in text
    assert (
        "4 mutants: 1 killed, 1 survived, 1 equivalent, 1 illegal; 50.0 % of those that can be found" in text
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--count", "0"], "1 or more"),
        (["--count", "999999"], "there are"),
        (["--shard", "0/3"], "--shard 0/3"),
    ],
)
def test_wrong_arguments(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEED", "1")
    assert campaign.main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_modules_own_testbenches() -> None:
    assert "tests/rtl/dma_read/test_dma_read.py" in blocks_of("dma_read.sv")
    assert len(blocks_of("sync_fifo.sv")) > 1
    assert blocks_of("nothing.sv") == []
