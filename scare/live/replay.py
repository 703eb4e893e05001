"""`scare live replay`: send recorded readings through the same pipeline, without broker, server or lasting state."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time

import polars as pl

from scare.errors import DataError, UsageError
from scare.live.config import Config
from scare.live.http import parse_body
from scare.live.messages import Reader, Reading
from scare.live.parquet import as_table
from scare.live.pipeline import Delivery, ModelFiles, Monitor, OpenCalibrator, Pipeline, Result
from scare.live.store import Store, read_journal

LINES = 1000  # parsed at once


class _TableSink:
    """Keeps results in memory."""

    def __init__(self) -> None:
        self.tables = [as_table([])]

    def publish(self, results: Sequence[Result]) -> bool:
        self.tables.append(as_table(results))
        return True

    def keep(self, number: int) -> None:
        pass


def replay(config: Config, file: Path, adapter: str, open_calibrator: OpenCalibrator) -> tuple[pl.DataFrame, Monitor]:
    """Calibrate the readings of a file: device, time, raw, calibrated, low, high, flags; and the counts.

    The file holds what a device would have POSTed (JSON lines or CSV), or is a journal.
    """
    monitor, sink = Monitor(), _TableSink()
    models = ModelFiles(config.models, open_calibrator, monitor)
    readers = config.post_readers(models.channels)
    if adapter not in readers:
        raise UsageError(f"no input has the adapter '{adapter}'; there are {', '.join(readers)}")
    with TemporaryDirectory() as folder:
        store = Store(folder)
        try:
            pipeline = Pipeline(models, store, [sink], monitor, config.limits)
            pipeline.restore()
            for readings in _read_file(file, readers[adapter], monitor):
                pipeline.process([Delivery(readings)])
        finally:
            store.close()
    table = pl.concat(sink.tables)
    rejections = monitor.rejections()
    if table.is_empty() and rejections:
        raise DataError(f"{file}: no reading in it is usable; the last one: {rejections[0].reason}")
    return table, monitor


def _read_file(file: Path, reader: Reader, monitor: Monitor) -> Iterator[list[Reading]]:
    if file.suffix == ".log":
        journal = read_journal(file)
        while readings := list(islice(journal, LINES)):
            monitor.count("received", len(readings))
            yield readings
        return
    for number, body in enumerate(_bodies(file)):
        intake = parse_body(body, "text/csv" if file.suffix == ".csv" else "application/x-ndjson", reader, time())
        monitor.count("received", len(intake.readings) + intake.rejected)
        monitor.count("rejected", intake.rejected - len(intake.reasons))
        for one in intake.reasons:
            monitor.reject(str(file), f"line {number * LINES + one['line']}: {one['reason']}")
        yield intake.readings


def _bodies(file: Path) -> Iterator[bytes]:
    """A file in pieces of `LINES` lines; each piece of a table begins with the header."""
    try:
        with file.open("rb") as lines:
            header = lines.readline() if file.suffix == ".csv" else b""
            while piece := list(islice(lines, LINES)):
                yield header + b"".join(piece)
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror or error}") from error
