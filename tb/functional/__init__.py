"""Functional coverage: the situations that tests put the device into (docs/verification.md)."""

FOLDER_VARIABLE = "ECHO_NPU_FUNCTIONAL"
"""Environment variable with the folder for coverage files; without it, nothing is sampled."""
