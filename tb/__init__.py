"""Simulation of the ECHO NPU: building, driving, observing and checking the RTL."""
