"""The paper's tables and figures made anew, its numbers beside ours: what `scare reproduce` runs, from a clone."""
