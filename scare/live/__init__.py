"""Many devices now: a fleet calibrated as it reports."""
