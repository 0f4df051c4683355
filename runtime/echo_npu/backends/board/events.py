"""Wait for an interrupt by a file that a driver makes readable."""

from __future__ import annotations

import select
from typing import Final

from echo_npu.backends.board.files import SystemFiles
from echo_npu.backends.board.transfers import failed, lost, retried

_BROKEN: Final = select.POLLERR | select.POLLHUP | select.POLLNVAL


def take_event(files: SystemFiles, device: str, fd: int, nbytes: int, seconds: float) -> bool:
    """Wait until a file is readable and read its counter; return whether it became readable in time.

    Args:
        nbytes: of the counter; drivers refuse to read any other number.

    Raises:
        NpuCardLostError: the card has vanished.
        NpuTransferError: poll or read failed, or the counter was cut short.
    """
    try:
        events = files.poll(fd, seconds)
        if events & _BROKEN:
            raise lost(device)
        if not events:
            return False
        count = len(retried(lambda: files.read(fd, nbytes)))
    except OSError as error:
        raise failed(device, "interrupt read", 0, 0, nbytes, error) from error
    if count != nbytes:
        raise failed(device, "interrupt read", 0, count, nbytes)
    return True
