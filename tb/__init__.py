"""Verification of the ECHO NPU: stimulus, drivers, checkers, coverage and campaigns."""
