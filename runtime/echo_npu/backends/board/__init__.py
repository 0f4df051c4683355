"""What the backends of real hardware share: system calls, transports, and the primitives on top of them."""
