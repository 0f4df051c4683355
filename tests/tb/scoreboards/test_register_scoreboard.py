"""Register reads are judged as far as a model without a clock can predict them."""

import pytest

from echo_npu.spec import registers as regs
from echo_npu.spec.status import State
from tb.scoreboards.registers import RegisterMismatchError, RegisterScoreboard
from tests.refusals import refuses

MODEL = {regs.ID: 0x4543484F, regs.IRQ_STATUS: 4, regs.IRQ_ENABLE: 5, regs.RETIRED: 7}
MODEL[regs.STATUS] = int(State.DONE)


def scoreboard(**changes: int) -> RegisterScoreboard:
    model = MODEL | {getattr(regs, name): value for name, value in changes.items()}
    return RegisterScoreboard(model.__getitem__)


def test_right_values_pass() -> None:
    board = scoreboard()
    for offset, value in ((regs.ID, 0x4543484F), (regs.IRQ_ENABLE, 5), (regs.RETIRED, 3), (regs.RETIRED, 7)):
        board.check(offset, value)
    board.check(regs.STATUS, State.BUSY)
    assert board.checked == 5


@pytest.mark.parametrize(
    ("offset", "value"),
    [(regs.ID, 0), (regs.IRQ_ENABLE, 4), (regs.RETIRED, 8), (regs.STATUS, int(State.ERROR))],
)
def test_wrong_values_fail(offset: int, value: int) -> None:
    refuses(RegisterMismatchError, f"0x{offset:03x}", scoreboard().check, offset, value)


def test_progress_never_goes_back() -> None:
    board = scoreboard()
    board.check(regs.RETIRED, 5)
    refuses(RegisterMismatchError, None, board.check, regs.RETIRED, 4)


def test_error_is_right_when_the_model_has_it() -> None:
    scoreboard(STATUS=int(State.ERROR)).check(regs.STATUS, State.ERROR)


def test_what_depends_on_time_is_not_judged() -> None:
    board = scoreboard()
    board.check(regs.CYCLES, 123)
    assert board.checked == 0


def test_a_cause_stays_until_it_is_cleared() -> None:
    board = scoreboard()
    board.check(regs.IRQ_STATUS, 1)
    board.check(regs.IRQ_STATUS, 5)
    board.cleared(1)
    board.check(regs.IRQ_STATUS, 4)
    refuses(RegisterMismatchError, None, board.check, regs.IRQ_STATUS, 1)


def test_a_reset_starts_anew() -> None:
    board = scoreboard()
    board.check(regs.RETIRED, 5)
    board.check(regs.IRQ_STATUS, 7)
    board.restart()
    board.check(regs.RETIRED, 0)
    board.check(regs.IRQ_STATUS, 0)
