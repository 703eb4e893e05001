"""`scare live`: a fleet calibrated as it reports."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scare.cli.console import emit, say
from scare.cli.opening import open_calibrator
from scare.cli.options import Json, Seed
from scare.extras import require

if TYPE_CHECKING:
    from scare.live.gateway import Gateway

app = typer.Typer(help="Calibrate a fleet as it reports: MQTT and HTTP in and out, and a page.", no_args_is_help=True)
ConfigPath = Annotated[Path, typer.Argument(help="TOML of models, inputs and outputs (docs/live.md).")]


@app.command()
def run(config: ConfigPath, as_json: Json = False) -> None:
    """Take what boxes send, calibrate it, publish raw, calibrated and flags; until Ctrl-C.

    Examples:
      scare live run live.toml
    """
    require("live")
    from scare.live.config import read_config
    from scare.live.gateway import Gateway

    _work(Gateway(read_config(config), open_calibrator), as_json)


@app.command()
def demo(
    boxes: Annotated[int, typer.Option("--boxes", min=1, max=2000, help="Simulated boxes.")] = 40,
    speed: Annotated[float, typer.Option("--speed", min=1, help="How many times as fast as real time.")] = 300.0,
    port: Annotated[int, typer.Option("--port", min=0, help="Where the page is; 0 takes any free one.")] = 8080,
    is_opened: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    seed: Seed = 5,
    as_json: Json = False,
) -> None:
    """Simulate boxes that post over HTTP on this computer, and open the page; until Ctrl-C.

    Examples:
      scare live demo
      scare live demo --boxes 500 --speed 60 --no-open
    """
    require("live")
    import webbrowser

    from scare.live.config import Config, Http, Model
    from scare.live.demo import make_fleet, post_readings
    from scare.live.gateway import Gateway

    say(f"simulating {boxes} boxes, two days beside a reference and twelve in the field")
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
            _work(gateway, as_json, begin)
        finally:
            stop.set()


def _work(gateway: "Gateway", as_json: bool, begin: Callable[[], Any] = lambda: None) -> None:
    """Start a gateway, say where it is, and let it work until it is told to stop."""
    try:
        gateway.start()
        address = gateway.server.address if gateway.server else ""
        replayed = gateway.monitor.counts()["replayed"]
        if as_json:
            emit({"page": address, "models": list(gateway.models.calibrators), "replayed": replayed})
        if address:
            say(f"the page is at {address}")
        say(f"{replayed:,} readings of the journal taken up; Ctrl-C ends it in order")
        with _ending(gateway.stop):
            begin()
            gateway.run()
    finally:
        gateway.close()
    say("ended; all that came is kept")


@contextmanager
def _ending(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C or a request to end calls `stop`; a second one ends at once."""

    def end(_: int, frame: FrameType | None) -> None:
        stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {one: signal.signal(one, end) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
