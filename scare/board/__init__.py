"""Board builds and runs what was exported, here and on a virtual Cortex-M4F, and brings back values and counts."""
