"""The functional model: the effect of each command on memory and registers, to the bit."""
