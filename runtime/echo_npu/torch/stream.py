"""The commands of a device in their order, submitted together."""

from collections.abc import Sequence
from typing import Final

from echo_npu.commands.command import Command
from echo_npu.device import Device
from echo_npu.errors import NpuDeviceError

_MOST_SLOTS: Final = 900
"""Slots after which commands are submitted: they fit the ring of 1024."""


class CommandStream:
    """Collects commands and submits them with one doorbell, when a result is needed or the ring is full.

    The caller holds the device's lock.

    Attributes:
        added: commands so far.
        submissions: so far, each with one doorbell.
    """

    def __init__(self, npu: Device) -> None:
        self.added = 0
        self.submissions = 0
        self._npu = npu
        self._commands: list[Command] = []
        self._slots = 0

    def add(self, commands: Sequence[Command], slots: int) -> None:
        """Append commands of so many slots."""
        self._commands += commands
        self._slots += slots
        self.added += len(commands)
        if self._slots > _MOST_SLOTS:
            self.finish()

    @property
    def idle(self) -> bool:
        """Whether everything that was added has run."""
        return not self._commands

    def synchronize(self) -> None:
        """Let everything run that was added; on rtlfarm, return when it was checked.

        Raises: as `finish`.
        """
        self.finish()
        self._npu.backend.settle()

    def finish(self) -> None:
        """Let everything run that was added, so that its results are there.

        Raises:
            NpuDeviceError: a command failed. Those behind it are dropped; the device works again.
        """
        if not self._commands:
            return
        commands, self._commands, self._slots = self._commands, [], 0
        self.submissions += 1
        try:
            self._npu.submit_batch(commands)
            self._npu.finish()
        except NpuDeviceError:
            self._npu.clear_error()
            raise
