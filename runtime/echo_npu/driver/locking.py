"""Let one thread at a time use a device, and only while it is open and in its own process."""

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator
from typing import Concatenate, ParamSpec, TypeVar

from echo_npu.backends.base import check_open

_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S", bound="Locked")


class Locked:
    """An object that several threads may use until it is closed."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other threads out for several calls; DeviceClosedError if the device cannot be used."""
        with self._lock:
            self._check_usable()
            yield

    def _check_usable(self) -> None:
        check_open(closed=self._closed, owner=self._pid)


def locked(method: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[_S, _P], _R]:
    """Make a method take the lock; it raises DeviceClosedError if the device cannot be used."""

    @functools.wraps(method)
    def wrapper(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self._lock:
            self._check_usable()
            return method(self, *args, **kwargs)

    return wrapper
