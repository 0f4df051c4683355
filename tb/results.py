"""Result of a campaign: figures that add up over its parts, and items."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

Status = Literal["pass", "fail", "error", "survived"]
STATUSES: tuple[Status, ...] = ("pass", "fail", "error", "survived")


class UnjudgedError(Exception):
    """A campaign cannot judge: a list, a tool's answer or the unchanged RTL that it relies on is wrong."""


@dataclasses.dataclass(frozen=True)
class Item:
    """One test, program, mutant or similar.

    Attributes:
        name: unique within the campaign.
        status: "error" if it could not be judged; "survived" for a mutant that no test finds: its campaign
            does not pass, a regression judges how many there are.
        seconds: wall time.
        message: why it did not pass; may be empty if it did.
        replay: command that runs it again.
        detail: further information in the campaign's own words ("killed by matmul", "equivalent: ...").
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
    """Outcome of a campaign, or of a part of one.

    Attributes:
        name: of the campaign: "rtl", "uvm", "mutation", "faults", ...
        seed: the first seed it drew from.
        seconds: wall time.
        figures: counts by name. Figures of parts of a campaign add up.
        items: what was tried; where many are alike, only those that did not pass.
        pages: paths of HTML pages with more detail.
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
        """Write it as JSON, creating the folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> CampaignResult:
        """Read what `save` wrote.

        Raises OSError: the file cannot be read. ValueError: the file is not a campaign's result.
        """
        try:
            read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            read["items"] = tuple(Item(**item) for item in read["items"])
            return cls(**read)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not the result of a campaign: {error}") from None


def failures(result: CampaignResult) -> str:
    """List what did not pass as text: status, message, detail and replay of each item."""
    lines = []
    for item in result.items:
        if item.status != "pass":
            lines.append(f"{item.status.upper()}  {item.name}: {item.message}")
            lines += [f"      {item.detail}"] if item.detail else []
            lines += [f"replay: {item.replay}"] if item.replay else []
    return "\n".join(lines)


def merged(parts: Iterable[CampaignResult]) -> CampaignResult:
    """Merge the parts of one campaign: add figures and seconds, concatenate items, keep the least seed.

    Raises ValueError: there is no part, the parts belong to different campaigns, or an item occurs twice.
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
