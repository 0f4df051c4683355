"""Windows of a pooling: where they and their elements lie in an image."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from echo_npu.tensor import DeviceTensor

Pair = tuple[int, int]


def pair(value: Sequence[int], default: Pair = (1, 1)) -> Pair:
    """Return what an operator of PyTorch was given for height and width."""
    if not value:
        return default
    return (value[0], value[0]) if len(value) == 1 else (value[0], value[1])


@dataclasses.dataclass(frozen=True, slots=True)
class PoolWindows:
    """Windows, each as (of height, of width).

    Attributes:
        kernel: elements of a window.
        steps: from one window to the next.
        edges: padding on both sides.
        apart: steps from one element of a window to the next (PyTorch's dilation).
    """

    kernel: Pair
    steps: Pair
    edges: Pair
    apart: Pair = (1, 1)

    @property
    def spans(self) -> Pair:
        """Elements from the first to the last one of a window."""
        down, right = ((count - 1) * step + 1 for count, step in zip(self.kernel, self.apart, strict=True))
        return down, right

    @property
    def overlap(self) -> bool:
        """Whether an element may belong to several windows."""
        return any(step < span for step, span in zip(self.steps, self.spans, strict=True))

    @property
    def hops(self) -> Pair:
        """Steps of `apart` from the corner of the first window to its first element that is no padding."""
        down, right = (-(-edge // step) for edge, step in zip(self.edges, self.apart, strict=True))
        return down, right

    def padding(self, size: Pair, counts: Pair) -> tuple[Pair, Pair]:
        """Return the padding (above, below) and (left, right) of an image of `size` with `counts` windows.

        Behind the image there is at least `edges`, and as much more as the last window needs.
        """
        down, right = (
            (edge, max(edge, (count - 1) * step + span - length - edge))
            for edge, count, step, span, length in zip(
                self.edges, counts, self.steps, self.spans, size, strict=True
            )
        )
        return down, right

    @property
    def taps(self) -> list[Pair]:
        """The places of a window's elements, from its corner on."""
        return [
            (down * self.apart[0], right * self.apart[1])
            for down in range(self.kernel[0])
            for right in range(self.kernel[1])
        ]

    def number(self, tap: Pair, width: int) -> int:
        """Return the place of `tap` in an image without padding of that width, for the first window."""
        return (tap[0] - self.edges[0]) * width + tap[1] - self.edges[1]

    def tapped(self, padded: DeviceTensor, tap: Pair, counts: Pair) -> DeviceTensor:
        """Return the elements of one place of all windows: a view [N, C, *counts] of padded images."""
        down, right = (
            slice(start, start + (count - 1) * step + 1, step)
            for start, count, step in zip(tap, counts, self.steps, strict=True)
        )
        return padded[:, :, down, right]
