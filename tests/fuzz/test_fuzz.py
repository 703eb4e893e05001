"""Twenty thousand mutated inputs, some of each target: no traceback, no lie, none that takes long or much memory."""

import struct
from pathlib import Path

import pytest

from tests.fuzz import blobs, pushes
from tests.fuzz.running import run_numbers
from tests.fuzz.targets import TARGETS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux would run it: alarms and memory"),
]
COUNTS = {"bundles": 7900, "csv": 4000, "parquet": 3000, "payloads": 4000, "pushes": 1000, "blobs": 100}


@pytest.mark.parametrize("name", COUNTS)
def test_mutated_inputs_end_as_all_must(name: str, tmp_path: Path) -> None:
    if name in ("pushes", "blobs") and not pushes.COMPILER:
        pytest.skip("gcc or clang would run it")
    found = [one for _, some in run_numbers(TARGETS[name], 19, range(COUNTS[name]), tmp_path) for one in some]
    assert not found, "\n".join(f"{one.number}: {one.what}" for one in found)


@pytest.mark.parametrize("number", range(len(pushes.MODELS)), ids=map("-".join, pushes.MODELS))
def test_pushes_reach_every_model(number: int, tmp_path: Path) -> None:
    path = tmp_path / "usual.bin"
    rows = (struct.pack("<Iff", 60_000 * row, 20.0 + row % 7, 300.0 + row % 5) for row in range(100))
    path.write_bytes(bytes([number]) + b"".join(rows))
    assert pushes.use(path) >= 80


def test_blobs_that_are_sound_are_taken(tmp_path: Path) -> None:
    path, sound = tmp_path / "sound.bin", blobs.bases()
    path.write_bytes(b"".join(struct.pack("<I", len(one)) + one for one in sound))
    assert blobs.use(path) == len(sound)


def test_they_are_twenty_thousand() -> None:
    assert sum(COUNTS.values()) == 20_000
    assert COUNTS.keys() == TARGETS.keys()
