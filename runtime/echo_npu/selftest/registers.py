"""Registers: constants, and every bit that can be written."""

from collections.abc import Callable
from functools import partial

from echo_npu.device import Device
from echo_npu.model.constants import STORED_BITS, constant_registers
from echo_npu.register_ops import ReadReg, WriteReg
from echo_npu.selftest.records import SelfTestError
from echo_npu.spec import registers as regs
from echo_sim.config import load_config

_BITS = {
    **STORED_BITS,
    **{regs.CMD_WINDOW + 4 * word: 0xFFFF_FFFF for word in range(regs.REGISTERS["CMD_WINDOW"].count)},
}


def _name(offset: int) -> str:
    return regs.NAMES.get(offset, f"CMD_WINDOW[{(offset - regs.CMD_WINDOW) // 4}]")


def _walking(bit: int, offset: int) -> int:
    return 1 << bit


def check_constants(npu: Device) -> str:
    """Compare ID, VERSION and the capabilities with the configuration."""
    expected = constant_registers(load_config(npu.config))
    found = npu.backend.run([ReadReg(offset) for offset in expected])
    for (offset, value), read in zip(expected.items(), found, strict=True):
        if read != value and offset != regs.VERSION:  # which opening the device has checked
            raise SelfTestError(f"{_name(offset)} reads 0x{read:08x} in place of 0x{value:08x}")
    return f"{len(expected)} registers are those of {npu.config}"


def check_registers(npu: Device) -> str:
    """Write patterns to every register that keeps what is written, and read all of them back.

    A walking one finds bits that are stuck or connected, a pattern of its own in each register finds
    addresses that are.
    """
    patterns: list[tuple[str, Callable[[int], int]]] = [
        ("zeros", lambda offset: 0),
        ("ones", lambda offset: 0xFFFF_FFFF),
        ("their addresses", lambda offset: offset * 0x0101_0101),
        ("their inverted addresses", lambda offset: ~(offset * 0x0101_0101) & 0xFFFF_FFFF),
    ]
    patterns += [(f"bit {bit}", partial(_walking, bit)) for bit in range(32)]
    reads = [ReadReg(offset) for offset in _BITS]
    before = dict(zip(_BITS, npu.backend.run(reads), strict=True))
    try:
        for name, pattern in patterns:
            expected = {offset: pattern(offset) & bits for offset, bits in _BITS.items()}
            npu.backend.run([WriteReg(offset, pattern(offset)) for offset in _BITS])
            for (offset, value), read in zip(expected.items(), npu.backend.run(reads), strict=True):
                if read != value:
                    raise SelfTestError(
                        f"{_name(offset)} reads 0x{read:08x} in place of 0x{value:08x} (all got {name})"
                    )
    finally:
        npu.backend.run([WriteReg(offset, value) for offset, value in before.items()])
    return f"{len(_BITS)} registers, {len(patterns)} patterns"
