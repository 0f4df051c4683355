"""Campaigns that break things: injected faults and random packets, executed by a native runner."""
