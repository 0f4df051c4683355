"""Checks and generators that `make` calls."""
