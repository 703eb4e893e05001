"""Boxes that never stand beside a reference, calibrated through boxes that they met, of which some did."""
