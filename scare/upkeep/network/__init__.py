"""Boxes that never stand beside a reference, calibrated through those who stood beside whom and when."""
