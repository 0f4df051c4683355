"""Drivers: what makes things happen on the device's ports."""
