"""The NPU as gates: its netlist by Yosys, and the board that simulates it in place of rtl/."""
