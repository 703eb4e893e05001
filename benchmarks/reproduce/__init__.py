"""The paper's tables and figures reproduced, its numbers next to ours: what `scare reproduce` runs from a clone."""
