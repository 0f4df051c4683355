"""Weights in blocks on the device, and a linear layer with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from echo_npu.driver.command_device import CommandDevice
from echo_npu.formats import TILE_COLUMNS, BlockFormat, PackedMatrix, pack
from echo_npu.formats.packed import FileTensor
from echo_npu.tensor import DeviceTensor


class PackedTensor:
    """Weights [N, K] in packed tiles in device memory, as the right operand of `Device.matmul`.

    Attributes:
        tiles: uint8 [N tiles, K tiles, bytes of a tile]; rows of tiles may be apart.
        format: of the blocks.
        shape: N and K.
    """

    def __init__(self, tiles: DeviceTensor, block_format: BlockFormat, shape: tuple[int, int]) -> None:
        self.tiles = tiles
        self.format = block_format
        self.shape = shape

    @classmethod
    def upload(
        cls, device: CommandDevice, source: PackedMatrix | NDArray[Any] | FileTensor, name: str | None = None
    ) -> PackedTensor:
        """Bring weights to the device's weight memory.

        Args:
            source: packed weights, or what `echo_npu.formats.pack` takes, with `name`.

        Raises: as `echo_npu.formats.pack`.
        """
        packed = source if isinstance(source, PackedMatrix) else pack(source, name)
        return cls(device.tensor(packed.data, region="weight"), packed.format, packed.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def device(self) -> Any:
        """The device that holds the tiles."""
        return self.tiles.device

    def __repr__(self) -> str:
        return f"PackedTensor({self.format.name}, shape={self.shape}, ptr=0x{self.tiles.ptr:08x})"

    def columns(self, first: int, stop: int) -> PackedTensor:
        """Return the weights of columns `first` to `stop` - 1 of the product, in the same memory.

        Raises:
            ValueError: columns that do not exist, or that neither begin nor end with a tile.
        """
        whole = self.shape[0]
        ends = first % TILE_COLUMNS == 0 and (stop % TILE_COLUMNS == 0 or stop == whole)
        if not (0 <= first < stop <= whole and ends):
            raise ValueError(
                f"columns {first} to {stop} of {whole}: they must begin and end with a tile of {TILE_COLUMNS}"
            )
        tiles = self.tiles[first // TILE_COLUMNS : -(-stop // TILE_COLUMNS)]
        return PackedTensor(tiles, self.format, (stop - first, self.shape[1]))

    def to_host(self) -> PackedMatrix:
        """Return the weights as they are on the device now."""
        tiles: NDArray[np.uint8] = self.tiles.to_numpy()
        return PackedMatrix(self.format, *self.shape, tiles)
