"""What a scoreboard can find. Each kind of finding has its own name, so that a report says which check
failed."""

from __future__ import annotations


class ScoreboardError(AssertionError):
    """A check failed."""


class ExactMismatchError(ScoreboardError):
    """The device's bytes differ from the functional model's within a command's destination."""


class AccuracyError(ScoreboardError):
    """The functional model is farther from the true value than its stated bound."""


class StrayWriteError(ScoreboardError):
    """Memory outside of every command's destination changed."""


class StateMismatchError(ScoreboardError):
    """The device's state, error or progress registers differ from the functional model's."""


class UncheckedError(ScoreboardError):
    """A command was submitted and never checked, or a test checked nothing at all."""
