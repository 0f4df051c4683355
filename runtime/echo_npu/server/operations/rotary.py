"""ROPE: rotary positions, from tables that hold cosine and sine of every position."""

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.device import Device
from echo_npu.server.operations.base import FLOATS, Emitter, first, require, same_shape
from echo_npu.server.operations.table import GraphOperation
from echo_npu.server.protocol import GraphNode, GraphTensor, TensorFlag
from echo_npu.tensor import DeviceTensor

PAIRS: Final = 0
HALVES: Final = 2
SECTIONS: Final = 8
INTERLEAVED_SECTIONS: Final = 40
VISION: Final = 24
SECTIONED: Final = (SECTIONS, INTERLEAVED_SECTIONS, VISION)
"""Their pairs take the angle from one of four positions of a token."""

LONGEST_TABLE: Final = 1 << 14
"""Positions beyond it, and negative ones, are put into the graph as constants."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """The parameters of a rotation, as ggml numbers them."""

    dimensions: int
    mode: int
    original_context: int
    base: float
    scale: float
    extrapolation: float
    magnitude: float
    fast: float
    slow: float
    sections: tuple[int, ...]
    first: int

    @classmethod
    def of(cls, node: GraphNode) -> "Rotation":
        """Read them from a node."""
        return cls(
            dimensions=node.integer(1),
            mode=node.integer(2),
            original_context=node.integer(4),
            base=node.number(5),
            scale=node.number(6),
            extrapolation=node.number(7),
            magnitude=node.number(8),
            fast=node.number(9),
            slow=node.number(10),
            sections=tuple(node.integer(index) for index in range(11, 15)),
            first=node.integer(15),
        )

    @property
    def width(self) -> int:
        """The elements of a head that turn."""
        return self.dimensions * (2 if self.mode == VISION else 1)

    def tables(
        self, positions: NDArray[np.int64], factors: NDArray[np.float32] | None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Compute cosine and sine of the pairs of tokens (YaRN: Peng et al. 2023).

        Args:
            positions: [tokens], or [4, tokens] in a mode with sections.
            factors: divisors of the frequencies.

        Returns: float32 [tokens, width / 2] each; for pairs [tokens, width], with each value twice. An angle
            that is no number, of a factor of 0 for example, gives NaN.
        """
        with np.errstate(all="ignore"):
            return self._tables(positions, factors)

    def _tables(
        self, positions: NDArray[np.int64], factors: NDArray[np.float32] | None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        pairs = np.arange(self.width // 2)
        powers, which = self._sectors(pairs) if self.mode in SECTIONED else (pairs, np.zeros_like(pairs))
        chosen = np.atleast_2d(positions)[which].T.astype(np.float64)
        angles = chosen * self.base ** (-2.0 * powers / self.dimensions)
        if factors is not None:
            angles = angles / factors[: pairs.size]
        magnitude = self.magnitude
        interpolated = angles * self.scale
        if self.extrapolation:
            low, high = self._ramp()
            ramp = 1 - np.clip((pairs - low) / max(0.001, high - low), 0, 1)
            mix = ramp * self.extrapolation
            interpolated = interpolated * (1 - mix) + angles * mix
            magnitude *= 1 + 0.1 * math.log(1 / self.scale)
        if self.mode == PAIRS:
            interpolated = interpolated.repeat(2, axis=-1)
        cosine, sine = np.cos(interpolated) * magnitude, np.sin(interpolated) * magnitude
        return cosine.astype(np.float32), sine.astype(np.float32)

    def _sectors(self, pairs: NDArray[np.int_]) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
        """Return the power of each pair's frequency, and which of the four positions it turns by."""
        ends = np.cumsum(self.sections)
        sector = pairs % ends[-1]
        if self.mode == INTERLEAVED_SECTIONS:
            which = sector % 3
            inside = sector < 3 * np.array(self.sections)[which]
            return pairs, np.where(inside, which, 3)
        which = np.searchsorted(ends[:3], sector, side="right")
        if self.mode == VISION:
            return sector - np.concatenate([[0], ends[:3]])[which], which
        return pairs, which

    def _ramp(self) -> tuple[float, float]:
        def place(turns: float) -> float:
            if not self.original_context:
                return -math.inf
            return (
                self.dimensions
                * math.log(self.original_context / (turns * 2 * math.pi))
                / (2 * math.log(self.base))
            )

        low, high = (place(turns) for turns in (self.fast, self.slow))
        return (
            max(0, math.floor(low)) if math.isfinite(low) else 0,
            min(self.dimensions - 1, math.ceil(high)) if math.isfinite(high) else high,
        )


def check_rope(device: Device, node: GraphNode) -> None:
    """Take floats, and positions and factors that are an input."""
    source, positions, factors = first(node), first(node, 1), node.source(2)
    require(all(each.type in FLOATS for each in (source, node.destination)), "a type that is no float")
    require(same_shape(source, node.destination), "a result of another shape")
    require(positions.type == "i32" and positions.steps[0] == 4, "positions that are not dense int32")
    require(bool(positions.flags & TensorFlag.INPUT), "positions that the graph computes")
    rotation = Rotation.of(node)
    require(rotation.mode in (PAIRS, HALVES, *SECTIONED), f"the mode {rotation.mode}")
    streams = 4 if rotation.mode in SECTIONED else 1
    require(positions.elements == (streams * source.elements[2], 1, 1, 1), "positions of another shape")
    require(streams == 1 or (min(rotation.sections) >= 0 and sum(rotation.sections) > 0), "no sections")
    width = rotation.width
    require(width > 0 and not width % 2 and rotation.first >= 0, f"{width} rotated dimensions")
    require(rotation.first + width <= source.elements[0], f"{width} rotated dimensions")
    require(width // 2 <= device.capabilities.row_elements, f"{width} rotated dimensions")
    require(rotation.base > 0 and rotation.scale > 0, "a base or a scale that is not positive")
    yarn = not rotation.extrapolation or (rotation.original_context >= 0 and rotation.base > 1)
    require(yarn and (rotation.fast > 0 < rotation.slow or not rotation.extrapolation), "such a ramp")
    if factors is not None:
        require(factors.type == "f32" and factors.steps[0] == 4, "factors that are not dense float32")
        require(factors.elements[0] >= width // 2, "too few factors")
        require(bool(factors.flags & TensorFlag.INPUT), "factors that the graph computes")


def emit_rope(emitter: Emitter, node: GraphNode) -> None:
    """Rotate some dimensions of each head and copy the others."""
    rotation = Rotation.of(node)
    cosine, sine = tables_of(emitter, node)
    device = emitter.device
    if node.op == "ROPE_BACK":
        sine = device.neg(sine)
    x = emitter.floats(first(node))
    start, end = rotation.first, rotation.first + rotation.width
    out = emitter.target(node.destination)
    whole = device.empty(x.shape) if out is None else out
    turned = whole[..., start:end]
    device.rope(x[..., start:end], cosine, sine, interleaved=rotation.mode == PAIRS, out=turned)
    for rest in (slice(0, start), slice(end, None)):
        if rest.start != x.shape[-1] and rest.stop != 0 and x.ptr != whole.ptr:
            device.copy(x[..., rest], out=whole[..., rest])
    emitter.finish(whole, node.destination)


def tables_of(emitter: Emitter, node: GraphNode) -> tuple[DeviceTensor, DeviceTensor]:
    """Return cosine and sine of the positions, which the device takes from its tables in each run."""
    rotation, positions, factors = Rotation.of(node), first(node, 1), node.source(2)
    key = ("rotation", rotation, positions, factors)
    if key not in emitter.shared:
        emitter.shared[key] = _gathered(emitter, rotation, positions, factors)
    found: tuple[DeviceTensor, DeviceTensor] = emitter.shared[key]
    return found


def _gathered(
    emitter: Emitter, rotation: Rotation, positions: GraphTensor, factors: GraphTensor | None
) -> tuple[DeviceTensor, DeviceTensor]:
    divisors = None
    if factors is not None:
        divisors = emitter.content(factors).view(np.float32)
        _hold_content(emitter, factors)
    places: NDArray[Any] = emitter.content(positions).view(np.int32)
    device = emitter.device
    sectioned = rotation.mode in SECTIONED
    if sectioned or places.min() < 0 or places.max() >= LONGEST_TABLE:
        _hold_content(emitter, positions)
        shaped = places.reshape(4, -1) if sectioned else places
        constant = rotation.tables(shaped.astype(np.int64), divisors)
        return device.tensor(constant[0]), device.tensor(constant[1])
    length = max(64, 2 * (1 << int(places.max()).bit_length()))
    key = ("table", rotation, factors, length)
    if key not in emitter.shared:
        tables = rotation.tables(np.arange(length), divisors)
        emitter.shared[key] = [device.tensor(each) for each in tables]

    def inside(emitter: Emitter) -> bool:
        now: NDArray[Any] = emitter.content(positions).view(np.int32)
        return bool(now.min() >= 0 and now.max() < length)

    emitter.holds_while(inside)
    listed = emitter.strided(positions, (positions.elements[0],), (4,))
    cosine, sine = (device.embedding(table, listed) for table in emitter.shared[key])
    return cosine, sine


def _hold_content(emitter: Emitter, tensor: GraphTensor) -> None:
    """Have the graph recorded again when an input has other bytes, since they are constants of it."""
    then = emitter.content(tensor).tobytes()
    emitter.holds_while(lambda emitter: emitter.content(tensor).tobytes() == then)


OPERATIONS = {
    "ROPE": GraphOperation(check_rope, emit_rope),
    "ROPE_BACK": GraphOperation(check_rope, emit_rope),
}
