"""The functional model: what each command does to memory and registers, to the bit."""
