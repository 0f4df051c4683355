"""Passive observers: they drive nothing."""
