"""Turn readings into a model's input windows, for tables (`windows`) and live (`live_windows`), by the same rules."""
