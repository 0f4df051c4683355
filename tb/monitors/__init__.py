"""Passive observers."""
