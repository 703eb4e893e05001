"""Calibrate an archive of many devices: table files in, calibrated Parquet files out, resumable."""
