"""A gateway is everything at work, wired as a config file says: sources, the pipeline, sinks, the server."""

from contextlib import ExitStack

from scare.data.quantities import display_unit
from scare.live.config import Config
from scare.live.models import ModelFiles, Open
from scare.live.monitor import Monitor
from scare.live.pipeline import Pipeline
from scare.live.reader import make_readers, posted
from scare.live.recent import Recent
from scare.live.results import Sink
from scare.live.server import Server, Watched
from scare.live.snapshot import Store


class Gateway:
    """Built, it has checked all that can be checked; `start`, then `run` until `stop`."""

    def __init__(self, config: Config, open_calibrator: Open) -> None:
        self.monitor, self.recent = Monitor(), Recent()
        self.models = ModelFiles(config.models, open_calibrator, self.monitor)
        config.check_channels(self.models.channels)
        self.server: Server | None = None
        with ExitStack() as opened:
            self._wire(config, opened)
            self._opened = opened.pop_all()  # closed now only if the wiring failed

    def _wire(self, config: Config, opened: ExitStack) -> None:
        store = Store(config.state)
        opened.callback(store.close)
        sinks: list[Sink] = [self.recent]
        self.pipeline = Pipeline(self.models, store, sinks, self.monitor, config.limits)
        readers = make_readers(config, self.models.channels)
        if config.http:
            units = {name: display_unit(one.target.unit) for name, one in self.models.calibrators.items()}
            watched = Watched(self.pipeline, self.monitor, self.recent, units)
            self.server = Server(config.http, watched, posted(readers, config, self.models.channels))
            opened.callback(self.server.stop)

    def start(self) -> None:
        """Go on where the last process ended, then let readings come."""
        self.pipeline.restore()
        if self.server is not None:
            self.server.start()

    def run(self) -> None:
        """Work until `stop`; what has come by then is finished and kept."""
        self.pipeline.run()

    def stop(self) -> None:
        """End `run` soon."""
        self.pipeline.stop()

    def close(self) -> None:
        """Leave everything to others."""
        self._opened.close()
