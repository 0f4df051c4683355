"""The device guard that PyTorch asks for the type of the device, and the errors that would end it.

PyTorch asks while it leaves a backward pass, with the exception of a hook still pending. A Python function
that returns then fails, in a destructor, which ends the process. So the exception is set aside, and
`raise_pending` raises it where the backward pass has ended.
"""

from collections import deque
from functools import partial
from typing import Final

import torch

_probe: Final = partial(bool)
"""A call that fails while an exception is pending, and takes next to no time. A call of a builtin does not
fail, once the interpreter has learnt to make it without a check."""

_pending: Final[deque[BaseException]] = deque(maxlen=16)


class Guard(torch._C._acc.DeviceGuard):
    """Answers that the device is one, of PyTorch's private type."""

    def type_(self) -> torch._C._autograd.DeviceType:  # type: ignore[override]
        """Return the type of the device. Set a pending exception aside."""
        try:
            _probe()
        except SystemError as error:
            if error.__cause__ is not None:
                _pending.append(error.__cause__)
        return torch._C._autograd.DeviceType.PrivateUse1


def raise_pending() -> None:
    """Raise the exception that was set aside, if there is one."""
    if _pending:
        raise _pending.popleft()
