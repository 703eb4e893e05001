"""Federated calibration: several sites fit one calibrator and share no readings (NumPy only)."""
