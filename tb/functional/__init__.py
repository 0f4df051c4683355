"""Functional coverage: which situations the tests have put the device into: docs/verification.md."""

FOLDER_VARIABLE = "ECHO_NPU_FUNCTIONAL"
"""Names the folder that simulators write their coverage to; without it nothing is sampled."""
