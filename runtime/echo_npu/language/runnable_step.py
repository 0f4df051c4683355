"""What a network runs at one position."""

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from numpy.typing import NDArray


class RunnableStep(ABC):
    """A step of tokens at one position; a context manager that closes it at the end."""

    @abstractmethod
    def run(self, **inputs: NDArray[np.int32]) -> None:
        """Run it; `ids` are the tokens of a prompt, int32 [count].

        Raises:
            As `RecordedProgram.run`. TypeError: other inputs.
        """

    def close(self) -> None:  # noqa: B027  (most steps hold nothing)
        """Free what it holds alone: nothing, unless it is recorded for its position."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
