"""After deployment: what time does to a calibrator, and what a co-location session can teach it."""
