"""The exceptions of the runtime. Each has the facts as attributes and in its message."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from echo_npu.spec.status import NpuStatus, error_name


class NpuError(Exception):
    """Base of every error of the NPU, its memory or its simulator."""


class NpuOutOfMemoryError(NpuError, MemoryError):
    """A region has no free block that is large enough.

    Attributes: region (name), asked (bytes), largest_free_block (bytes).
    """

    def __init__(self, region: str, asked: int, largest_free_block: int) -> None:
        self.region = region
        self.asked = asked
        self.largest_free_block = largest_free_block
        super().__init__(
            f"out of memory in the {region} region: asked for {asked} bytes, "
            f"the largest free block has {largest_free_block}"
        )


class NpuProgramMemoryError(NpuError, MemoryError):
    """Vector programs that do not fit program memory together.

    Attributes: programs (names), words (needed), size (words of program memory).
    """

    def __init__(self, programs: Sequence[str], words: int, size: int) -> None:
        self.programs = tuple(programs)
        self.words = words
        self.size = size
        super().__init__(
            f"{', '.join(programs)}: {words} instructions are needed at once, program memory holds {size}"
        )


class NpuHostError(NpuError, OSError):
    """The host refused something that the runtime needs.

    Attributes: what (was refused), errno and strerror (as of any OSError).
    """

    def __init__(self, what: str, cause: OSError) -> None:
        self.what = what
        super().__init__(cause.errno, f"the host refused {what}: {cause.strerror}")


class NpuRecordingError(NpuError, RuntimeError):
    """Something that cannot be recorded, or a recorded program that cannot run any more."""


class NpuPointerError(NpuError, ValueError):
    """A device pointer that is not allocated, or a range that leaves device memory."""


class NpuDeviceError(NpuError):
    """The device stopped in state ERROR. `clear_error()` or `reset()` makes it work again.

    Attributes:
        code: an `ErrorCode` value.
        packet: the number of commands that the device took before the failing one since reset.
        address: the offending physical address; 0 where the code has none.
    """

    def __init__(self, code: int, packet: int, address: int) -> None:
        self.code = code
        self.packet = packet
        self.address = address
        super().__init__(
            f"device error {error_name(code)} (code {code}) at packet {packet}, address 0x{address:08x}"
        )


class NpuBusError(NpuError):
    """A register access that the device answered with SLVERR: no register there, read-only, or write-only.

    Attributes: offset (bytes into the register window), access ("read" or "write").
    """

    def __init__(self, offset: int, access: str) -> None:
        self.offset = offset
        self.access = access
        super().__init__(f"the {access} of register offset 0x{offset:04x} was refused (SLVERR)")


class NpuTimeoutError(NpuError, TimeoutError):
    """The device did not finish within the given number of cycles. It is still running.

    Attributes: cycles (waited), status (`NpuStatus`), counters (dict), waves_hint (how to get a waveform).
    """

    def __init__(self, cycles: int, status: NpuStatus, counters: Mapping[str, int], waves_hint: str) -> None:
        self.cycles = cycles
        self.status = status
        self.counters = dict(counters)
        self.waves_hint = waves_hint
        busy = ", ".join(f"{name}={value}" for name, value in self.counters.items())
        super().__init__(f"no completion within {cycles} cycles; {status}; counters: {busy}. {waves_hint}")


class NpuCardError(NpuError):
    """Base of what goes wrong between the host and a card.

    Attributes: device (the card, as it was opened).
    """

    def __init__(self, device: str, message: str) -> None:
        self.device = device
        super().__init__(f"{device}: {message}")


class NpuCardMissingError(NpuCardError):
    """There is no card: a device file does not exist, or no device is behind it."""


class NpuCardPermissionError(NpuCardError):
    """This user may not open the device files, or may not pin the memory that the card needs."""


class NpuCardBusyError(NpuCardError):
    """Another open device has the card.

    Attributes: holder (process id; None if it cannot be told), file (of the card, which the other one has).
    """

    def __init__(self, device: str, holder: int | None, file: str) -> None:
        self.holder = holder
        self.file = file
        by = "another process" if holder is None else f"process {holder}"
        super().__init__(device, f"{by} has {file} open; one device at a time can use it")


class NpuCardIdentityError(NpuCardError):
    """No ECHO NPU answers, or one of another version or configuration. Nothing was written to it."""


class NpuCardLostError(NpuCardError):
    """The card has vanished from its bus. Close the device; open it again when the card is back."""


class NpuCardResetError(NpuCardError):
    """Something else has reset the card: its state and memory are lost. Close the device, open it again."""


class NpuInterruptLostError(NpuCardError):
    """The interrupt is high on the card, and no event of it arrived at the host. `wait()` may be repeated."""


class NpuTransferError(NpuCardError):
    """A transfer ended early. The bytes before `address` + `done` were moved; the card may be used further.

    Attributes: address (of the whole transfer: a physical address, or an offset in the register window),
        done and wanted (bytes), errno (None: the driver moved nothing and named no error).
    """

    def __init__(
        self, device: str, what: str, address: int, done: int, wanted: int, code: int | None = None
    ) -> None:
        self.address = address
        self.done = done
        self.wanted = wanted
        self.errno = code
        why = "no error was named" if code is None else os.strerror(code)
        super().__init__(device, f"the {what} at 0x{address:08x} ended after {done} of {wanted} bytes: {why}")


class SimulatorError(NpuError):
    """The simulator could not be built or started, or ended while it was needed.

    Attributes: exit_status (None if it never ran; negative: the signal that killed it), log_tail, log_path.
    """

    def __init__(
        self,
        message: str,
        *,
        exit_status: int | None = None,
        log_tail: str = "",
        log_path: Path | None = None,
    ) -> None:
        self.exit_status = exit_status
        self.log_tail = log_tail
        self.log_path = log_path
        lines = [message]
        if exit_status is not None:
            how = f"killed by signal {-exit_status}" if exit_status < 0 else f"exit status {exit_status}"
            lines[0] += f" ({how})"
        if log_path is not None:
            lines.append(f"log: {log_path}")
        if log_tail:
            lines.append("last lines of the log:")
            lines.append(log_tail.rstrip())
        super().__init__("\n".join(lines))


class RtlMismatchError(NpuError):
    """The RTL did something else than the functional model.

    Attributes:
        chunk: the number of the part of the run in which it did.
        address: the first address, of the command named, at which memory differs; None if memory is equal.
        command: the first command whose result differs, as text; empty if no command wrote what differs.
        file: what `echo-npu replay FILE` runs alone; None if it could not be written.
    """

    def __init__(
        self, what: str, *, chunk: int, address: int | None, command: str, file: Path | None
    ) -> None:
        self.chunk = chunk
        self.address = address
        self.command = command
        self.file = file
        lines = [f"chunk {chunk}: {what}"]
        if command:
            lines.append(f"written by: {command}")
        if file is not None:
            lines.append(f"alone, with waves: echo-npu replay {file} --waves")
        super().__init__("\n".join(lines))


class BackendError(NpuError, LookupError):
    """A backend that does not exist, or that cannot do what was asked of it."""


class DeviceClosedError(NpuError):
    """The device was used after `close()`."""
