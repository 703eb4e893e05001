"""Measurements of the project by itself, run from a clone: each prints a table and writes JSON."""
