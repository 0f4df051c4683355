"""The five primitives of a backend, on a card that a transport reaches."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Final, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from echo_npu.backends.base import Backend, check_open, check_register, refuse_options
from echo_npu.backends.board.files import SystemFiles
from echo_npu.backends.board.options import CardOptions
from echo_npu.backends.board.transport import Transport
from echo_npu.errors import (
    NpuBusError,
    NpuCardError,
    NpuCardIdentityError,
    NpuCardLostError,
    NpuCardResetError,
    NpuInterruptLostError,
    NpuPointerError,
)
from echo_npu.model.constants import constant_registers
from echo_npu.model.memory import memory_map_of
from echo_npu.spec import registers as regs
from echo_npu.spec.memory_map import MEMORY_SIZE
from echo_npu.spec.status import ALL_IRQS, State
from echo_sim.config import NpuConfig, load_config

_ALL_ONES: Final = 0xFFFF_FFFF
"""What a read over PCIe returns when nothing answers."""
_LATE_S: Final = 1.0
"""How long an interrupt may take from the card to this process on a busy host."""

_LONGEST_WAIT_S: Final = 3600.0
"""The longest wait of one system call: poll takes up to 2^31 ms."""
_MOST_CYCLES: Final = 1 << 62
"""A time-out beyond is that long: the time in seconds stays a float that has a meaning."""

_RESET_S: Final = 10.0
"""How long a soft reset may take, which waits for what the memory has to end."""
_KEPT: Final = (
    regs.IRQ_ENABLE,
    regs.WATCHDOG,
    regs.AXI_PROT,
    regs.RING_BASE,
    regs.RING_SIZE,
    regs.GUARD_BASE,
    regs.GUARD_SIZE,
)
"""What a soft reset keeps."""


def _offsets(*, readable: bool) -> Iterator[int]:
    for register in regs.REGISTERS.values():
        if register.readable if readable else register.writable:
            for index in range(register.count):
                start = register.offset + index * register.stride
                yield from range(start, start + register.width // 8, 4)


_READABLE: Final = frozenset(_offsets(readable=True))
_WRITABLE: Final = frozenset(_offsets(readable=False))


def _version(value: int) -> tuple[int, int]:
    return regs.VERSION_MAJOR.get(value), regs.VERSION_MINOR.get(value)


class CardBackend(Backend):
    """A real device.

    Accesses to registers that the device would refuse are refused here, because a PCIe write has no answer
    and a refused read returns all ones. So NpuBusError is the same on every backend.

    A card that has vanished or was reset stays unusable until it is opened again: every later call raises
    such an error again. After `close()`, and in a forked child, every call raises DeviceClosedError.

    Args:
        transport: the opened card; this closes it, at once if the card is refused.
        config: what must be behind it.
        clock_mhz: the NPU's clock, by which time-outs in cycles become seconds.

    Raises:
        ValueError: the configuration has memory above 4 GiB, which no transport reaches.
        NpuCardError: the card does not become idle.
        NpuCardIdentityError: a constant register has another value than `config` says. Nothing is written
            before all of them were read.
    """

    has_cycles = True
    word: ClassVar[str] = "card"
    options_class: ClassVar[type[CardOptions]]

    @classmethod
    def open(cls, config: str, options: Mapping[str, Any]) -> Self:
        return cls.open_with(SystemFiles(), config, options)

    @classmethod
    def open_with(cls, files: SystemFiles, config: str, options: Mapping[str, Any]) -> Self:
        """Do as `open` through given system calls."""
        refuse_options(cls.name, options, [option.name for option in fields(cls.options_class)])
        chosen, loaded = cls.options_class(**options), load_config(config)
        return cls(chosen.open(files), loaded, chosen.clock_mhz)

    def __init__(self, transport: Transport, config: NpuConfig, clock_mhz: float) -> None:
        self.transport = transport
        if memory_map_of(config).is_large:
            transport.close()
            raise ValueError(f"configuration {config.name}: no board has memory above 4 GiB")
        self._hz = clock_mhz * 1e6
        self._owner, self._closed = os.getpid(), False
        self._failure: NpuCardError | None = None
        # What IRQ_ENABLE may hold, which only a reset of the card zeroes: what was written to it. After a
        # write that failed, nobody knows whether it arrived.
        self._enabled = {0}
        try:
            self._identify(config)
            transport.identified()
            self._start_afresh()
        except BaseException:
            transport.close()
            raise

    def _identify(self, config: NpuConfig) -> None:
        device = self.transport.device
        for offset, expected in constant_registers(config).items():
            value = self.transport.load(offset)
            if value == expected:
                continue
            if offset == regs.ID:
                why = "nothing answers" if value == _ALL_ONES else f"an ECHO NPU has 0x{expected:08x}"
                raise NpuCardIdentityError(device, f"register ID reads 0x{value:08x}: {why}")
            if offset == regs.VERSION:
                (major, minor), (known, least) = _version(value), _version(expected)
                if major == known and minor >= least:
                    continue  # minor versions only add
                raise NpuCardIdentityError(
                    device,
                    f"the device has version {major}.{minor}; this runtime knows version {known}, from "
                    f"{known}.{least} on",
                )
            raise NpuCardIdentityError(
                device,
                f"register {regs.NAMES[offset]} reads 0x{value:08x}; configuration {config.name} has "
                f"0x{expected:08x}. Open the device with the configuration that the card was built from",
            )

    def _start_afresh(self) -> None:
        """Bring a card that its last user may have left in any state to the state after power-on."""
        self.transport.store(regs.CONTROL, regs.CONTROL_SOFT_RESET.mask)
        end = time.monotonic() + _RESET_S
        while regs.STATUS_STATE.get(self._load(regs.STATUS)) != State.IDLE:
            if time.monotonic() > end:
                raise NpuCardError(
                    self.transport.device,
                    f"the {self.word} did not become idle within {_RESET_S:g} s after a soft reset: its "
                    "memory does not end what was begun",
                )
        for offset in _KEPT:
            self.transport.store(offset, 0)
        self.transport.store(regs.IRQ_STATUS, ALL_IRQS)

    def read_reg(self, offset: int) -> int:
        check_register(offset)
        self._check_usable()
        if offset not in _READABLE:
            raise NpuBusError(offset, "read")
        return self._load(offset)

    def write_reg(self, offset: int, value: int) -> None:
        check_register(offset, value)
        self._check_usable()
        if offset not in _WRITABLE:
            raise NpuBusError(offset, "write")
        enabled = {value & ALL_IRQS} if offset == regs.IRQ_ENABLE else self._enabled
        self._enabled = self._enabled | enabled
        try:
            self.transport.store(offset, value)
        except NpuCardLostError as error:
            self._give_up(error)
        self._enabled = enabled

    def read_mem(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        self._check_range(address, nbytes)
        self._check_usable()
        try:
            return self.transport.read(address, nbytes)
        except NpuCardLostError as error:
            self._give_up(error)

    def write_mem(self, address: int, data: NDArray[np.uint8]) -> None:
        self._check_range(address, data.size)
        self._check_usable()
        try:
            self.transport.write(address, data)
        except NpuCardLostError as error:
            self._give_up(error)

    def wait_irq(self, timeout_cycles: int) -> bool:
        self._check_usable()
        deadline = time.monotonic() + min(max(timeout_cycles, 0), _MOST_CYCLES) / self._hz
        try:
            while not self._is_high():
                self.transport.arm()
                left = deadline - time.monotonic()
                if left <= 0:
                    return self._high_after_all()
                if not self.transport.wait(min(left, _LONGEST_WAIT_S)) and left <= _LONGEST_WAIT_S:
                    return self._high_after_all()
        except NpuCardLostError as error:
            self._give_up(error)
        return True

    def _high_after_all(self) -> bool:
        """Return whether the interrupt is high after the time; NpuInterruptLostError if no event tells."""
        if not self._is_high():
            return False
        if not self.transport.wait(_LATE_S):
            raise NpuInterruptLostError(
                self.transport.device,
                f"the interrupt is high on the {self.word}, but no event arrived within {_LATE_S:g} s",
            )
        return True

    def _is_high(self) -> bool:
        status, enable = self._load(regs.IRQ_STATUS), self._load(regs.IRQ_ENABLE)
        if enable not in self._enabled:
            expected = " or ".join(map(str, sorted(self._enabled)))
            self._give_up(
                NpuCardResetError(
                    self.transport.device,
                    f"IRQ_ENABLE reads {enable} in place of {expected}: something else has reset the "
                    f"{self.word}. Its state and memory are lost; close the device and open it again",
                )
            )
        self._enabled = {enable}
        return bool(status & enable)

    def _load(self, offset: int) -> int:
        try:
            value = self.transport.load(offset)
            if value == _ALL_ONES and self.transport.load(regs.ID) != regs.REGISTERS["ID"].reset:
                self._give_up(
                    NpuCardLostError(
                        self.transport.device,
                        f"the {self.word} does not answer any more: reads return all ones",
                    )
                )
        except NpuCardLostError as error:
            self._give_up(error)
        return value

    def _check_range(self, address: int, nbytes: int) -> None:
        if nbytes < 0 or address < 0 or address + nbytes > MEMORY_SIZE:
            end = address + nbytes
            raise NpuPointerError(
                f"[0x{address:08x}, 0x{end:08x}) leaves memory, which ends at 0x{MEMORY_SIZE:08x}"
            )

    def _check_usable(self) -> None:
        check_open(closed=self._closed, owner=self._owner)
        if self._failure is not None:
            raise _once_more(self._failure)

    def _give_up(self, error: NpuCardError) -> NoReturn:
        self._failure = error
        raise error

    @property
    def reset_cycles(self) -> int:
        return math.ceil(_RESET_S * self._hz)

    def info(self) -> dict[str, Any]:
        return {"card": self.transport.info()}

    @property
    def waves_hint(self) -> str:
        return "No waveform of hardware: the same program on the backend rtlmodel, with waves=True, has one."

    def close(self) -> None:
        self._closed = True
        if os.getpid() == self._owner:  # the parent of a forked child goes on with it
            self.transport.close()


def _once_more(error: NpuCardError) -> NpuCardError:
    """Return an equal error: one that is raised twice would show where it was raised both times."""
    equal = type(error).__new__(type(error), *error.args)
    vars(equal).update(vars(error))
    return equal
