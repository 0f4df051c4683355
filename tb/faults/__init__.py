"""Campaigns of injected faults and random packets, executed by a native runner."""
