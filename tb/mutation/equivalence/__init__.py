"""Automatic proof that a mutant of the RTL behaves like the original."""
