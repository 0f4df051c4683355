"""An emitter whose commands run at once, on a device that records nothing."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from echo_npu.server.operations.base import Emitter
from echo_npu.server.protocol import GraphTensor


class DirectEmitter(Emitter):
    """Nothing is recorded, so nothing runs again, and no graph becomes too long."""

    def content(self, tensor: GraphTensor) -> NDArray[np.uint8]:
        raise AssertionError("nothing is recorded")

    def holds_while(self, condition: Callable[[Emitter], bool]) -> None:
        raise AssertionError("nothing is recorded")

    def moving(self, build: Callable[[Emitter], None], index: GraphTensor) -> None:
        raise AssertionError("nothing is recorded")

    def check_size(self) -> None:
        pass
