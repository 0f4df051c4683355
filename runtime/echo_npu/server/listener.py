"""The socket at which a device server listens, one server at a path."""

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LOCK_WAIT_S: Final = 10.0
"""How long servers that start in one folder wait for each other."""

_POLL_S: Final = 0.05


class AddressInUseError(OSError):
    """Another server listens at the path."""


def listen(path: Path) -> socket.socket:
    """Return a listening socket at the path; one that no server listens to any more is replaced.

    Raises:
        AddressInUseError: another server listens there.
        OSError: the path cannot be used, or its folder was locked for LOCK_WAIT_S.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Without the lock, two servers may find a dead socket, and one removes what the other has made.
        with _locked(path.parent):
            _make_room(path)
            _bind(listener, path)
            listener.listen(64)
    except BaseException:
        listener.close()
        raise
    return listener


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder. It is the folder's own, so no file is left behind."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        end = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise OSError(f"the folder {folder} is locked by another process") from None
                time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _make_room(path: Path) -> None:
    """Remove the socket of a server that has died."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # the queue of a server that takes no connection may be full
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:
            pass
        except OSError as error:
            raise OSError(f"no socket can be made at {path}: {error.strerror}") from error
    raise AddressInUseError(f"a device server listens at {path} already")


def _bind(listener: socket.socket, path: Path) -> None:
    """Make the socket's file, which only this user can connect to."""
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError as error:
        reason = "it is a folder" if path.is_dir() else error.strerror or error
        raise OSError(f"no socket can be made at {path}: {reason}") from error
    finally:
        os.umask(before)
