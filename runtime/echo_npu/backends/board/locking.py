"""Let one device at a time use a card."""

from echo_npu.backends.board.files import SystemFiles
from echo_npu.errors import NpuCardBusyError


def lock_card(files: SystemFiles, device: str, fd: int) -> None:
    """Lock a card by its own device file, until the file is closed or the process ends.

    The device file is the same for processes in different containers, and no lock file can be left behind.

    Raises:
        NpuCardBusyError: another open device, in this process or another one, has the lock.
    """
    try:
        files.lock(fd)
    except BlockingIOError:
        raise NpuCardBusyError(device, files.lock_holder(fd)) from None
