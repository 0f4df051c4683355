"""`torch.Stream` for a device with one stream."""

from typing import Any, Final

import torch

from echo_npu.torch.events import Event

_PlainStream: Final[Any] = torch.Stream
_current_plain: Final[Any] = torch._C._accelerator_getStream


class _AnyStream(type(_PlainStream)):  # type: ignore[misc]
    """Counts the streams that PyTorch itself makes, and those of other devices, as streams."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _PlainStream)


class OrderedStream(_PlainStream, metaclass=_AnyStream):  # type: ignore[misc]
    """`torch.Stream`, whose events also work for the device "echo_npu"."""

    def record_event(self, event: Any = None) -> Any:
        """Record an event at this place, a new one if none is given, and return it."""
        made = Event(self.device) if event is None else event
        made.record(self)
        return made


def current(index: int) -> Any:
    """Return the current stream of a device."""
    plain = _current_plain(index)
    return OrderedStream(
        stream_id=plain.stream_id, device_index=plain.device_index, device_type=plain.device_type
    )
