"""`scare live run` behind a real Mosquitto, killed thirty times: what became of every reading. Part of `live.py`."""

import os
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.live_fleet import print_bars
from tests.live.killing import DEVICES, kill_often

SECTION = Template("""## Killed

$devices devices publish $sent readings through a real Mosquitto, while `scare live run` is killed (`kill -9`) $kills
times at random moments, three in ten of them before it has begun. Sorted by device and time, every result that was
published is compared with that of an uninterrupted stream.

$bars
""")


def measure() -> dict[str, Any]:
    """Send, kill and compare."""
    with TemporaryDirectory() as folder:
        outcome = kill_often(Path(folder))
    bars = [
        ("readings without a result", outcome.lost, "<=", 0),
        ("readings with a result that differs", outcome.differing, "<=", 0),
        ("tracebacks", outcome.log.count("Traceback"), "<=", 0),
    ]
    return {"sent": outcome.sent, "kills": outcome.kills, "bars": bars, "niceness": os.nice(0)}


def section(found: dict[str, Any]) -> str:
    """Render this part of the page."""
    return SECTION.substitute(
        devices=DEVICES, sent=f"{found['sent']:,}", kills=found["kills"], bars=print_bars(found["bars"])
    )
