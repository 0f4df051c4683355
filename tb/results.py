"""What a campaign found, in the form that reports read: figures that add up over its parts, and items."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

Status = Literal["pass", "fail", "error"]
STATUSES: tuple[Status, ...] = ("pass", "fail", "error")


class UnjudgedError(Exception):
    """A campaign cannot judge: what it relies on, a list, a tool's answer or the unchanged RTL, is wrong."""


@dataclasses.dataclass(frozen=True)
class Item:
    """One thing that was tried: a test, a program, a mutant.

    Attributes:
        name: unique within the campaign.
        status: "error" when it could not be judged.
        seconds: wall time.
        message: why it is not "pass"; may be empty for one that is.
        replay: the command that does it again.
        detail: more about it, in the campaign's own words ("killed by matmul", "equivalent: ...").
    """

    name: str
    status: Status
    seconds: float = 0.0
    message: str = ""
    replay: str = ""
    detail: str = ""

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(
                f"item {self.name!r}: status {self.status!r} is not one of {', '.join(STATUSES)}"
            )


@dataclasses.dataclass(frozen=True)
class CampaignResult:
    """The outcome of a campaign, or of a part of one.

    Attributes:
        name: of the campaign: "rtl", "uvm", "mutation", "faults", ...
        seed: the first seed it drew from.
        seconds: wall time.
        figures: counts by name. Parts of one campaign add up, figure by figure.
        items: what was tried, or of many alike those that did not pass.
        pages: HTML pages that show more, as paths.
    """

    name: str
    seed: int
    seconds: float
    figures: Mapping[str, int] = dataclasses.field(default_factory=dict)
    items: Sequence[Item] = ()
    pages: Sequence[str] = ()

    @property
    def passed(self) -> bool:
        """Whether every item passed."""
        return all(item.status == "pass" for item in self.items)

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> CampaignResult:
        """Read what `save` wrote. OSError: it is not there; ValueError: it is something else."""
        try:
            read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            read["items"] = tuple(Item(**item) for item in read["items"])
            return cls(**read)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not the result of a campaign: {error}") from None


def failures(result: CampaignResult) -> str:
    """What did not pass, in lines: status, message, detail and replay of each."""
    lines = []
    for item in result.items:
        if item.status != "pass":
            lines.append(f"{item.status.upper()}  {item.name}: {item.message}")
            lines += [f"      {item.detail}"] if item.detail else []
            lines += [f"replay: {item.replay}"] if item.replay else []
    return "\n".join(lines)


def merged(parts: Iterable[CampaignResult]) -> CampaignResult:
    """The parts of one campaign as one result: figures and seconds added, items in order, the least seed.

    Raises:
        ValueError: no part, parts of different campaigns, or an item that is in two of them.
    """
    results = list(parts)
    names = {result.name for result in results}
    if len(names) != 1:
        raise ValueError(f"these are not parts of one campaign: {', '.join(sorted(names)) or 'none'}")
    figures: dict[str, int] = {}
    for result in results:
        for name, value in result.figures.items():
            figures[name] = figures.get(name, 0) + value
    items = [item for result in results for item in result.items]
    seen: set[str] = set()
    for item in items:
        if item.name in seen:
            raise ValueError(f"campaign {results[0].name!r}: {item.name!r} is there twice")
        seen.add(item.name)
    return CampaignResult(
        results[0].name,
        min(result.seed for result in results),
        sum(result.seconds for result in results),
        figures,
        items,
        [page for result in results for page in result.pages],
    )
