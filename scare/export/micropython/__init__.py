"""A calibrator in plain Python, for boards with MicroPython and no compiler."""
