"""Builds host_read_buffer with little room and runs its cocotb tests."""

from tb.blocks import block_design, run_block

HERE = "tests/rtl/memory/host_read_buffer"


def test_host_read_buffer() -> None:
    """Random bursts, stalls on every channel, resets."""
    run_block(
        block_design(
            "host_read_buffer",
            ("rtl/matrix/tile_memory.sv", "rtl/cells/ram_queue.sv", "rtl/memory/host_read_buffer.sv"),
            parameters={"DataWidth": 32, "IdWidth": 4, "MaxBurst": 8, "DataBeats": 16},
        ),
        f"{HERE}/cocotb_host_read_buffer".replace("/", "."),
    )
