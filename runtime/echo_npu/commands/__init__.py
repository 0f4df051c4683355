"""Commands: their packets, checks and listings."""
