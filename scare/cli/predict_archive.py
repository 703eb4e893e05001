"""`scare predict` of an archive: what it says while it runs and when it is done."""

from collections.abc import Mapping, Sequence
from typing import Any

from scare.archive.executor import open_executor
from scare.archive.running import Archive, run_archive
from scare.cli.console import emit, progress, say, show_table
from scare.errors import DataError
from scare.words import counts

SHOWN = 10  # devices, files, reasons


def predict_archive(archive: Archive, jobs: int, executor: str, as_json: bool) -> None:
    """Calibrate an archive and tell what became of it."""
    with (
        progress("calibrating", "count") as (bar, task),
        open_executor(executor, jobs, archive.out) as workers,
    ):
        try:
            facts = run_archive(
                archive,
                workers,
                lambda done, total: bar.update(task, completed=done, total=total, count=f"{done:,} of {total:,} files"),
            )
        except KeyboardInterrupt:
            say(f"what is finished stays in {archive.out}; the same command resumes")
            raise
    if as_json:
        emit({"folder": str(archive.out), **facts})
    else:
        _show_devices(facts["devices"])
    _tell(archive, facts)
    if not facts["rows"]:
        raise DataError(f"nothing was calibrated; {facts['manifest']} has the reasons")


def _show_devices(devices: Mapping[str, Any]) -> None:
    """The devices with the most rows that have no value, as a table on stdout."""
    worst = sorted(devices, key=lambda name: devices[name]["calibrated"] - devices[name]["rows"])[:SHOWN]
    rows = [
        [name, *(f"{devices[name][one]:,}" for one in ("rows", "calibrated")), counts(devices[name]["flags"])]
        for name in worst
    ]
    rest = f", the {len(worst)} with the most rows without a value" * (len(devices) > SHOWN)
    show_table(f"{len(devices):,} devices{rest}", ["", "rows", "calibrated", "flagged"], rows)


def _tell(archive: Archive, facts: Mapping[str, Any]) -> None:
    """The summary in sentences."""
    now, rate = facts["now"], facts["now"]["rows"] / max(facts["seconds"], 0.01)
    say(f"{facts['calibrated']:,} of {facts['rows']:,} rows calibrated, {facts['files']:,} files in {archive.out}")
    say(f"now: {now['files']:,} files, {now['rows']:,} rows in {facts['seconds']:,.1f} s ({rate:,.0f} rows/s)")
    if now["files"]:
        say("slowest: " + ", ".join(f"{one['file']} {one['seconds']:.2f} s" for one in facts["slowest"]))
    _list("left out", [": ".join(filter(None, one.values())) for one in facts["left_out"]], facts["manifest"])
    _list("appeared since the run began, run again to take them", facts["appeared"], "")
    _list("results of files that are not there any more", facts["gone"], "")


def _list(what: str, names: Sequence[str], where: str) -> None:
    for name in names[:SHOWN]:
        say(f"{what}: {name}")
    if len(names) > SHOWN:
        say(f"{what}: {len(names) - SHOWN:,} more{', in ' * bool(where)}{where}")
