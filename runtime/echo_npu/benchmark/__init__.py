"""Benchmarks: what the hardware reached, against what it could have reached."""
