"""Failures that scoreboards report; the type says which check failed."""


class ScoreboardError(AssertionError):
    """A check failed."""


class ExactMismatchError(ScoreboardError):
    """The device's bytes differ from the functional model's within a command's destination."""


class AccuracyError(ScoreboardError):
    """The functional model's result exceeds its stated error bound."""


class StrayWriteError(ScoreboardError):
    """Memory outside every command's destination changed."""


class StateMismatchError(ScoreboardError):
    """The device's state, error or progress registers differ from the functional model's."""


class UncheckedError(ScoreboardError):
    """A command was never checked, or a test checked nothing."""
