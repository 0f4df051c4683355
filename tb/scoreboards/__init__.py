"""Scoreboards: what the device did against what it should have done. Plain numpy, usable without a
simulator."""
