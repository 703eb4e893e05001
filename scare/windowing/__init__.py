"""Readings become a model's input, offline (slicing) and live (ring), by the same rules."""
