"""Goals: sums and ratios of figures against a bound."""

import pytest

from tb.regress.goals import CampaignGoal, judge
from tests.tb.regress.tasks import result

RESULTS = {"mutation": result("mutation", killed=97, survived=3, equivalent=5, none=0)}


@pytest.mark.parametrize(
    ("goal", "met", "shown"),
    [
        (CampaignGoal("killed", "mutation", ("killed",), 0.97, of=("killed", "survived")), True, "97.00 %"),
        (CampaignGoal("killed", "mutation", ("killed",), 0.971, of=("killed", "survived")), False, "97.00 %"),
        (CampaignGoal("all", "mutation", ("killed", "survived", "equivalent"), 105), True, "105"),
        (CampaignGoal("all", "mutation", ("killed", "survived", "equivalent"), 106), False, "105"),
        (CampaignGoal("few", "mutation", ("survived",), 3, most=True), True, "3"),
        (CampaignGoal("few", "mutation", ("survived",), 2, most=True), False, "3"),
        (CampaignGoal("no campaign", "faults", ("hangs",), 0, most=True), False, "nothing"),
        (CampaignGoal("no figure", "mutation", ("hangs",), 0, most=True), False, "nothing"),
        (CampaignGoal("of nothing", "mutation", ("killed",), 0.5, of=("none",)), False, "nothing"),
    ],
)
def test_judged(goal: CampaignGoal, met: bool, shown: str) -> None:
    verdict = judge(goal, RESULTS)
    assert verdict.met is met
    assert verdict.shown == shown


def test_what_is_missed_does_not_look_met() -> None:
    """A value just below its bound is not shown rounded up to it."""
    results = {"x": result("x", covered=97999, points=100000)}
    verdict = judge(CampaignGoal("c", "x", ("covered",), 0.98, of=("points",)), results)
    assert not verdict.met
    assert verdict.shown == "97.99 %"
    assert verdict.wanted == "at least 98.00 %"
