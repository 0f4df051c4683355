"""Mutation testing: mutants of the RTL and known bugs, many in one simulator behind a selector."""
