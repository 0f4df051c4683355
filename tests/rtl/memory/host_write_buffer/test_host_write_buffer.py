"""Builds host_write_buffer with little room and runs its cocotb tests."""

from tb.blocks import block_design, run_block

HERE = "tests/rtl/memory/host_write_buffer"


def test_host_write_buffer() -> None:
    """Random bursts, stalls on every channel, resets."""
    run_block(
        block_design(
            "host_write_buffer_tb",
            (
                "rtl/cells/sync_fifo.sv",
                "rtl/matrix/tile_memory.sv",
                "rtl/cells/ram_queue.sv",
                "rtl/memory/host_write_buffer.sv",
                f"{HERE}/host_write_buffer_tb.sv",
            ),
        ),
        f"{HERE}/cocotb_host_write_buffer".replace("/", "."),
    )
