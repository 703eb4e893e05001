"""Processor time and memory of `scare inspect` and of reading a large table, beside what Polars alone takes.

Each is run in a process of its own, on a CSV of this size and on the same table as Parquet.

python benchmarks/readers.py [--megabytes 100] [--json]
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

COLUMNS = ("pm25", "pm10", "temperature", "humidity", "no2", "o3", "co", "pressure")
ROW_BYTES, ROUNDS = 73, 3
WAYS = {
    "polars": "import polars as pl; pl.read_{kind}({path!r}, **{options})",
    "read": (
        "from scare import Channel, ColumnMapping; from scare.data.column_mapping import read_readings;"
        " read_readings({path!r}, ColumnMapping(('time',), tuple(map(Channel, {columns})), device_column='device'))"
    ),
    "inspect": "from scare.data.column_guess import inspect_table; inspect_table({path!r}).as_dict()",
}
MEASURED = (
    "import resource as r, time; {begin}; t = time.process_time(); {code};"
    "print(time.process_time() - t, r.getrusage(r.RUSAGE_SELF).ru_maxrss / 1024)"
)


def write_tables(folder: Path, megabytes: int) -> dict[str, Path]:
    """Write a table of a device's readings by the minute, as CSV and as Parquet."""
    rows, rng = megabytes * 1_000_000 // ROW_BYTES, np.random.default_rng(0)
    minutes = pl.int_range(rows, eager=True) * 60_000_000
    times = (minutes + 1_600_000_000_000_000).cast(pl.Datetime("us"))
    columns = {name: np.round(np.abs(rng.normal(20, 8, rows)), 2) for name in COLUMNS}
    table = pl.DataFrame({"time": times, "device": pl.repeat("box-01", rows, eager=True), **columns})
    files = {"csv": folder / "box.csv", "parquet": folder / "box.parquet"}
    table.write_csv(files["csv"], datetime_format="%Y-%m-%d %H:%M:%S")
    table.write_parquet(files["parquet"])
    return files


def measure(way: str, kind: str, path: Path) -> tuple[float, float]:
    """Seconds of processor time, without imports, and the largest memory in MB, in a process of its own."""
    options = "{'try_parse_dates': True}" if kind == "csv" else "{}"
    code = WAYS[way].format(kind=kind, path=str(path), options=options, columns=COLUMNS)
    begin = "import polars" if way == "polars" else "import scare.data.column_guess"
    runs = []
    for _ in range(ROUNDS):
        script = MEASURED.format(begin=begin, code=code)
        out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        runs.append([float(one) for one in out.split()])
    seconds, memory = np.median(runs, axis=0)
    return float(seconds), float(memory)


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = []
    with TemporaryDirectory() as folder:
        for kind, path in write_tables(Path(folder), options.megabytes).items():
            alone = measure("polars", kind, path)[0]
            for way in WAYS:
                seconds, memory = measure(way, kind, path)
                found.append(
                    {"file": kind, "way": way, "seconds": seconds, "ratio": seconds / alone, "megabytes": memory}
                )
    table = Table("file", "what", "CPU s", "of Polars' own", "peak MB")
    for row in found:
        table.add_row(
            row["file"], row["way"], f"{row['seconds']:.2f}", f"{row['ratio']:.1f}", f"{row['megabytes']:.0f}"
        )
    Console(stderr=options.json).print(table)
    if options.json:
        print(json.dumps({"megabytes": options.megabytes, "rows": found}, indent=2))


if __name__ == "__main__":
    main()
