"""Commands: their packets, what a checked one means, and how they are shown."""
