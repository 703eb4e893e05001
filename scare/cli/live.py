"""`scare live`: calibrate a fleet as it reports."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scare.cli.console import STDOUT, emit, note, show_table
from scare.cli.options import Json, Seed, open_calibrator
from scare.cli.signals import stop_on_signal
from scare.extras import require
from scare.words import duration

if TYPE_CHECKING:
    from scare.live.broker_check import InputStats, TopicListener
    from scare.live.gateway import Gateway

app = typer.Typer(help="Calibrate a fleet as it reports, over MQTT and HTTP, with a status page.", no_args_is_help=True)
SHOWN = 10  # devices about which a sentence is printed
ConfigPath = Annotated[Path, typer.Argument(help="TOML file with models, inputs and outputs (docs/live.md).")]


@app.command()
def run(config: ConfigPath, as_json: Json = False) -> None:
    """Receive readings, calibrate them, and publish raw and calibrated values and flags; Ctrl-C stops it.

    Examples:
      scare live run live.toml
    """
    from scare.live.config import read_config
    from scare.live.gateway import Gateway

    settings = read_config(config)
    if settings.co_location is None:
        _serve(Gateway(settings, open_calibrator), as_json)
        return
    from scare.cli.progress import assess_live

    _serve(Gateway(settings, open_calibrator, assess_live), as_json)


@app.command()
def check(
    config: ConfigPath,
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="How long to listen, in seconds.")] = 30.0,
    as_json: Json = False,
) -> None:
    """Check a config, listen to its broker, and print what arrives with a mapping to paste.

    Examples:
      scare live check live.toml
      scare live check live.toml --seconds 300
    """
    require("live")
    from scare.live.broker_check import TopicListener, propose_inputs
    from scare.live.config import read_config
    from scare.live.pipeline import ModelFiles, Monitor

    settings = read_config(config)
    models = ModelFiles(settings.models, open_calibrator, Monitor(), settings.sites)
    settings.check_channels(models.channels)
    note(f"{config} is valid. Its models read {', '.join(models.channels)}.")
    for sentence in models.describe_steps():
        note(sentence)
    steps = {name: calibrator.inputs.step_seconds for name, calibrator in models.calibrators.items()}
    if settings.mqtt is None:
        if as_json:
            emit({"channels": models.channels, "steps": steps})
        return
    listener = TopicListener(settings, settings.mqtt)
    note(f"Listening to {settings.mqtt.host} for {duration(seconds)}.")
    listener.listen(seconds)
    dropped = listener.dropped[-1] if listener.dropped else 0  # the broker's newest count
    if dropped:
        note(f"The broker dropped {dropped:,} messages. Set its max_queued_messages to 0 (docs/live.md).")
    intervals: dict[str, float] = {}  # seconds between messages, by device
    for stats in listener.heard:
        intervals |= stats.intervals
    described = (models.describe_interval(device, interval) for device, interval in intervals.items())
    sentences = [sentence for sentence in described if sentence]
    for sentence in sentences[:SHOWN]:
        note(sentence)
    if len(sentences) > SHOWN:
        note(f"{len(sentences) - SHOWN:,} more devices do not send at their model's step.")
    mapping = propose_inputs(listener.stats, models.channels)
    if as_json:
        heard = {stats.name: _as_dict(stats) for stats in listener.heard}
        facts = {"channels": models.channels, "steps": steps, "intervals": intervals, "heard": heard}
        emit({**facts, "unknown": listener.numbers, "dropped": listener.dropped, "config": mapping})
        return
    _show_stats(listener)
    if mapping:
        STDOUT.print(f"\nThe inputs, ready to paste into {config}:\n", markup=False)
        STDOUT.print(mapping, markup=False)


def _as_dict(stats: "InputStats") -> dict[str, Any]:
    """Return what an adapter received as plain values, for JSON."""
    return {
        "messages": stats.messages,
        "devices": sorted(stats.devices),
        "numbers": stats.numbers,
        "refused": stats.rejected,
    }


def _show_stats(listener: "TopicListener") -> None:
    """Print what each adapter received, and the numbers in topics that no adapter reads."""
    if not listener.heard and not listener.numbers:
        note("Nothing arrived. Listen longer with --seconds, and check that the devices send to this broker.")
        return
    rows = []
    for stats in listener.heard:
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in stats.rejected.most_common(3))
        rows.append([stats.name, f"{stats.messages:,}", f"{len(stats.devices):,}", _pairs(stats.numbers), reasons])
    show_table("received", ["adapter", "messages", "devices", "numbers", "rejected"], rows)
    for topic, numbers in listener.numbers.items():
        STDOUT.print(f"no adapter reads {topic}: {_pairs(numbers) or 'no numbers'}", markup=False)


def _pairs(numbers: dict[str, float]) -> str:
    """Format numbers by name, such as "pm25 12.5, rh 40"."""
    return ", ".join(f"{name} {number:g}" for name, number in numbers.items())


@app.command("install-service")
def install_service(
    config: ConfigPath,
    for_user: Annotated[
        bool, typer.Option("--user", help="For your own service manager, without administrator rights.")
    ] = False,
) -> None:
    """Print the systemd unit that runs the gateway at every start of this computer, and where to put it.

    Examples:
      scare live install-service live.toml --user > ~/.config/systemd/user/scare-live.service
    """
    from scare.live.config import read_config
    from scare.live.service import systemd_unit

    read_config(config)
    print(systemd_unit(config, for_user), end="")
    folder, options = ("~/.config/systemd/user", " --user") if for_user else ("/etc/systemd/system", "")
    note(f"Save it as {folder}/scare-live.service, then run: systemctl{options} enable --now scare-live")


@app.command()
def replay(
    config: ConfigPath,
    file: Annotated[Path, typer.Argument(help="JSON lines or CSV as devices post them, or a journal (.log).")],
    out: Annotated[Path, typer.Option("--out", help="The table to write: .parquet or .csv.")],
    adapter: Annotated[str, typer.Option("--adapter", help="Format of the lines.")] = "json",
    as_json: Json = False,
) -> None:
    """Calibrate recorded readings as if they arrived now.

    Examples:
      scare live replay live.toml day.jsonl --out day.parquet
    """
    from scare.data.tables import write_table
    from scare.live.config import read_config
    from scare.live.gateway import replay as replay_file

    table, monitor = replay_file(read_config(config), file, adapter, open_calibrator)
    write_table(table, out)
    counts = {name: count for name, count in monitor.counts().items() if count}
    if as_json:
        emit({"table": str(out), "rows": table.height, "counts": counts})
    for rejection in monitor.rejections()[:3]:
        note(f"{rejection.source}: {rejection.reason}")
    counted = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items())
    note(f"Wrote {table.height:,} rows to {out}: {counted}.")


@app.command()
def demo(
    boxes: Annotated[int, typer.Option("--boxes", min=1, max=2000, help="Simulated boxes.")] = 40,
    speed: Annotated[float, typer.Option("--speed", min=1, help="Times faster than real time.")] = 300.0,
    port: Annotated[int, typer.Option("--port", min=0, help="Port of the page; 0 for any free one.")] = 8080,
    is_opened: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    seed: Seed = 5,
    as_json: Json = False,
) -> None:
    """Simulate boxes that post over HTTP on this computer and open the status page; Ctrl-C stops them.

    Examples:
      scare live demo
      scare live demo --boxes 500 --speed 60 --no-open
    """
    import webbrowser

    from scare.live.config import Config, Http, Model
    from scare.live.demo import make_fleet, post_readings
    from scare.live.gateway import Gateway

    note(f"Simulating {boxes} boxes: a week beside a reference, then twelve days in the field.")
    fleet = make_fleet(boxes, seed)
    with TemporaryDirectory() as folder:
        model = fleet.calibrator.save(Path(folder) / "demo.scare")
        config = Config({"line": Model(str(model))}, str(Path(folder) / "state"), http=Http(port=port))
        gateway, stop = Gateway(config, open_calibrator), Event()
        assert gateway.server is not None
        posting = Thread(target=post_readings, args=(fleet, gateway.server.port, speed, stop), daemon=True)
        address = gateway.server.address

        def begin() -> None:
            posting.start()
            if is_opened:
                webbrowser.open(address)

        try:
            _serve(gateway, as_json, begin)
        finally:
            stop.set()


def _serve(gateway: "Gateway", as_json: bool, begin: Callable[[], Any] = lambda: None) -> None:
    """Start a gateway, print its address and run it until it is stopped; `begin` is called once it accepts readings."""
    try:
        gateway.start()
        address = gateway.server.address if gateway.server else ""
        restoring = gateway.pipeline.restoring if gateway.pipeline else 0
        if as_json:
            emit({"page": address, "models": list(gateway.models.calibrators), "replayed": restoring})
        if address:
            note(f"The page is at {address}")
        note(f"Restoring {restoring:,} readings. Press Ctrl-C to stop.")
        with stop_on_signal(gateway.stop):
            begin()
            gateway.run()
    finally:
        gateway.close()
    note("Stopped. All readings are saved.")
