"""The registers that hold an address: a low word, and a high one where memory lies above 4 GiB."""

from collections.abc import Mapping
from typing import Final

from echo_npu.register_ops import WriteReg
from echo_npu.spec import registers as regs

HIGH_WORDS: Final[Mapping[int, int]] = {
    regs.RING_BASE: regs.RING_BASE_HIGH,
    regs.GUARD_BASE: regs.GUARD_BASE_HIGH,
}
"""The register of the high word, by that of the low one."""


def write_address(register: int, address: int) -> list[WriteReg]:
    """Return the writes that put an address into RING_BASE or GUARD_BASE.

    The high word is left out where it is 0: it is 0 in every address that the same device ever gets.
    """
    writes = [WriteReg(register, address & 0xFFFF_FFFF)]
    if address >> 32:
        writes.append(WriteReg(HIGH_WORDS[register], address >> 32))
    return writes
