"""Goals of a level, in figures of its campaigns."""

import dataclasses
from collections.abc import Mapping

from tb.results import CampaignResult


@dataclasses.dataclass(frozen=True)
class CampaignGoal:
    """A bound on the sum of figures of a campaign, or with `of` on the ratio of two sums.

    Attributes:
        text: name of the goal.
        campaign: campaign of the figures.
        figures: added up.
        bound: least value that meets the goal; greatest one with `most`.
        of: figures whose sum divides.
        most: whether the bound is an upper one.
    """

    text: str
    campaign: str
    figures: tuple[str, ...]
    bound: float
    of: tuple[str, ...] = ()
    most: bool = False


@dataclasses.dataclass(frozen=True)
class GoalVerdict:
    """A goal with the value reached; None if the figures are missing."""

    goal: CampaignGoal
    value: float | None

    @property
    def met(self) -> bool:
        """Whether the goal is met."""
        if self.value is None:
            return False
        return self.value <= self.goal.bound if self.goal.most else self.value >= self.goal.bound

    @property
    def shown(self) -> str:
        """The value, formatted."""
        return "nothing" if self.value is None else _number(self.value, self.goal)

    @property
    def wanted(self) -> str:
        """The bound, formatted."""
        return f"{'at most' if self.goal.most else 'at least'} {_number(self.goal.bound, self.goal)}"


def _number(value: float, goal: CampaignGoal) -> str:
    # Truncate, so that a missed goal is never shown as met.
    return f"{int(value * 10000) / 100:.2f} %" if goal.of else f"{value:,.0f}"


def judge(goal: CampaignGoal, results: Mapping[str, CampaignResult]) -> GoalVerdict:
    """Judge a goal by the results of campaigns, by name."""
    result = results.get(goal.campaign)
    if result is None or any(name not in result.figures for name in (*goal.figures, *goal.of)):
        return GoalVerdict(goal, None)
    value = sum(result.figures[name] for name in goal.figures)
    if not goal.of:
        return GoalVerdict(goal, value)
    whole = sum(result.figures[name] for name in goal.of)
    return GoalVerdict(goal, value / whole if whole else None)
