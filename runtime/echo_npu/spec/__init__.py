"""The contract as Python sees it: registers, address map, data types, states and error codes."""
