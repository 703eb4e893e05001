"""After deployment: drift of sensors, and updates of a calibrator from a new co-location session."""
