"""PCIe cards with Xilinx' XDMA driver: registers, two DMA engines and an interrupt, a file each."""

from __future__ import annotations

import contextlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.backends.board.descriptors import kept
from echo_npu.backends.board.events import take_event
from echo_npu.backends.board.files import SystemFiles
from echo_npu.backends.board.locking import lock_card
from echo_npu.backends.board.transfers import (
    CHUNK,
    PAGE,
    Move,
    WordFile,
    allocated,
    chunk_size,
    move,
    opened,
)
from echo_npu.backends.board.transport import Transport

_EVENT_BYTES: Final = 4  # the driver refuses any other count


class XdmaTransport(Transport):
    """A card by `<device>_user`, `<device>_h2c_0`, `<device>_c2h_0` and `<device>_events_0`.

    Args:
        files: the system calls.
        device: what the names of the files begin with, such as "/dev/xdma0".
        registers: offset of the register window in the card's BAR, bytes.
        memory_base: where device memory begins in the address space of the card's DMA engines.

    Raises: as `opened`, `lock_card` and `allocated`.
    """

    def __init__(self, files: SystemFiles, device: str, registers: int, memory_base: int) -> None:
        self.device = device
        self._files = files
        self._base = memory_base
        with contextlib.ExitStack() as stack:
            path = f"{device}_user"
            user = kept(files, opened(device, path, lambda: files.open(path)), stack)
            lock_card(files, device, path, user, stack)
            self._fds = {}
            for name, write in (("h2c_0", True), ("c2h_0", False), ("events_0", False)):
                stream = f"{device}_{name}"
                fd = opened(device, stream, lambda: files.open_stream(stream, write=write))  # noqa: B023
                self._fds[name] = kept(files, fd, stack)
            self._words = WordFile(files, device, user, registers)
            # The driver demands that buffer and address are equally aligned, whatever the card's granularity.
            self._buffer = allocated(files, device, CHUNK)
            self._stack = stack.pop_all()

    def load(self, offset: int) -> int:
        return self._words.load(offset)

    def store(self, offset: int, value: int) -> None:
        self._words.store(offset, value)

    def read(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        result = np.empty(nbytes, np.uint8)
        done = 0
        while done < nbytes:
            part = self._part(self._base + address + done, nbytes - done)
            self._move(self._receive, "memory read", address, part, done, nbytes)
            result[done : done + len(part)] = part
            done += len(part)
        return result

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        done = 0
        while done < data.size:
            part = self._part(self._base + address + done, data.size - done)
            np.copyto(np.frombuffer(part, np.uint8), data[done : done + len(part)])
            self._move(self._send, "memory write", address, part, done, data.size)
            done += len(part)

    def _move(self, call: Move, what: str, address: int, part: memoryview, before: int, wanted: int) -> None:
        move(call, self.device, what, address, part, base=self._base, before=before, wanted=wanted)

    def _part(self, start: int, wanted: int) -> memoryview:
        """Return the part of the buffer for the next call, aligned as `start` is."""
        first = start % PAGE
        return self._buffer[first : first + chunk_size(start, wanted)]

    def _receive(self, buffer: memoryview, address: int) -> int:
        return self._files.pread(self._fds["c2h_0"], buffer, address)

    def _send(self, buffer: memoryview, address: int) -> int:
        return self._files.pwrite(self._fds["h2c_0"], buffer, address)

    def wait(self, seconds: float) -> bool:
        return take_event(self._files, self.device, self._fds["events_0"], _EVENT_BYTES, seconds)

    def info(self) -> dict[str, Any]:
        return {"transport": "xdma", "device": self.device}

    def close(self) -> None:
        self._stack.close()
