"""The memory of one run of a recorded graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from echo_npu.torch.devices import OpenDevice
from echo_npu.torch.storages import new_storage


class RunBlocks:
    """Where the blocks of a run lie: those of inputs, of results, and of what lies between.

    Args:
        inputs: the storages of the first blocks.
        sizes: bytes of each block.
        returned: blocks that outlive the run.

    Attributes:
        bases: the address of each block that has one.
        storages: of the inputs and of what is returned, by block.
    """

    def __init__(
        self,
        device: OpenDevice,
        inputs: Sequence[torch.UntypedStorage],
        sizes: Sequence[int],
        returned: Iterable[int],
    ) -> None:
        self.bases: NDArray[np.int64] = np.zeros(len(sizes), np.int64)
        self.storages = dict(enumerate(inputs))
        for block, storage in self.storages.items():
            self.bases[block] = storage.data_ptr()
        self._device, self._sizes = device, sizes
        self._returned = frozenset(returned)
        self._held: set[int] = set()

    def take(self, block: int) -> None:
        """Give a block memory; torch.OutOfMemoryError."""
        if block in self._returned:
            self.storages[block] = new_storage(self._device, self._sizes[block])
            self.bases[block] = self.storages[block].data_ptr()
        else:
            self.bases[block] = self._device.allocator.allocate(self._sizes[block])
            self._held.add(block)

    def drop(self, block: int) -> None:
        """Let later commands use a block that is not returned: they run later than those that use it now."""
        if block in self._held:
            self._held.remove(block)
            self._device.allocator.free(int(self.bases[block]))

    def drop_all(self) -> None:
        """Drop all blocks that are not returned."""
        for block in list(self._held):
            self.drop(block)

    def restart(self) -> None:
        """Give back all memory that was taken, also that of results."""
        self.drop_all()
        for block in self._returned:
            self.storages.pop(block, None)
