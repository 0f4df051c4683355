"""`torch.Event` for a device with one stream."""

from typing import Any, Final

import torch

from echo_npu.torch import devices

_PlainEvent: Final[Any] = torch.Event


class Event(_PlainEvent):  # type: ignore[misc]
    """`torch.Event`, whose functions also work for the device "echo_npu"; times are cycles."""

    def __new__(cls, device: Any = None, *, enable_timing: bool = False, **others: Any) -> Any:
        """Make an event; arguments as for `torch.Event`."""
        return _PlainEvent.__new__(cls, device, enable_timing=enable_timing, **others)

    def __init__(self, device: Any = None, *, enable_timing: bool = False, **others: Any) -> None:
        self._timed = enable_timing
        self._cycles: int | None = None

    def record(self, stream: Any = None) -> None:
        """Note the place in the stream; with `enable_timing`, wait for it and note the cycle."""
        _PlainEvent.record(self, *([] if stream is None else [stream]))
        if self._timed and self.device.type == "echo_npu":
            self.synchronize()
            self._cycles = devices.opened(self.device.index).npu.counters()["cycles"]

    def synchronize(self) -> None:
        """Let everything run that was launched."""
        if self.device.type == "echo_npu":
            devices.opened(self.device.index).synchronize()
        else:
            _PlainEvent.synchronize(self)

    def elapsed_time(self, end: Any) -> float:
        """Return the device's cycles between two events; 0.0 on a backend without cycles.

        Raises:
            ValueError: events that were not recorded, or were made without `enable_timing`.
        """
        if self.device.type != "echo_npu":
            return float(_PlainEvent.elapsed_time(self, end))
        last = getattr(end, "_cycles", None)
        if self._cycles is None or last is None:
            raise ValueError("both events must be recorded and made with enable_timing=True")
        return float(last - self._cycles)
