"""Generators that run by turns."""

from collections.abc import Iterator

from echo_npu.language.turns import in_turn


def test_each_is_a_pause_behind_the_one_before() -> None:
    seen: list[str] = []

    def steps(name: str, count: int) -> Iterator[None]:
        for number in range(count):
            seen.append(f"{name}{number}")
            yield
        seen.append(f"{name} ends")

    in_turn([steps("a", 3), steps("b", 1), steps("c", 2)])
    assert seen == ["a0", "a1", "b0", "a2", "b ends", "c0", "a ends", "c1", "c ends"]


def test_nothing_to_run() -> None:
    in_turn([])
