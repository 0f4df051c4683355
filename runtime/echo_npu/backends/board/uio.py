"""Boards on which processor and NPU share a chip: registers and interrupt by UIO, memory by u-dma-buf."""

from __future__ import annotations

import contextlib
import os.path
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.backends.board.descriptors import kept
from echo_npu.backends.board.events import take_event
from echo_npu.backends.board.files import SystemFiles
from echo_npu.backends.board.locking import lock_card
from echo_npu.backends.board.transfers import PAGE, WordMap, chunk_size, failed, move, opened, retried
from echo_npu.backends.board.transport import WINDOW_BYTES, Transport
from echo_npu.errors import NpuCardError
from echo_npu.spec.memory_map import MEMORY_SIZE, REGISTERS

_COUNT_BYTES: Final = 4  # of interrupts, in reads; of 1 for "enable", in writes
_LINE: Final = 64  # bytes of a cache line, and of a command's slot in the ring
_ENABLE: Final = (1).to_bytes(_COUNT_BYTES, "little")


def _kernels_name(file: str) -> str:
    """Return what sysfs calls a device file, which may be a link such as udev makes."""
    return os.path.basename(os.path.realpath(file))


class UioTransport(Transport):
    """A board by a UIO device and a u-dma-buf.

    Args:
        files: the system calls.
        device: the UIO device, such as "/dev/uio0"; its first map holds the registers.
        registers: offset of the register window in the map, bytes.
        memory_file: the u-dma-buf, such as "/dev/udmabuf0"; its first byte is the NPU's physical address 0.

    Raises:
        NpuCardError: a map or the buffer is too small; else as `opened` and `lock_card`.
    """

    def __init__(self, files: SystemFiles, device: str, registers: int, memory_file: str) -> None:
        self.device = device
        self._files = files
        self._memory_file = memory_file
        with contextlib.ExitStack() as stack:
            self._fd = kept(files, opened(device, device, lambda: files.open(device)), stack)
            lock_card(files, device, device, self._fd, stack)
            memory = opened(device, memory_file, lambda: files.open(memory_file, synchronous=True))
            self._memory = kept(files, memory, stack)
            lock_card(files, device, memory_file, self._memory, stack)
            self._words = WordMap(self._window(registers))
            self._physical = self._checked_buffer()
            self._stack = stack.pop_all()

    def _window(self, registers: int) -> memoryview:
        folder = f"/sys/class/uio/{_kernels_name(self.device)}/maps/map0"
        hint = f"is {self.device} a UIO device?"
        size = self._fact(f"{folder}/size", hint)
        start = self._fact(f"{folder}/offset", hint) + registers
        end = min(start + REGISTERS.size, size)
        if end - start < WINDOW_BYTES:
            raise NpuCardError(
                self.device,
                f"its first map has {size} bytes: no register window of {WINDOW_BYTES} fits at {start}",
            )
        # A map keeps its file open, in forked children too. So it is of another open file than the lock.
        fd = opened(self.device, self.device, lambda: self._files.open(self.device))
        try:
            view = self._files.map(fd, -(-end // PAGE) * PAGE, 0)
        except (OSError, ValueError) as error:
            raise NpuCardError(self.device, f"its first map cannot be mapped: {error}") from error
        finally:
            self._files.close(fd)
        return view[start : start + (end - start) // 4 * 4]

    def _checked_buffer(self) -> int:
        """Return the physical address of the buffer, for people."""
        folder = f"/sys/class/u-dma-buf/{_kernels_name(self._memory_file)}"
        hint = f"is {self._memory_file} a u-dma-buf?"
        size = self._fact(f"{folder}/size", hint)
        if size < MEMORY_SIZE:
            raise NpuCardError(
                self.device, f"{self._memory_file} has {size} bytes; device memory takes {MEMORY_SIZE}"
            )
        return self._fact(f"{folder}/phys_addr", hint)

    def _fact(self, path: str, hint: str) -> int:
        try:
            return int(self._files.read_text(path), 0)
        except (OSError, ValueError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or error
            raise NpuCardError(self.device, f"{path} cannot be read: {reason}; {hint}") from error

    def load(self, offset: int) -> int:
        return self._words.load(offset)

    def store(self, offset: int, value: int) -> None:
        self._words.store(offset, value)

    def read(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        result = np.empty(nbytes, np.uint8)
        self._move(self._files.pread, "memory read", address, result.data)
        return result

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Write device memory in whole cache lines.

        The driver cleans the processor's cache behind a write, but does not invalidate it before: a line
        that is written in part would take old bytes beside it to memory, where the NPU may have written.
        """
        if not data.size:
            return
        before, after = address % _LINE, -(address + data.size) % _LINE
        whole = np.empty(before + data.size + after, np.uint8)
        if before:
            whole[:_LINE] = self.read(address - before, _LINE)
        if after:
            whole[-_LINE:] = self.read(address + data.size + after - _LINE, _LINE)
        whole[before : before + data.size] = data
        self._move(self._files.pwrite, "memory write", address - before, whole.data)

    def _move(
        self, call: Callable[[int, memoryview, int], int], what: str, address: int, buffer: memoryview
    ) -> None:
        done = 0
        while done < len(buffer):
            size = chunk_size(address + done, len(buffer) - done)
            move(
                lambda part, place: call(self._memory, part, place),
                self.device,
                what,
                address,
                buffer[done : done + size],
                before=done,
                wanted=len(buffer),
            )
            done += size

    def arm(self) -> None:
        # The driver disables the interrupt at the host whenever it comes, since it stays high until
        # IRQ_STATUS is cleared.
        try:
            count = retried(lambda: self._files.write(self._fd, _ENABLE))
        except OSError as error:
            raise failed(self.device, "interrupt enable", 0, 0, _COUNT_BYTES, error) from error
        if count != _COUNT_BYTES:
            raise failed(self.device, "interrupt enable", 0, count, _COUNT_BYTES)

    def wait(self, seconds: float) -> bool:
        return take_event(self._files, self.device, self._fd, _COUNT_BYTES, seconds)

    def info(self) -> dict[str, Any]:
        return {
            "transport": "uio",
            "device": self.device,
            "memory_file": self._memory_file,
            "memory_physical_address": self._physical,
        }

    def close(self) -> None:
        self._words = WordMap(memoryview(b""))  # a map ends with its last user
        self._stack.close()
