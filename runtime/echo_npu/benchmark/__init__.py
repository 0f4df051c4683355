"""Benchmarks: what the hardware reaches, compared to what it could reach."""
