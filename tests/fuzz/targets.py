"""Every target of the fuzzers, by name."""

from tests.fuzz import blobs, bundles, payloads, pushes, tables
from tests.fuzz.target import Target

EVERY = (bundles.TARGET, tables.CSV, tables.PARQUET, payloads.TARGET, pushes.TARGET, blobs.TARGET)
TARGETS: dict[str, Target] = {one.name: one for one in EVERY}
