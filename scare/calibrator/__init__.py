"""The thing we ship: scaling and a plan, run in NumPy alone."""
