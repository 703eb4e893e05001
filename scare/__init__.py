"""From a co-location CSV to calibrated readings on a board, with proof."""

__version__ = "0.1.0"
