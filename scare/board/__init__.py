"""Board: builds exported C for this computer and for a virtual Cortex-M4F, runs it, counts and compares."""
