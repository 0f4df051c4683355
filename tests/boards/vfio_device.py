"""A PCI function behind VFIO: what the container, the group, the device and the IOMMU answer."""

import ctypes
import errno
import os
import struct
import time

import numpy as np

from echo_npu.backends.board import vfio_calls as vfio
from echo_npu.backends.board.files import SystemFiles
from echo_npu.backends.board.vfio_calls import VfioCall
from echo_npu.backends.cmodel import CmodelBackend
from echo_npu.model.functional import FunctionalModel
from echo_npu.spec.memory_map import MEMORY_SIZE
from tests.boards.hardware import HardwareBehind
from tests.boards.xdma_card import Hook

DEVICE, GROUP = "0000:01:00.0", "/dev/vfio/17"
CONTAINER = "/dev/vfio/vfio"
COMMAND = 0x0502
"""The PCI command register as the host left it: memory space, and bits that are none of the runtime's."""
BAR_AT, CONFIG_AT = 0x0, 0x700_0000_0000  # offsets in the device's file


class VfioDevice(SystemFiles):
    """The calls of VFIO, answered here; eventfds, polls and memory are real.

    Every structure is taken apart as the kernel does it, from its bytes, and a wrong one is EINVAL or
    ENOTTY.

    Attributes:
        hook: a fault to inject, with the name of the ioctl, or "pread" and "pwrite", and the path.
        calls: ioctls so far, by name.
        viable, extension, flags, vectors, irq_flags, bar_size: what the device answers.
        command: the PCI command register.
        mapped: (iova, bytes) that the IOMMU maps.
    """

    def __init__(self, behind: HardwareBehind, registers: int = 0, bar: int = 0) -> None:
        self.behind = behind
        self.hook: Hook = lambda *_: None
        self.calls: list[str] = []
        self.viable, self.extension, self.version = True, 1, 0
        self.flags, self.vectors = vfio.REGION_READ | vfio.REGION_WRITE, 4
        self.irq_flags = vfio.IRQ_EVENTFD
        self.bar_size = registers + 0x1000
        self.command = COMMAND
        self.mapped: dict[int, int] = {}
        self._bar = bar
        self._registers = registers
        self._paths: dict[int, str] = {}
        self._joined: int | None = None
        self._iommu = False
        self._event: int | None = None
        behind.raised = self._interrupt

    @property
    def opened(self) -> list[str]:
        """The files that are open."""
        return list(self._paths.values())

    def _interrupt(self) -> None:
        if self._event is not None and self.command & 4:  # a message is a write of the device
            os.eventfd_write(self._event, 1)

    def open(self, path: str, *, synchronous: bool = False) -> int:
        self.hook("open", path, 0, 0)
        if path not in (GROUP, CONTAINER):
            raise OSError(errno.ENOENT, "No such file or directory")
        if path == GROUP and GROUP in self._paths.values():
            raise OSError(errno.EBUSY, "Device or resource busy")
        return self._new(path)

    def _new(self, path: str) -> int:
        fd = os.memfd_create("vfio", os.MFD_CLOEXEC)
        self._paths[fd] = path
        return fd

    def close(self, fd: int) -> None:
        path = self._paths.pop(fd, None)
        if path == CONTAINER:
            self.mapped.clear()
            self._joined = None
            self._iommu = False
        if path == DEVICE:
            self._event = None
            self.command &= ~4
        super().close(fd)

    def link_name(self, path: str) -> str:
        if path != f"/sys/bus/pci/devices/{DEVICE}/iommu_group":
            raise OSError(errno.ENOENT, "No such file or directory")
        return "17"

    # --- ioctls ---------------------------------------------------------------------------------------------

    def ioctl(self, fd: int, request: int, argument: bytearray | int = 0) -> int:
        call, path = VfioCall(request), self._paths[fd]
        self.calls.append(call.name)
        self.hook(call.name, path, 0, 0)
        if call in (VfioCall.GET_API_VERSION, VfioCall.CHECK_EXTENSION, VfioCall.SET_IOMMU):
            assert isinstance(argument, int)
            return self._container(path, call, argument)
        assert isinstance(argument, bytearray)
        if call in (VfioCall.IOMMU_MAP_DMA, VfioCall.IOMMU_UNMAP_DMA):
            return self._dma(path, call, argument)
        if call in (VfioCall.GROUP_GET_STATUS, VfioCall.GROUP_SET_CONTAINER, VfioCall.GROUP_GET_DEVICE_FD):
            return self._group(path, call, argument)
        assert path == DEVICE
        return self._device(call, argument)

    def _container(self, path: str, call: VfioCall, argument: int) -> int:
        assert path == CONTAINER
        if call == VfioCall.GET_API_VERSION:
            return self.version
        assert argument == 3  # VFIO_TYPE1v2_IOMMU
        if call == VfioCall.CHECK_EXTENSION:
            return self.extension
        if self._joined is None:  # an IOMMU needs a group
            raise OSError(errno.EINVAL, "Invalid argument")
        self._iommu = True
        return 0

    def _group(self, path: str, call: VfioCall, argument: bytearray) -> int:
        assert path == GROUP
        if call == VfioCall.GROUP_GET_STATUS:
            assert struct.unpack("=II", argument) == (8, 0)
            struct.pack_into("=I", argument, 4, int(self.viable) | 2 * (self._joined is not None))
            return 0
        if call == VfioCall.GROUP_SET_CONTAINER:
            (container,) = struct.unpack("=i", argument)
            assert self._paths[container] == CONTAINER
            self._joined = container
            return 0
        if not self._iommu:
            raise OSError(errno.EINVAL, "Invalid argument")
        if bytes(argument) != DEVICE.encode() + b"\0":
            raise OSError(errno.ENODEV, "No such device")
        return self._new(DEVICE)

    def _device(self, call: VfioCall, argument: bytearray) -> int:
        if call == VfioCall.DEVICE_GET_REGION_INFO:
            size, _, index, _, _, _ = struct.unpack("=IIIIQQ", argument)
            assert size == 32
            facts = {self._bar: (self.bar_size, BAR_AT), 7: (256, CONFIG_AT)}.get(index, (0, 0))
            struct.pack_into("=IIIIQQ", argument, 0, 32, self.flags, index, 0, *facts)
            return 0
        if call == VfioCall.DEVICE_GET_IRQ_INFO:
            size, _, index, _ = struct.unpack("=IIII", argument)
            assert (size, index) == (16, 2)
            struct.pack_into("=IIII", argument, 0, 16, self.irq_flags, 2, self.vectors)
            return 0
        assert call == VfioCall.DEVICE_SET_IRQS
        size, flags, index, start, count = struct.unpack_from("=IIIII", argument)
        assert (size, index, start) == (len(argument), 2, 0)
        if count == 0:
            assert flags == 1 | 1 << 5
            self._event = None
        else:
            assert (flags, count, size) == (1 << 2 | 1 << 5, 1, 24)
            (self._event,) = struct.unpack_from("=i", argument, 20)
        return 0

    def _dma(self, path: str, call: VfioCall, argument: bytearray) -> int:
        assert path == CONTAINER
        if call == VfioCall.IOMMU_UNMAP_DMA:
            size, flags, iova, length = struct.unpack("=IIQQ", argument)
            assert (size, flags) == (24, 0)
            assert self.mapped.pop(iova) == length
            return 0
        size, flags, address, iova, length = struct.unpack("=IIQQQ", argument)
        assert (size, flags, address % 4096, iova % 4096) == (32, 3, 0, 0)
        self.mapped[iova] = length
        self._attach(address, length)
        return 0

    def _attach(self, address: int, length: int) -> None:
        """Let the NPU behind work on the memory of the host that it was given."""
        assert length == MEMORY_SIZE
        backend = self.behind.backend
        assert isinstance(backend, CmodelBackend)
        backend.memory.bytes = np.ctypeslib.as_array((ctypes.c_uint8 * length).from_address(address))
        backend.model = FunctionalModel(backend.model._config, backend.memory)

    # --- the device's file ----------------------------------------------------------------------------------

    def pread(self, fd: int, buffer: memoryview, offset: int) -> int:
        most = self.hook("pread", self._paths[fd], offset, len(buffer))
        if offset == CONFIG_AT + 4:
            buffer[:] = self.command.to_bytes(2, "little")
        else:
            assert self._paths[fd] == DEVICE
            assert len(buffer) == 4
            buffer[:] = self.behind.load(offset - BAR_AT - self._registers).to_bytes(4, "little")
        return len(buffer) if most is None else most

    def pwrite(self, fd: int, data: memoryview, offset: int) -> int:
        most = self.hook("pwrite", self._paths[fd], offset, len(data))
        if most is None:
            value = int.from_bytes(data, "little")
            if offset == CONFIG_AT + 4:
                assert len(data) == 2
                self.command = value
            else:
                assert len(data) == 4
                self.behind.store(offset - BAR_AT - self._registers, value)
        return len(data) if most is None else most

    def poll(self, fd: int, seconds: float) -> int:
        self.hook("poll", "eventfd", 0, 0)
        end = time.monotonic() + seconds
        while True:
            self.behind.advance()
            if events := super().poll(fd, 0.001):
                return events
            if time.monotonic() >= end:
                return 0

    def read(self, fd: int, count: int) -> bytes:
        self.hook("read", "eventfd", 0, count)
        return super().read(fd, count)
