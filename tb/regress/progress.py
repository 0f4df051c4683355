"""What a regression has ended, kept so that an interrupted one goes on where it was."""

import dataclasses
import json
import shutil
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Self

from tb.regress.task import Task, TaskOutcome
from tb.results import CampaignResult
from tb.whole_files import write_whole


@dataclasses.dataclass
class RegressionProgress:
    """The results of tasks that have ended, and the files that they left, in a folder.

    Attributes:
        folder: where they are.
        what: the level, the seed and the choice of campaigns.
        commit: that the regression began with.
        date: when the regression began, ISO 8601.
        stretches: how often it was started.
        seconds: wall time of all stretches up to the last task that ended.
    """

    folder: Path
    what: str
    commit: str
    date: str
    stretches: int = 1
    seconds: float = 0.0

    @property
    def kept(self) -> Path:
        """Folder of the files that tasks have left for the closing ones."""
        return self.folder / "kept"

    @classmethod
    def begin(cls, folder: Path, what: str, commit: str, date: str) -> Self:
        """Begin anew: delete what is there."""
        shutil.rmtree(folder, ignore_errors=True)
        new = cls(folder, what, commit, date)
        new.kept.mkdir(parents=True)
        new._write()
        return new

    @classmethod
    def resume(cls, folder: Path, what: str, differing: Callable[[str], Collection[str]]) -> Self:
        """Go on with what is there.

        Args:
            differing: returns the files of the tree that differ from a commit and matter.

        Raises ValueError: there is nothing, it belongs to something else, or files differ from its commit.
        """
        try:
            read = json.loads((folder / "run.json").read_text(encoding="utf-8"))
            old = cls(folder, **read)
        except (OSError, TypeError, ValueError):
            raise ValueError(f"there is no regression to resume in {folder.name}/") from None
        if old.what != what:
            raise ValueError(f"the regression to resume is of {old.what}, not of {what}")
        if old.commit.endswith(("-dirty", "unknown")):
            raise ValueError(
                f"a regression of {old.commit} cannot be resumed: files may have changed meanwhile"
            )
        if files := ", ".join(sorted(differing(old.commit))):
            raise ValueError(f"the regression to resume is of commit {old.commit}, from which {files} differ")
        old.stretches += 1
        old._write()
        return old

    def save(self, outcome: TaskOutcome, seconds: float) -> None:
        """Keep an outcome, of a stretch that has taken so many seconds in addition since the last one."""
        for name, data in outcome.kept.items():
            (self.kept / f"{outcome.task.stem}-{name}").write_bytes(data)
        path = self._path(outcome.task)
        unfinished = path.with_suffix(".part")
        outcome.result.save(unfinished)
        unfinished.replace(path)
        self.seconds += seconds
        self._write()

    def ended(self, tasks: Iterable[Task]) -> list[TaskOutcome]:
        """Return the outcomes of those tasks that have ended before. Raise ValueError for a damaged file."""
        return [
            TaskOutcome(task, CampaignResult.load(self._path(task)), "", "")
            for task in tasks
            if self._path(task).exists()
        ]

    def _path(self, task: Task) -> Path:
        return self.folder / f"{task.stem}.json"

    def _write(self) -> None:
        values = dataclasses.asdict(self)
        del values["folder"]
        write_whole(self.folder / "run.json", json.dumps(values) + "\n")
