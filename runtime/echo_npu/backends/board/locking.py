"""Let one device at a time use a card."""

from contextlib import ExitStack

from echo_npu.backends.board.files import SystemFiles
from echo_npu.errors import NpuCardBusyError


def lock_card(files: SystemFiles, device: str, fd: int, stack: ExitStack) -> None:
    """Lock a card by its own device file, until `stack` ends or the process does.

    The device file is the same for processes in different containers, and no lock file can be left behind.

    Raises:
        NpuCardBusyError: another open device, in this process or another one, has the lock.
    """
    try:
        files.lock(fd)
    except BlockingIOError:
        raise NpuCardBusyError(device, files.lock_holder(fd)) from None
    stack.callback(files.unlock, fd)  # a map has a descriptor of its own, which would keep the lock
