"""The pyuvm environment: random programs on all ports, shrunk when they fail (docs/verification.md)."""
