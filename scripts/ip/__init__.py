"""The NPU as a core for other tools: its description for FuseSoC, its Verilog top level, and a runner."""
