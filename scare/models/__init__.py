"""One file per model, one contract."""
