"""Functional coverage of the testbenches of single modules: situations that must occur before a test
passes."""

from collections import Counter
from collections.abc import Iterator
from enum import Enum

PATIENCE = 40
"""Factor by which a test may become longer to reach what its random choices have missed."""


class Situations:
    """Count how often each member of some enumerations has occurred; the member's value describes it."""

    def __init__(self, *promised: type[Enum], least: int = 1) -> None:
        """Args: least (how often each of them has to occur, so that none is reached by luck)."""
        self._least = least
        self._promised = dict.fromkeys(situation for kind in promised for situation in kind)
        self._seen: Counter[Enum] = Counter()

    def saw(self, situation: Enum, happened: object = True) -> None:
        """Count `situation` if it happened."""
        if happened:
            self._seen[situation] += 1

    def lacks(self, *situations: Enum) -> bool:
        """Return whether one of these is promised and has not occurred often enough."""
        return any(self._seen[each] < self._least for each in situations if each in self._promised)

    def rounds(self, count: int) -> Iterator[int]:
        """Number `count` rounds of random traffic, more while a situation is missing; then `check`."""
        for number in range(PATIENCE * count):
            if number >= count and not self._missing():
                return
            yield number
        self.check()

    def check(self) -> None:
        """Raise AssertionError with all situations that did not occur often enough."""
        missing = self._missing()
        assert not missing, f"the test did not reach {self._least} times: {', '.join(missing)}"

    def _missing(self) -> list[str]:
        return [str(situation.value) for situation in self._promised if self._seen[situation] < self._least]
