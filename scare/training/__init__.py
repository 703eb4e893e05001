"""Readings and settings in, a calibrator out."""
