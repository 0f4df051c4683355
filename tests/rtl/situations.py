"""Functional coverage of the testbenches of single modules: what must occur before a test may pass."""

from __future__ import annotations

from collections import Counter
from enum import Enum


class Situations:
    """Count how often each member of an enumeration has occurred; the member's value describes it."""

    def __init__(self, promised: type[Enum]) -> None:
        self._promised = promised
        self._seen: Counter[Enum] = Counter()

    def saw(self, situation: Enum, happened: object = True) -> None:
        """Count `situation` if it happened."""
        if happened:
            self._seen[situation] += 1

    def check(self) -> None:
        """Raise AssertionError with all situations that never occurred."""
        missing = [str(situation.value) for situation in self._promised if not self._seen[situation]]
        assert not missing, f"the test never reached: {', '.join(missing)}"
