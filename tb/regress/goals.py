"""What the campaigns of a level have to reach, in figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tb.results import CampaignResult


@dataclasses.dataclass(frozen=True)
class CampaignGoal:
    """A bound on figures of a campaign: their sum, or with `of` the ratio of two sums.

    Attributes:
        text: what is meant to be reached.
        campaign: whose figures.
        figures: added up.
        bound: the least, or with `most` the greatest value that meets the goal.
        of: figures whose sum divides.
        most: the bound is an upper one.
    """

    text: str
    campaign: str
    figures: tuple[str, ...]
    bound: float
    of: tuple[str, ...] = ()
    most: bool = False


@dataclasses.dataclass(frozen=True)
class GoalVerdict:
    """A goal, the value that was reached (None: the figures are not there), and whether that is enough."""

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
        """The value, in words."""
        return "nothing" if self.value is None else _number(self.value, self.goal)

    @property
    def wanted(self) -> str:
        """The bound, in words."""
        return f"{'at most' if self.goal.most else 'at least'} {_number(self.goal.bound, self.goal)}"


def _number(value: float, goal: CampaignGoal) -> str:
    # Towards the side that fails, so that what is shown as met is.
    return f"{int(value * 10000) / 100:.2f} %" if goal.of else f"{value:,.0f}"


def judge(goal: CampaignGoal, results: Mapping[str, CampaignResult]) -> GoalVerdict:
    """Whether campaigns, by name, meet a goal."""
    result = results.get(goal.campaign)
    if result is None or any(name not in result.figures for name in (*goal.figures, *goal.of)):
        return GoalVerdict(goal, None)
    value = sum(result.figures[name] for name in goal.figures)
    if not goal.of:
        return GoalVerdict(goal, value)
    whole = sum(result.figures[name] for name in goal.of)
    return GoalVerdict(goal, value / whole if whole else None)
