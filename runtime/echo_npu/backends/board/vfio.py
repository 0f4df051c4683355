"""PCIe devices by VFIO: registers in a BAR, MSI-X by an eventfd, and host memory behind the IOMMU.

The classic interface is used: a container, which has the IOMMU, and the device's group in it. Every kernel
with VFIO has it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.backends.board import vfio_calls as vfio
from echo_npu.backends.board.descriptors import kept
from echo_npu.backends.board.events import take_event
from echo_npu.backends.board.files import SystemFiles
from echo_npu.backends.board.transfers import GONE, WordFile, allocated, lost, move, opened, retried
from echo_npu.backends.board.transport import WINDOW_BYTES, Transport
from echo_npu.backends.board.vfio_calls import VfioCall
from echo_npu.errors import (
    NpuCardBusyError,
    NpuCardError,
    NpuCardLostError,
    NpuCardMissingError,
    NpuCardPermissionError,
)
from echo_npu.spec.memory_map import MEMORY_SIZE

_CONTAINER: Final = "/dev/vfio/vfio"
_COMMAND: Final = 4  # offset of the PCI command register
_MEMORY_AND_MASTER: Final = 0b110
_COUNTER_BYTES: Final = 8  # of an eventfd


class VfioTransport(Transport):
    """A PCI function that the driver vfio-pci has.

    Device memory is memory of this process, pinned, and mapped so that the device sees it from `iova`.

    Args:
        files: the system calls.
        device: the PCI address, such as "0000:01:00.0".
        bar: the number of the BAR with the registers.
        registers: offset of the register window in that BAR, bytes.
        iova: the address on the device's bus of the NPU's physical address 0.

    Raises:
        NpuCardMissingError: no such PCI function, or it is in no IOMMU group, or vfio-pci does not have it.
        NpuCardPermissionError: so much memory may not be pinned.
        NpuCardBusyError: another process has the group.
        NpuCardError: VFIO lacks something; else as `opened` and `allocated`.
    """

    def __init__(self, files: SystemFiles, device: str, bar: int, registers: int, iova: int) -> None:
        self.device = device
        self._files = files
        self._iova = iova
        with contextlib.ExitStack() as stack:
            group = self._open_group(stack)
            container = opened(device, _CONTAINER, lambda: files.open(_CONTAINER))
            self._container = kept(files, container, stack)
            self._join(container, group)
            self._fd = kept(files, self._device_of(group), stack)
            window = self._region(bar, registers + WINDOW_BYTES) + registers
            self._config = self._region(vfio.PCI_CONFIG_REGION, _COMMAND + 2)
            # Calls, not a map: an access through a map would kill the process when the device has gone.
            self._words = WordFile(files, device, self._fd, window)
            self._event = kept(files, opened(device, "an eventfd", files.eventfd), stack)
            self._memory = allocated(files, device, MEMORY_SIZE)
            self._bytes = np.frombuffer(self._memory, np.uint8)
            self._resources = contextlib.ExitStack()
            self._stack = stack.pop_all()

    def _open_group(self, stack: contextlib.ExitStack) -> int:
        link = f"/sys/bus/pci/devices/{self.device}/iommu_group"
        try:
            number = self._files.link_name(link)
        except OSError as error:
            raise NpuCardMissingError(
                self.device, f"{link}: {error.strerror}; is the IOMMU enabled, and the address right?"
            ) from None
        path = f"/dev/vfio/{number}"
        try:
            group = opened(self.device, path, lambda: self._files.open(path))
        except NpuCardError as error:
            # The kernel lets a group be open once, so this is the lock.
            if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EBUSY:
                raise NpuCardBusyError(self.device, None, path) from None
            raise
        return kept(self._files, group, stack)

    def _join(self, container: int, group: int) -> None:
        version = self._call("the version of VFIO", container, VfioCall.GET_API_VERSION)
        if version != vfio.API_VERSION:
            raise NpuCardError(self.device, f"VFIO has version {version}; {vfio.API_VERSION} is known")
        if not self._call("the kind of IOMMU", container, VfioCall.CHECK_EXTENSION, vfio.TYPE1V2_IOMMU):
            raise NpuCardError(self.device, "VFIO has no IOMMU of type 1, version 2")
        status = vfio.request(vfio.GROUP_STATUS)
        self._call("the state of the group", group, VfioCall.GROUP_GET_STATUS, status)
        if not vfio.GROUP_STATUS.unpack(status)[1] & vfio.GROUP_VIABLE:
            raise NpuCardError(
                self.device, "its IOMMU group is not viable: bind every device of the group to vfio-pci"
            )
        number = bytearray(struct.pack("=i", container))
        self._call("joining the container", group, VfioCall.GROUP_SET_CONTAINER, number)
        self._call("setting the IOMMU", container, VfioCall.SET_IOMMU, vfio.TYPE1V2_IOMMU)

    def _device_of(self, group: int) -> int:
        name = bytearray(self.device.encode() + b"\0")
        try:
            return self._call("the device", group, VfioCall.GROUP_GET_DEVICE_FD, name)
        except NpuCardLostError:
            raise NpuCardMissingError(
                self.device, "its IOMMU group has no such device: is it bound to vfio-pci?"
            ) from None

    def _call(self, what: str, fd: int, call: VfioCall, argument: bytearray | int = 0) -> int:
        try:
            return retried(lambda: self._files.ioctl(fd, call, argument))
        except OSError as error:
            if error.errno in GONE:
                raise lost(self.device) from None
            raise NpuCardError(self.device, f"VFIO refused {what}: {error.strerror}") from error

    def _region(self, index: int, least: int) -> int:
        """Return where a region begins in the device's file; it has at least so many bytes."""
        facts = vfio.request(vfio.REGION_INFO, 0, index)
        self._call(f"region {index}", self._fd, VfioCall.DEVICE_GET_REGION_INFO, facts)
        _, flags, _, _, size, offset = vfio.REGION_INFO.unpack(facts[: vfio.REGION_INFO.size])
        both = vfio.REGION_READ | vfio.REGION_WRITE
        if size < least or flags & both != both:
            raise NpuCardError(
                self.device, f"region {index} has {size} bytes and flags {flags}; {least} are needed, {both}"
            )
        return int(offset)

    def identified(self) -> None:
        """Let the device reach its memory, and take its interrupt."""
        self._map_memory()
        self._set_event()
        command = bytearray(2)
        place = self._config + _COMMAND
        move(self._read_config, self.device, "configuration read", place, memoryview(command))
        value = int.from_bytes(command, "little") | _MEMORY_AND_MASTER
        data = memoryview(bytearray(value.to_bytes(2, "little")))
        move(self._write_config, self.device, "configuration write", place, data)

    def _read_config(self, buffer: memoryview, offset: int) -> int:
        return self._files.pread(self._fd, buffer, offset)

    def _write_config(self, buffer: memoryview, offset: int) -> int:
        return self._files.pwrite(self._fd, buffer, offset)

    def _map_memory(self) -> None:
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        flags = vfio.DMA_READ | vfio.DMA_WRITE
        argument = vfio.request(vfio.DMA_MAP, flags, start, self._iova, MEMORY_SIZE)
        try:
            self._call("mapping device memory", self._container, VfioCall.IOMMU_MAP_DMA, argument)
        except NpuCardError as error:
            cause = error.__cause__
            if isinstance(cause, OSError) and cause.errno in (errno.ENOMEM, errno.EPERM):
                raise NpuCardPermissionError(
                    self.device,
                    f"{MEMORY_SIZE >> 20} MiB of memory may not be pinned ({cause.strerror}): raise the "
                    "limit, ulimit -l",
                ) from None
            raise
        self._resources.callback(self._unmap_memory)

    def _unmap_memory(self) -> None:
        argument = vfio.request(vfio.DMA_UNMAP, 0, self._iova, MEMORY_SIZE)
        with contextlib.suppress(NpuCardError):  # closing the container unmaps it too
            self._call("unmapping device memory", self._container, VfioCall.IOMMU_UNMAP_DMA, argument)

    def _set_event(self) -> None:
        facts = vfio.request(vfio.IRQ_INFO, 0, vfio.PCI_MSIX_IRQ)
        self._call("facts about MSI-X", self._fd, VfioCall.DEVICE_GET_IRQ_INFO, facts)
        _, flags, _, count = vfio.IRQ_INFO.unpack(facts)
        if not count or not flags & vfio.IRQ_EVENTFD:
            raise NpuCardError(self.device, "the device has no MSI-X vector")
        argument = vfio.request(
            vfio.IRQ_SET,
            vfio.IRQ_DATA_EVENTFD | vfio.IRQ_TRIGGER,
            vfio.PCI_MSIX_IRQ,
            0,
            1,
            data=struct.pack("=i", self._event),
        )
        self._call("an eventfd for MSI-X", self._fd, VfioCall.DEVICE_SET_IRQS, argument)
        self._resources.callback(self._drop_event)

    def _drop_event(self) -> None:
        argument = vfio.request(vfio.IRQ_SET, vfio.IRQ_DATA_NONE | vfio.IRQ_TRIGGER, vfio.PCI_MSIX_IRQ, 0, 0)
        with contextlib.suppress(NpuCardError):  # closing the device does it too
            self._call("disabling MSI-X", self._fd, VfioCall.DEVICE_SET_IRQS, argument)

    def load(self, offset: int) -> int:
        return self._words.load(offset)

    def store(self, offset: int, value: int) -> None:
        self._words.store(offset, value)

    def read(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        return self._bytes[address : address + nbytes].copy()

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        self._bytes[address : address + data.size] = data

    def wait(self, seconds: float) -> bool:
        return take_event(self._files, self.device, self._event, _COUNTER_BYTES, seconds)

    def info(self) -> dict[str, Any]:
        return {"transport": "vfio", "device": self.device}

    def close(self) -> None:
        self._resources.close()
        self._stack.close()
        self._bytes = np.empty(0, np.uint8)  # unmapped from the device by now
        self._memory = memoryview(b"")
