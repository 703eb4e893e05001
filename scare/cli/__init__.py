"""Thin commands over the rooms above, one file each."""
