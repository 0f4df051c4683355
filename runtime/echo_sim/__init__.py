"""Builds, starts and serves simulations of the NPU's RTL."""
