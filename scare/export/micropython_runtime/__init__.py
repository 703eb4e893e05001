"""MicroPython runtime: modules that `scare export micropython` copies to the board beside the model."""
