"""Synthesis of the NPU by Yosys: gates, area, longest path and FPGA resources of each block."""
