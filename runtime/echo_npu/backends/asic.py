"""An NPU as a PCIe device of its own, with its memory in the host, by VFIO."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from echo_npu.backends.base import check_whole
from echo_npu.backends.board.card import CardBackend
from echo_npu.backends.board.files import SystemFiles
from echo_npu.backends.board.options import CardOptions, check_clock, check_offset
from echo_npu.backends.board.transport import WINDOW_BYTES
from echo_npu.backends.board.vfio import VfioTransport
from echo_npu.errors import BackendError
from echo_npu.spec.memory_map import MEMORY_SIZE

_ADDRESS = r"([0-9a-f]{4}|[1-9a-f][0-9a-f]{4,7}):[0-9a-f]{2}:[01][0-9a-f]\.[0-7]"
"""As sysfs writes it: a domain of its own, such as that of a VMD, may have more than four digits."""


@dataclass(frozen=True, slots=True)
class AsicOptions(CardOptions):
    """The options of `echo_npu.open("asic", ...)` besides the configuration, which the device must have.

    Attributes:
        device: the PCI address, such as "0000:01:00.0"; None: ECHO_NPU_DEVICE.
        bar: the number of the BAR with the registers, 0..5.
        registers: offset of the register window in that BAR, bytes.
        iova: the address on the device's bus of the NPU's physical address 0.
        clock_mhz: the NPU's clock, by which time-outs in cycles become seconds.

    Raises: TypeError, ValueError: naming the option and its value.
    """

    device: str | None = None
    bar: int = 0
    registers: int = 0
    iova: int = 0
    clock_mhz: float = 1000.0

    def __post_init__(self) -> None:
        if self.device is not None and not isinstance(self.device, str):
            kind = type(self.device).__name__
            raise TypeError(f"device is {self.device!r} ({kind}); it must be a PCI address as text")
        if self.device is not None and not re.fullmatch(_ADDRESS, self.device):
            raise ValueError(f"device is {self.device!r}; it must be a PCI address such as 0000:01:00.0")
        check_whole("bar", self.bar, 0, 5)
        check_offset("registers", self.registers, 4, WINDOW_BYTES)
        check_offset("iova", self.iova, 4096, MEMORY_SIZE)
        check_clock(self.clock_mhz)

    def open(self, files: SystemFiles) -> VfioTransport:
        """Open the device.

        Raises:
            BackendError: no PCI address was given, or ECHO_NPU_DEVICE is none.
        """
        device = self.device or os.environ.get("ECHO_NPU_DEVICE") or ""
        if not re.fullmatch(_ADDRESS, device):
            raise BackendError(
                "the backend asic needs the PCI address of its device: open it with device='0000:01:00.0', "
                f"or set ECHO_NPU_DEVICE, which is {device!r}"
            )
        return VfioTransport(files, device, self.bar, self.registers, self.iova)


class AsicBackend(CardBackend):
    """The five primitives, on a PCIe device."""

    name = "asic"
    description = "a PCIe device by VFIO, with its memory in the host"
    word = "device"
    options_class = AsicOptions


BACKEND = AsicBackend
