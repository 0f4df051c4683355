"""The mutation campaign's result and command line."""

import re

import pytest

from tb.cli import main
from tb.mutation import mutant_campaign
from tb.mutation.equivalence.prover import EquivalenceProof
from tb.mutation.judge import MutantFinding
from tb.mutation.schemata import Mutant
from tb.results import failures


def mutant(number: int) -> Mutant:
    return Mutant("m.sv", f"assign a = {number};", "constant", str(number), "0", 1, 10 + number, ())


MUTANTS = {number: mutant(number) for number in range(1, 5)}
FINDINGS = {1: MutantFinding("matmul.test_shapes", "AssertionError", 1.5), 2: MutantFinding("", "", 9.0)}


def test_result_and_report() -> None:
    equivalents = {mutant(3).identity: "Nobody looks."}
    result = mutant_campaign.result_of(
        MUTANTS, FINDINGS, equivalents, {4: "not an lvalue"}, 7, "make mutate SEED=7 N=300 MUTANT=", 60.0
    )
    sums = {"mutants": 4, "killed": 1, "survived": 1, "equivalent": 1, "proven": 0, "illegal": 1}
    assert result.figures == sums | {"constant killed": 1, "constant survived": 1}
    assert not result.passed
    assert [item.status for item in result.items] == ["pass", "survived", "pass", "pass"]
    details = [item.detail.split(":")[0] for item in result.items]
    assert details == ["killed by matmul.test_shapes", "constant", "equivalent", "illegal"]
    assert result.items[1].replay == "make mutate SEED=7 N=300 MUTANT=2"
    text = mutant_campaign.report(result)
    assert re.search(r"^constant +1 +1 +50 %$", text, re.MULTILINE)
    assert "SURVIVED  m.sv: assign a = 2; | 2 -> 0: no test finds it (line 12)" in failures(result)
    said = (
        "4 mutants: 1 killed, 1 survived, 1 equivalent (0 of them proven by tools), 1 illegal;"
        " 50.0 % of those that can be found"
    )
    assert said in text


def test_a_proven_survivor_is_equivalent() -> None:
    proofs = {2: EquivalenceProof("small: module, equal in every state", 3.0), 1: EquivalenceProof("", 5.0)}
    survivors = {1: FINDINGS[2], 2: FINDINGS[2]}
    result = mutant_campaign.result_of(MUTANTS, survivors, {}, {}, 7, "", 60.0, proofs)
    names = ("killed", "survived", "equivalent", "proven")
    assert [result.figures[name] for name in names] == [0, 1, 1, 1]
    assert [item.status for item in result.items] == ["survived", "pass"]
    assert result.items[1].detail == "equivalent (proven: small: module, equal in every state)"
    text = mutant_campaign.report(result)
    assert "1 equivalent (1 of them proven by tools)" in text
    assert re.search(r"^m\.sv +3  small: module, equal in every state$", text, re.MULTILINE)


def test_a_survivor_is_equivalent_once_somebody_has_proven_it() -> None:
    survivors = {1: FINDINGS[1], 2: FINDINGS[2], 3: FINDINGS[2]}
    before = mutant_campaign.result_of(MUTANTS, survivors, {}, {4: "not an lvalue"}, 7, "", 60.0)
    after = mutant_campaign.judged(
        before, {mutant(1).identity: "Wrong.", mutant(2).identity: "Nobody looks."}
    )
    names = ("killed", "survived", "equivalent", "proven after", "constant killed", "constant survived")
    assert [after.figures[name] for name in names] == [1, 1, 1, 1, 1, 1]
    assert [item.status for item in after.items] == ["pass", "pass", "survived", "pass"]
    assert after.items[0] == before.items[0], "what a test has found is not equivalent"
    assert (after.items[1].detail, after.items[1].message) == ("equivalent: Nobody looks.", "")
    assert mutant_campaign.judged(before, {}) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--count", "0"], "whole number from 1"),
        (["--count", "999999"], "there are"),
        (["--shard", "0/3"], "--shard 0/3"),
        (["--only", "x"], "'--only': 'x': it must be a whole number from 1"),
        (["--count", "3", "--only", "2,4"], "--only 4: the mutants have the numbers 1 to 3"),
        (["--where", "("], "no regular expression"),
        (["--where", "no such statement"], "no mutant matches"),
    ],
)
def test_wrong_arguments(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEED", "1")
    assert main(["mutate", *arguments]) == 2
    assert message in capsys.readouterr().err
