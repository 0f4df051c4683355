"""Programs of the operations, written with `Builder`."""
