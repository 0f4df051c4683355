"""Tasks that are small programs."""

from tb.regress.task import RESULT, Task
from tb.results import CampaignResult, Item

WRITES = """
import json, sys, time
path, marks, name, status, seconds = sys.argv[1:]
with open(marks, "a") as file:
    file.write(name + "\\n")
time.sleep(float(seconds))
item = {"name": name, "status": status, "message": "" if status == "pass" else "it broke"}
json.dump({"name": "x", "seed": 3, "seconds": 0.1, "figures": {"tried": 1}, "items": [item]}, open(path, "w"))
"""
"""Records in a file that it began, sleeps, and writes a result of one item."""


def writer(
    marks: object, name: str, status: str = "pass", seconds: float = 0.0, campaign: str = "try"
) -> Task:
    """Return a task that executes WRITES."""
    return Task(name, campaign, ("-c", WRITES, RESULT, str(marks), name, status, str(seconds)), timeout=60)


def result(name: str, *statuses: str, **figures: int) -> CampaignResult:
    """Return a result with an item for each status."""
    items = [
        Item(f"{name} {i}", status, float(i), "" if status == "pass" else "wrong <b>bits</b>", f"make {name}")  # type: ignore[arg-type]
        for i, status in enumerate(statuses)
    ]
    return CampaignResult(name, 5, 12.0, figures, items)
