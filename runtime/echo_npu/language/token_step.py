"""The step of one token, whose position is in device memory: one recorded program for several positions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from echo_npu.device import Device
from echo_npu.driver.recorded_program import RecordedProgram
from echo_npu.language.group import PLACES
from echo_npu.language.runnable_step import RunnableStep
from echo_npu.tensor import DeviceTensor


class TokenProgram:
    """Runs the step of the token that is in `next`.

    The commands are the same for `PLACES` positions: they attend to all keys up to the last of these, hide
    what lies behind the token's own position, and add one to the position. So they are recorded once for all
    of these.

    Args:
        device: records and runs.
        context: positions of the cache.
        position: int32 [1] on the device.
        values: the cache, float16 [layers, context, kv_heads, head_dim].
        submit: submits the commands of a step for tokens that may attend to so many keys.
    """

    def __init__(
        self,
        device: Device,
        context: int,
        position: DeviceTensor,
        values: DeviceTensor,
        submit: Callable[[int], None],
    ) -> None:
        self._device = device
        self._context = context
        self._position = position
        self._values = values
        self._submit = submit
        self._program: RecordedProgram | None = None
        self._keys = self._epoch = 0
        self._next: int | None = None  # what the position in device memory is

    def prepare(self, position: int) -> RecordedProgram:
        """Return the program for a position of the context; it is recorded if the last one does not serve."""
        keys = min((position // PLACES + 1) * PLACES, self._context)
        epoch = self._device.driver.epoch
        if self._program is None or (keys, epoch) != (self._keys, self._epoch):
            if self._program is not None:
                self._program.close()
                self._program = None
            with self._device.record() as program:
                self._submit(keys)
            self._program, self._keys, self._epoch = program, keys, epoch
            self._next = None
        return self._program

    def run(self, position: int) -> None:
        """Run the step at `position`. Raises as `RecordedProgram.run`."""
        program = self.prepare(position)
        if self._next != position:
            self._go_to(position)
        self._next = None  # unknown if the device fails
        program.run()
        self._next = position + 1

    def forget(self) -> None:
        """Go to the position of the next step, wherever that is: other steps may leave values behind it."""
        self._next = None

    def _go_to(self, position: int) -> None:
        """Write the position, and zeros where a value of another text would be multiplied by a probability of
        zero: an infinity would make NaN of that."""
        self._position.copy_from(np.array([position], np.int32))
        for layer in range(len(self._values)):
            behind = self._values[layer, position : self._keys]
            behind.copy_from(np.zeros(behind.shape, behind.dtype))


class TokenStep(RunnableStep):
    """A step of one token, by a program that others share.

    Args:
        program: prepares the step at once.
    """

    def __init__(self, program: TokenProgram, position: int) -> None:
        self._program = program
        program.prepare(position)
        self._position = position

    def run(self, **inputs: NDArray[np.int32]) -> None:
        """Run it. Raises as `RecordedProgram.run`; TypeError for inputs, of which it has none."""
        if inputs:
            raise TypeError(f"the step of a token has no input, got {', '.join(inputs)}")
        self._program.run(self._position)


class PromptStep(RunnableStep):
    """A recorded step of tokens whose position is fixed.

    Args:
        program: has the input `ids`.
        token: the step that follows on the same cache.
    """

    def __init__(self, program: RecordedProgram, token: TokenProgram) -> None:
        self._program = program
        self._token = token

    def run(self, **inputs: NDArray[np.int32]) -> None:
        """Run it. Raises as `RecordedProgram.run`."""
        self._token.forget()
        self._program.run(**inputs)

    def close(self) -> None:
        """Free the recorded program."""
        self._program.close()
