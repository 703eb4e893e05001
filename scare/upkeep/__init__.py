"""After deployment: what time does to a calibrator, and what a visit of the reference can teach it."""
