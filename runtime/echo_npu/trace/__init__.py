"""Timelines of what the device did, in the format that Perfetto opens."""
