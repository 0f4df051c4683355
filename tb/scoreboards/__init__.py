"""Scoreboards, which compare the device's results with the expected ones. Usable without a simulator."""
