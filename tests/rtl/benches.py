"""What several modules' testbenches are built from."""

RESET = "tests/rtl/power_up_reset.sv"
"""What keeps a module in reset until its inputs are driven."""
