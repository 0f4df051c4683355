"""AXI4 bursts, for the testbenches of modules that forward them."""

import random
from dataclasses import dataclass
from enum import IntEnum

PAGE = 4096


class BurstType(IntEnum):
    """AxBURST."""

    FIXED = 0
    INCR = 1
    WRAP = 2


@dataclass(frozen=True)
class Burst:
    """One AXI4 transaction.

    Attributes: length (beats), size (log2 of a beat's bytes), kind (also the reserved 3).
    """

    axi_id: int
    address: int
    length: int
    size: int
    kind: int

    def addresses(self) -> list[int]:
        """Return the start address of each beat, aligned to the beat's size."""
        step = 1 << self.size
        first = self.address // step * step
        if self.kind == BurstType.FIXED:
            return [first] * self.length
        if self.kind == BurstType.INCR:
            return [first + step * beat for beat in range(self.length)]
        total = step * self.length
        base = self.address // total * total
        return [base + (first - base + step * beat) % total for beat in range(self.length)]

    def lanes(self, bus: int) -> list[int]:
        """Return the byte lanes of a bus of `bus` bytes that each beat may write, as strobes."""
        step, lanes = 1 << self.size, []
        for beat, start in enumerate(self.addresses()):
            end = start % bus + step
            first = self.address if beat == 0 or self.kind == BurstType.FIXED else start
            lanes.append((1 << end) - (1 << first % bus))
        return lanes


def draw(page: int, bus: int, ids: int) -> Burst:
    """Draw a legal burst within `page`: every kind, size and alignment, long and short."""
    full = bus.bit_length() - 1
    size = random.choice((full, full, random.randint(0, full)))
    step = 1 << size
    kind = random.choice((BurstType.INCR, BurstType.INCR, BurstType.WRAP, BurstType.FIXED))
    if kind == BurstType.INCR:
        most = min(256, PAGE // step)
        length = random.choice((1, random.randint(1, min(16, most)), random.randint(1, most)))
        offset = random.randrange(0, PAGE - step * length + 1, step) + random.randrange(step)
    elif kind == BurstType.WRAP:
        length = random.choice((2, 4, 8, 16))
        offset = random.randrange(0, PAGE, step)
    else:
        length = random.randint(1, 16)
        offset = random.randrange(PAGE)
    return Burst(random.randrange(ids), page + offset, length, size, int(kind))
