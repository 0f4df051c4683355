"""An NPU in an FPGA: a PCIe card with the XDMA driver, or a board whose processor shares the chip."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal, get_args

from echo_npu.backends.board.card import CardBackend
from echo_npu.backends.board.files import SystemFiles
from echo_npu.backends.board.options import CardOptions, check_clock, check_offset, check_path
from echo_npu.backends.board.transport import WINDOW_BYTES, Transport
from echo_npu.backends.board.uio import UioTransport
from echo_npu.backends.board.xdma import XdmaTransport
from echo_npu.errors import BackendError
from echo_npu.spec.memory_map import MEMORY_SIZE

Way = Literal["xdma", "uio"]
_DEFAULTS: dict[str, str] = {"xdma": "/dev/xdma0", "uio": "/dev/uio0"}
_MEMORY_FILE = "/dev/udmabuf0"


@dataclass(frozen=True, slots=True)
class FpgaOptions(CardOptions):
    """The options of `echo_npu.open("fpga", ...)` besides the configuration, which the card must have.

    Attributes:
        transport: "xdma" or "uio"; None: ECHO_NPU_TRANSPORT, else xdma.
        device: xdma: what the names of the driver's files begin with; uio: the UIO device. None:
            ECHO_NPU_DEVICE, else /dev/xdma0 or /dev/uio0.
        registers: offset of the register window in the card's BAR, or in the first UIO map, bytes.
        memory_base: xdma: where device memory begins in the address space of the DMA engines.
        memory_file: uio: the u-dma-buf that is device memory; None: /dev/udmabuf0.
        clock_mhz: the NPU's clock, by which time-outs in cycles become seconds.

    Raises: TypeError, ValueError: naming the option and its value.
    """

    transport: Way | None = None
    device: str | None = None
    registers: int = 0
    memory_base: int = 0
    memory_file: str | None = None
    clock_mhz: float = 100.0

    def __post_init__(self) -> None:
        if self.transport is not None and not isinstance(self.transport, str):
            kind = type(self.transport).__name__
            raise TypeError(
                f"transport is {self.transport!r} ({kind}); it is one of {', '.join(get_args(Way))}"
            )
        if self.transport is not None and self.transport not in get_args(Way):
            raise ValueError(f"transport is {self.transport!r}; it is one of {', '.join(get_args(Way))}")
        for name in ("device", "memory_file"):
            if (value := getattr(self, name)) is not None:
                check_path(name, value)
        check_offset("registers", self.registers, 4, WINDOW_BYTES)
        check_offset("memory_base", self.memory_base, 4096, MEMORY_SIZE)
        check_clock(self.clock_mhz)

    def way(self) -> Way:
        """Return the transport to use.

        Raises:
            BackendError: ECHO_NPU_TRANSPORT names one that does not exist.
        """
        chosen = self.transport or os.environ.get("ECHO_NPU_TRANSPORT") or "xdma"
        for known in get_args(Way):
            if chosen == known:
                way: Way = known
                return way
        raise BackendError(f"there is no transport {chosen!r}; they are {', '.join(get_args(Way))}")

    def open(self, files: SystemFiles) -> Transport:
        """Open the card.

        Raises:
            ValueError: an option of the other transport, or one file for registers and memory.
        """
        way = self.way()
        device = self.device or os.environ.get("ECHO_NPU_DEVICE") or _DEFAULTS[way]
        if way == "xdma":
            if self.memory_file is not None:
                raise ValueError(f"memory_file is {self.memory_file!r}; the transport xdma has no such file")
            return XdmaTransport(files, device, self.registers, self.memory_base)
        if self.memory_base:
            raise ValueError(f"memory_base is {self.memory_base}; a buffer of the transport uio has none")
        memory_file = _MEMORY_FILE if self.memory_file is None else self.memory_file
        if os.path.realpath(memory_file) == os.path.realpath(device):
            raise ValueError(
                f"memory_file is {memory_file!r}, as is device: registers and memory are two files"
            )
        return UioTransport(files, device, self.registers, memory_file)


class FpgaBackend(CardBackend):
    """The five primitives, on a card or board."""

    name = "fpga"
    description = "an FPGA card by Xilinx' XDMA driver, or a board by UIO and u-dma-buf"
    options_class = FpgaOptions


BACKEND = FpgaBackend
