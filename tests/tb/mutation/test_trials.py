"""The order in which a change meets the tests."""

from pathlib import Path

from tb.mutation.trials import Experience, load_cycles, save_cycles, seconds

CYCLES = {
    ("tests.commands.test_nop.test_nop", False): 100,
    ("tests.commands.test_matmul.test_shapes", False): 50_000,
    ("tests.commands.test_matmul.test_shapes", True): 90_000,
}


def names(experience: Experience, file: str, hints: tuple[str, ...] = ()) -> list[tuple[str, bool]]:
    return [(trial.test.rpartition("_")[2], trial.stalls) for trial in experience.order(file, hints)]


def test_the_short_ones_come_first() -> None:
    assert names(Experience(CYCLES), "m.sv") == [("nop", False), ("shapes", False), ("shapes", True)]


def test_what_found_others_comes_first_in_that_file() -> None:
    experience = Experience(CYCLES)
    for _ in range(3):
        experience.learn("m.sv", ("tests.commands.test_matmul.test_shapes", True))
    assert names(experience, "m.sv")[0] == ("shapes", True)
    assert names(experience, "n.sv")[0] == ("nop", False)


def test_hints_come_first() -> None:
    assert names(Experience(CYCLES), "m.sv", ("matmul",))[0] == ("shapes", False)


def test_a_trial_has_an_end() -> None:
    first = Experience(CYCLES).order("m.sv")[0]
    assert first.cycles == 3 * 100 + 20_000


def test_splitting_by_time() -> None:
    experience = Experience(CYCLES)
    limit = seconds(100) + seconds(50_000) + 0.01
    first, rest = experience.split(experience.order("m.sv"), limit)
    assert ([trial.cycles for trial in first], len(rest)) == ([20_300, 170_000], 1)


def test_cycles_are_kept(tmp_path: Path) -> None:
    save_cycles(tmp_path / "cycles.json", CYCLES)
    assert load_cycles(tmp_path / "cycles.json") == CYCLES
