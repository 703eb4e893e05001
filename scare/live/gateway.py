"""A gateway is everything at work, wired as a config file says: sources, the pipeline, sinks, the server."""

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
    """Built, it has checked all that can be checked; `run` works until `stop`."""

    def __init__(self, config: Config, open_calibrator: Open) -> None:
        self.monitor, self.recent = Monitor(), Recent()
        self.models = ModelFiles(config.models, open_calibrator, self.monitor)
        channels = self.models.channels
        config.check_channels(channels)
        self._store = Store(config.state)
        self._sinks: list[Sink] = [self.recent]
        self.pipeline = Pipeline(self.models, self._store, self._sinks, self.monitor, config.limits)
        readers = make_readers(config, channels)
        units = {name: display_unit(one.target.unit) for name, one in self.models.calibrators.items()}
        watched = Watched(self.pipeline, self.monitor, self.recent, units)
        self.server = Server(config.http, watched, posted(readers, config, channels)) if config.http else None

    def start(self) -> None:
        """Go on where the last process ended, then let readings come."""
        self.pipeline.restore()
        if self.server is not None:
            self.server.start()

    def run(self) -> None:
        """Work until `stop`, then end in order: no more comes in, what is here is finished and kept."""
        try:
            self.pipeline.run()
        finally:
            self.close()

    def stop(self) -> None:
        """End `run` soon; what has come by then is finished."""
        self.pipeline.stop()

    def close(self) -> None:
        """Leave everything to others."""
        if self.server is not None:
            self.server.stop()
        self._store.close()
