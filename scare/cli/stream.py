"""`scare stream`: calibrate lines of readings from a pipe to a pipe."""

import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from queue import Empty, Queue
from time import monotonic, time
from typing import Annotated, TextIO

import typer

from scare.cli import options
from scare.cli.console import note
from scare.cli.signals import stop_on_signal
from scare.errors import UsageError
from scare.files import lock_file
from scare.words import suggestion

BATCH = 1024  # lines calibrated at once
SHOWN = 10  # rejected lines about which a sentence is printed
WAIT_SECONDS = 0.2  # longest wait for a line before a request to stop is noticed
SAVE_SECONDS = 60.0  # between two snapshots of the state


class LineForm(StrEnum):
    """How lines are written."""

    JSON = "json"
    INFLUX = "influx"


def stream(
    model: options.ModelFile,
    form: Annotated[LineForm, typer.Option("--format", help="A JSON object per line, or Influx's line protocol.")],
    field: Annotated[
        list[str] | None, typer.Option("--field", help="CHANNEL=KEY, if they differ; once for each channel.")
    ] = None,
    device_key: Annotated[str, typer.Option("--device-key", help="Key (or tag) that names the device.")] = "device",
    device: Annotated[str, typer.Option("--device", help="The device, if all lines are of one.")] = "",
    time_key: Annotated[str, typer.Option("--time-key", help="Key of the time, in JSON.")] = "time",
    prefix: Annotated[str, typer.Option("--prefix", help="Begin the keys of results with this.")] = "",
    state: Annotated[
        Path | None, typer.Option("--state", help="File that keeps windows from one run to the next.")
    ] = None,
    step: options.CorrectionStep = None,
) -> None:
    """Add value, interval and flags to each line of stdin, and write it to stdout.

    Every line comes out again, in order. A result is calibrated, low, high and flags (docs/flags.md).

    Examples:
      mosquitto_sub -t readings | scare stream pm.scare --format json
      scare stream barkjohn-2021 --format influx --device-key host --state pm.state
    """
    from scare.live.line_stream import Influx, Json, LineStream

    calibrator = options.open_calibrator(model, step)
    names = [channel.name for channel in calibrator.inputs.channels]
    # `LineStream` looks for the time under `time_key`. A JSON line has it there; the timestamp of Influx has no key, so
    # `Influx` puts it there.
    written = Json() if form is LineForm.JSON else Influx(time_key)
    lines = LineStream(calibrator, written, _fields(field or [], names), device_key, device, time_key, prefix)
    lock = _lock(state) if state else None
    if state and state.exists():
        note(f"Went on with the windows of {lines.restore(state):,} devices in {state}.")
    for pipe in (sys.stdin, sys.stdout):  # bytes that are not UTF-8 come out as they came in
        pipe.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")  # type: ignore[union-attr]
    rejected, next_save = 0, monotonic() + SAVE_SECONDS
    for batch in _batches():
        calibrated, rejections = lines.process(batch, time())
        sys.stdout.write("".join(f"{line}\n" for line in calibrated))
        sys.stdout.flush()
        first_line = lines.counts["lines"] - len(batch) + 1
        for index, reason in rejections[: max(0, SHOWN - rejected)]:
            note(f"line {first_line + index}: {reason}; passed on as it is")
        rejected += len(rejections)
        if state and monotonic() >= next_save:  # after the lines are out: a line that was not written may come again
            lines.save(state)
            next_save = monotonic() + SAVE_SECONDS
    if state:
        lines.save(state)
    if lock:
        lock.close()
    counts = lines.counts
    note(
        f"{counts['lines']:,} lines: {counts['calibrated']:,} calibrated, {counts['without_value']:,} with flags only,"
        f" {counts['not_readings']:,} that are no readings."
    )


def _fields(pairs: list[str], names: list[str]) -> dict[str, str]:
    """Parse the values of --field, CHANNEL=KEY: the key of each channel; `names` are the model's channels."""
    fields = {}
    for pair in pairs:
        channel, equals, key = pair.partition("=")
        if not (equals and key):
            raise UsageError(f"--field {pair}: write CHANNEL=KEY, such as {names[0]}=pm25")
        if channel not in names:
            raise UsageError(f"--field {pair}: the model has no channel '{channel}'{suggestion(channel, names)}")
        fields[channel] = key
    return fields


def _lock(state: Path) -> TextIO:
    """Lock a file beside the state, for as long as it is open."""
    try:
        state.parent.mkdir(parents=True, exist_ok=True)
        lock = state.with_name(f"{state.name}.lock").open("a")
    except OSError as error:
        raise UsageError(f"cannot write {state}: {error.strerror or error}") from error
    if not lock_file(lock.fileno()):
        lock.close()
        raise UsageError(f"{state} is in use by another scare stream; give each its own")
    return lock


def _batches() -> Iterator[list[str]]:
    """Yield lines of stdin in batches, as soon as any have arrived, until it ends or the process is asked to stop."""
    lines_read: Queue[str | None] = Queue(16 * BATCH)  # a full queue stops reading, so memory stays bounded
    stopped = threading.Event()
    threading.Thread(target=_read_lines, args=(lines_read, stopped), daemon=True).start()
    with stop_on_signal(stopped.set):
        while True:
            batch: list[str | None] = []
            with suppress(Empty):
                batch.append(lines_read.get(timeout=WAIT_SECONDS))
                while batch[-1] is not None and len(batch) < BATCH:
                    batch.append(lines_read.get_nowait())
            if lines := [line for line in batch if line is not None]:
                yield lines
            if None in batch or (stopped.is_set() and not batch):
                return


def _read_lines(lines_read: "Queue[str | None]", stopped: threading.Event) -> None:
    """Put the lines of stdin into a queue, then None, which marks their end."""
    for line in sys.stdin:
        lines_read.put(line.rstrip("\r\n"))
        if stopped.is_set():
            return
    lines_read.put(None)
