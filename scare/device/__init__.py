"""Device builds the C and runs it, on this computer and on a virtual Cortex-M4F, and brings back values and counts."""
