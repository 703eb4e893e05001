"""Export is the only room that prints C: a calibrator becomes source files that compile anywhere."""
