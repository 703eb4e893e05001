"""Many devices then: files and partitions in, the same out; and where jobs run, here or on a cluster."""
