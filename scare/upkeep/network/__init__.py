"""Boxes that never stand beside a reference, calibrated through boxes that stood beside them and beside one."""
