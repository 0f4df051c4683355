"""The tests; a package, so that the simulator can import its cocotb modules by name."""
