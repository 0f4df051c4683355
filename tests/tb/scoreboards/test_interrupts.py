"""The interrupt of an idle device: required, allowed and wrong values."""

import pytest

from tb.scoreboards.interrupts import COMMAND, DONE, ERROR, InterruptMismatchError, check_interrupt


def check(status: int, enable: int = 0, line: bool = False, **changes: object) -> None:
    facts: dict[str, object] = {"model": DONE, "causes": DONE | COMMAND, "cleared": False, "failed": False}
    check_interrupt(status, enable, line, **(facts | changes))  # type: ignore[arg-type]


def test_right_interrupts() -> None:
    check(DONE)
    check(DONE, DONE, True)
    check(DONE, COMMAND)
    check(0, cleared=True)
    check(COMMAND, cleared=True)
    check(0, model=DONE | ERROR, causes=DONE | ERROR, failed=True, cleared=True)
    check(ERROR, model=DONE | ERROR, causes=DONE | ERROR, failed=True)


@pytest.mark.parametrize(
    ("status", "enable", "line", "changes"),
    [
        (DONE, DONE, False, {}),
        (DONE, COMMAND, True, {}),
        (0, 7, True, {"cleared": True}),
        (0, 0, False, {}),
        (DONE | COMMAND, 0, False, {}),
        (DONE | ERROR, 0, False, {"cleared": True}),
        (DONE, 0, False, {"model": DONE | ERROR, "causes": DONE | ERROR, "failed": True}),
        (ERROR, 0, False, {"model": ERROR | COMMAND, "causes": 7, "failed": True}),
    ],
)
def test_wrong_interrupts(status: int, enable: int, line: bool, changes: dict[str, object]) -> None:
    with pytest.raises(InterruptMismatchError):
        check(status, enable, line, **changes)
