"""Let one device at a time use a card."""

import contextlib
from contextlib import ExitStack

from echo_npu.backends.board.files import SystemFiles
from echo_npu.errors import NpuCardBusyError, NpuCardError


def lock_card(files: SystemFiles, device: str, path: str, fd: int, stack: ExitStack) -> None:
    """Lock a card by one of its own device files, until `stack` ends or the process does.

    No lock file can be left behind. The lock belongs to the device file: containers that see the host's own
    file share it, and one that has made a node of its own for the device does not.

    Args:
        path: the device file, for errors.
        fd: its descriptor, of which there is no map: a map would keep the lock in a forked child.

    Raises:
        NpuCardBusyError: another open device, in this process or another one, has the lock.
        NpuCardError: the host has no lock for the file.
    """
    try:
        files.lock(fd)
    except BlockingIOError:
        holder = None
        with contextlib.suppress(OSError):  # a host may hide its locks
            holder = files.lock_holder(fd)
        raise NpuCardBusyError(device, holder, path) from None
    except OSError as error:
        raise NpuCardError(device, f"{path} cannot be locked: {error.strerror}") from error
    stack.callback(files.unlock, fd)  # a child that another library forks has the descriptor, too
