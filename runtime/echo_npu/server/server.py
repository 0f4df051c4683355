"""The device server: a socket, a thread for each client, a device for each client that opens one."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from echo_npu.device import Device
from echo_npu.errors import NpuError, RtlMismatchError
from echo_npu.server import protocol
from echo_npu.server.link import ClientGoneError, Link, same_user
from echo_npu.server.listener import listen
from echo_npu.server.places import make_folder
from echo_npu.server.protocol import AnswerStatus, ProtocolError, RequestKind
from echo_npu.server.session import DeviceSession, RefusedError

MOST_CONNECTIONS: Final = 256
"""Connections at a time, each with a thread. The next one is ended at once."""

_POLL_S: Final = 0.2
_LOG: Final = logging.getLogger(__name__)


class _DevicePlace:
    """A device of the server: opened for its first client, lent to one client at a time.

    Attributes: differs (whether the RTL did something else than the functional model).
    """

    def __init__(self, make: Callable[[], Device]) -> None:
        self.differs = False
        self._make = make
        self._device: Device | None = None
        self._lock = threading.Lock()

    def take(self, watch: Callable[[], None]) -> DeviceSession | None:
        """Return a session on the device; None while another client has it.

        Args:
            watch: as of the session.

        Raises:
            NpuError: it cannot be opened.
            RefusedError: it cannot be lent.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            if self._device is None:
                self._device = self._make()
            return DeviceSession(self._device, watch)
        except BaseException:
            self._lock.release()
            raise

    def give_back(self, session: DeviceSession) -> None:
        """End a session. A device that no longer works is opened again for the next client."""
        try:
            session.close()
        except NpuError as error:
            self.differs |= isinstance(error, RtlMismatchError)
            _LOG.warning("the device is opened anew: %s", error)
            self._close()
        finally:
            self._lock.release()

    def _close(self) -> None:
        device, self._device = self._device, None
        if device is not None:
            with contextlib.suppress(NpuError):
                device.close()

    def end(self) -> None:
        """Close the device, after its client has ended."""
        with self._lock:
            self._close()


class DeviceServer:
    """Listens at a path and serves clients until `stop()`.

    Args:
        path: of the socket; its folder is made.
        makers: a function for each device, which opens it.
        idle_seconds: end by itself when there was no client for so long; None: never.
        stop: an event that ends it as `stop()` does; a signal handler may set it.

    Raises:
        AddressInUseError: another server listens there.
        OSError: the path cannot be used.
    """

    def __init__(
        self,
        path: Path,
        makers: Sequence[Callable[[], Device]],
        *,
        idle_seconds: float | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        self.path = path
        self._places = [_DevicePlace(make) for make in makers]
        self._idle_seconds = idle_seconds
        self._stopping = stop or threading.Event()
        self._connections: set[socket.socket] = set()
        self._threads: set[threading.Thread] = set()
        self._guard = threading.Lock()
        make_folder(path)
        self._listener = listen(path)
        self._inode: int | None = os.stat(path).st_ino

    @property
    def differs(self) -> bool:
        """Whether the RTL of a device did something else than the functional model."""
        return any(place.differs for place in self._places)

    def serve(self) -> None:
        """Serve until `stop()` or until idle; close all devices and remove the socket."""
        self._listener.settimeout(_POLL_S)
        idle_since = time.monotonic()
        try:
            while not self._stopping.is_set():
                try:
                    connection, _ = self._listener.accept()
                except TimeoutError:
                    if self._threads:
                        idle_since = time.monotonic()
                    elif (
                        self._idle_seconds is not None and time.monotonic() - idle_since > self._idle_seconds
                    ):
                        break
                    continue
                except OSError as error:  # no descriptor is left, for example
                    _LOG.warning("a connection is not accepted: %s", error)
                    self._stopping.wait(_POLL_S)
                    continue
                idle_since = time.monotonic()
                if len(self._threads) >= MOST_CONNECTIONS:
                    _LOG.warning("a connection is ended: there are %d", MOST_CONNECTIONS)
                    connection.close()
                    continue
                thread = threading.Thread(target=self._client, args=(connection,), daemon=True)
                with self._guard:
                    self._threads.add(thread)
                    self._connections.add(connection)
                thread.start()
        finally:
            self._end()

    def stop(self) -> None:
        """Have `serve` return when the requests under way are answered."""
        self._stopping.set()

    def remove_socket(self) -> None:
        """Remove the socket, unless another server has made its own there. Idempotent."""
        with contextlib.suppress(OSError):
            if self._inode is not None and os.stat(self.path).st_ino == self._inode:
                os.unlink(self.path)
        self._inode = None  # the next server's socket may have the same number

    def _end(self) -> None:
        self.remove_socket()
        self._listener.close()
        with self._guard:
            threads, connections = list(self._threads), list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RD)  # the answer under way can still be sent
        for thread in threads:
            thread.join()
        for place in self._places:
            place.end()

    # --- a client -------------------------------------------------------------------------------------------

    def _client(self, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(OSError):
                if same_user(connection):
                    self._converse(Link(connection))
        finally:
            with self._guard:
                self._connections.discard(connection)
                self._threads.discard(threading.current_thread())

    def _converse(self, link: Link) -> None:
        held: tuple[_DevicePlace, DeviceSession] | None = None
        greeted = False
        try:
            while not self._stopping.is_set() and (message := link.receive()) is not None:
                kind, data = message
                try:
                    if kind == RequestKind.HELLO:
                        link.send(AnswerStatus.OK, self._hello(data))
                        greeted = True
                    elif not greeted:
                        raise ProtocolError("the first request is HELLO")
                    elif kind == RequestKind.OPEN:
                        if held is not None:
                            raise ProtocolError("this connection has a device already")
                        held = self._open(data, link)
                        facts, descriptor = held[1].opened()
                        link.send(AnswerStatus.OK, facts, [descriptor])
                    elif held is None:
                        raise ProtocolError(f"a request of kind {kind} before a device is open")
                    else:
                        link.send(AnswerStatus.OK, held[1].answer(kind, data))
                except RefusedError as refused:
                    _LOG.info("refused: %s", refused)
                    link.refuse(refused.status, str(refused))
        except ProtocolError as error:
            _LOG.warning("a client broke the protocol: %s", error)
            link.refuse(AnswerStatus.BAD_MESSAGE, str(error))
        except ClientGoneError:
            _LOG.info("a client has ended in the middle of its request")
        finally:
            if held is not None:
                held[0].give_back(held[1])

    def _hello(self, data: memoryview) -> bytes:
        version, _ = protocol.unpack(protocol.HELLO, data)
        if version != protocol.VERSION:
            raise RefusedError(
                AnswerStatus.BAD_VERSION,
                f"the client speaks version {version} of the protocol, the server {protocol.VERSION}: "
                "build the client again, or restart the server",
            )
        return protocol.HELLO.pack(protocol.VERSION, len(self._places))

    def _open(self, data: memoryview, link: Link) -> tuple[_DevicePlace, DeviceSession]:
        (number,) = protocol.unpack(protocol.NUMBER, data)
        if number >= len(self._places):
            raise RefusedError(AnswerStatus.BAD_ARGUMENT, f"device {number} of {len(self._places)}")
        place = self._places[number]
        try:
            session = place.take(link.check_alive)
        except (NpuError, ValueError, TypeError) as error:
            raise RefusedError(
                AnswerStatus.DEVICE_FAILED, f"device {number} cannot be opened: {error}"
            ) from None
        if session is None:
            raise RefusedError(AnswerStatus.DEVICE_IN_USE, f"device {number} is in use by another client")
        return place, session
