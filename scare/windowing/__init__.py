"""Turn readings into a model's input windows, for tables (`grid`) and live (`live`), by the same rules."""
