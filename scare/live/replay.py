"""Recorded readings through the same pipeline, without a broker, a server or a state that is kept."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time

import polars as pl

from scare.errors import DataError, UsageError
from scare.live.config import Config
from scare.live.http import take_in
from scare.live.messages import Reading
from scare.live.parquet import as_table
from scare.live.pipeline import Arrival, ModelFiles, Monitor, Open, Pipeline, Result
from scare.live.reader import Reader, make_readers, posted
from scare.live.store import Store, read_journal

LINES = 1000  # at once


class _Table:
    """A sink that keeps results in memory."""

    def __init__(self) -> None:
        self.tables = [as_table([])]

    def publish(self, results: Sequence[Result]) -> bool:
        self.tables.append(as_table(results))
        return True

    def keep(self, number: int) -> None:
        pass


def replay(config: Config, file: Path, adapter: str, open_calibrator: Open) -> tuple[pl.DataFrame, Monitor]:
    """What the readings of a file become: device, time, raw, calibrated, low, high, flags; and what was counted.

    The file holds what would have been POSTed (JSON lines or CSV), or is a journal.
    """
    monitor, kept = Monitor(), _Table()
    models = ModelFiles(config.models, open_calibrator, monitor)
    readers = posted(make_readers(config, models.channels), config, models.channels)
    if adapter not in readers:
        raise UsageError(f"no input has the adapter '{adapter}'; there are {', '.join(readers)}")
    with TemporaryDirectory() as folder:
        store = Store(folder)
        try:
            pipeline = Pipeline(models, store, [kept], monitor, config.limits)
            pipeline.restore()
            for readings in _recorded(file, readers[adapter], monitor):
                pipeline.process([Arrival(readings)])
        finally:
            store.close()
    table = pl.concat(kept.tables)
    if refusals := monitor.refusals() if table.is_empty() else []:
        raise DataError(f"{file}: nothing in it can be used, last {refusals[0].reason}")
    return table, monitor


def _recorded(file: Path, reader: Reader, monitor: Monitor) -> Iterator[list[Reading]]:
    if file.suffix == ".log":
        journal = read_journal(file)
        while some := list(islice(journal, LINES)):
            monitor.count("received", len(some))
            yield some
        return
    for number, body in enumerate(_bodies(file)):
        intake = take_in(body, "text/csv" if file.suffix == ".csv" else "application/x-ndjson", reader, time())
        monitor.count("received", len(intake.readings) + intake.rejected)
        monitor.count("rejected", intake.rejected - len(intake.reasons))
        for one in intake.reasons:
            monitor.refuse(str(file), f"line {number * LINES + one['line']}: {one['reason']}")
        yield intake.readings


def _bodies(file: Path) -> Iterator[bytes]:
    """A file in pieces of so many lines, each with the header of a table."""
    try:
        with file.open("rb") as lines:
            header = lines.readline() if file.suffix == ".csv" else b""
            while some := list(islice(lines, LINES)):
                yield header + b"".join(some)
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror or error}") from error
