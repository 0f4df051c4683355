"""What a self-test found."""

from dataclasses import dataclass
from typing import Any


class SelfTestError(Exception):
    """A check found something wrong; the text says what, and where."""


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """One check: whether it passed, what it tried or what is wrong, and the seconds that it took."""

    name: str
    passed: bool
    detail: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Speed:
    """One measured figure."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class SelfTest:
    """All checks of a device, in the order in which they ran, and its speed where they all passed."""

    backend: str
    config: str
    facts: dict[str, Any]
    checks: tuple[SelfCheck, ...]
    speeds: tuple[Speed, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)
