"""How long programs may take: a search must not take a long command for a hang."""

import pytest

from echo_npu.commands.builders import memcpy_packets, sync_packet
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import packet_bytes
from echo_sim.config import load_config
from tb.stimulus.steps import CommandStep, Recover, StepProgram
from tb.uvm.patience import patience


def program(*packets: object) -> StepProgram:
    return StepProgram((CommandStep(tuple(map(packet_bytes, packets))), Recover()), {}, {})  # type: ignore[arg-type]


@pytest.mark.parametrize("config", ["small", "default"])
def test_it_grows_with_what_a_command_takes(config: str) -> None:
    hardware = load_config(config)
    assert patience(program(sync_packet()), hardware) <= 500
    copied = [
        patience(program(*memcpy_packets(0x1000, 0x1000_0000, nbytes)), hardware) for nbytes in (64, 1 << 24)
    ]
    assert copied[0] < 1000
    # Of a bus beat in each clock, at the best.
    assert copied[1] > 4 * (1 << 24) // (hardware.data_width // 8)


def test_every_batch_counts() -> None:
    hardware = load_config("default")
    packets = matmul_packets(
        0, 0x40_0000, 0x1000_0000, 1, 2, 1, batch=(32768, 2), dst_batch_strides=(4, 1 << 17)
    )
    assert patience(program(*packets), hardware) >= 500 * 65536


def test_refused_commands_take_no_time() -> None:
    hardware = load_config("default")
    assert patience(program(*memcpy_packets(0x1000, 0x7000_0000, 1 << 24)), hardware) == 0
