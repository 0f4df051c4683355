"""The device server: it lends simulated NPUs to other processes over a local socket (docs/server.md)."""
