"""The order in which a change meets the tests."""

from pathlib import Path

from tb.mutation.trials import Cost, Experience, load_costs, save_costs

COSTS = {
    ("tests.ops.test_nop.test_nop", False): Cost(100, 0.1),
    ("tests.ops.test_matmul.test_shapes", False): Cost(5000, 1.0),
    ("tests.ops.test_matmul.test_shapes", True): Cost(9000, 2.0),
}


def names(experience: Experience, file: str, hints: tuple[str, ...] = ()) -> list[tuple[str, bool]]:
    return [(trial.test.rpartition("_")[2], trial.stalls) for trial in experience.order(file, hints)]


def test_the_short_ones_come_first() -> None:
    assert names(Experience(COSTS), "m.sv") == [("nop", False), ("shapes", False), ("shapes", True)]


def test_what_found_others_comes_first_in_that_file() -> None:
    experience = Experience(COSTS)
    for _ in range(3):
        experience.learn("m.sv", ("tests.ops.test_matmul.test_shapes", True))
    assert names(experience, "m.sv")[0] == ("shapes", True)
    assert names(experience, "n.sv")[0] == ("nop", False)


def test_hints_come_first() -> None:
    assert names(Experience(COSTS), "m.sv", ("matmul",))[0] == ("shapes", False)


def test_a_trial_has_an_end() -> None:
    first = Experience(COSTS).order("m.sv")[0]
    assert first.cycles == 3 * 100 + 20_000


def test_splitting_by_time() -> None:
    experience = Experience(COSTS)
    first, rest = experience.split(experience.order("m.sv"), 1.2)
    assert ([trial.cycles for trial in first], len(rest)) == ([20_300, 35_000], 1)


def test_costs_are_kept(tmp_path: Path) -> None:
    save_costs(tmp_path / "costs.json", COSTS)
    assert load_costs(tmp_path / "costs.json") == COSTS
