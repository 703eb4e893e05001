"""Model files at work: loaded at the start, and again when a file has changed."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from scare.calibrator.calibrator import Calibrator
from scare.errors import ScareError
from scare.live.config import Model
from scare.live.fleet import Route
from scare.live.monitor import Monitor

Open = Callable[[str], Calibrator]
Stamp = tuple[int, int] | None  # when a file was changed, and its size
LOG = logging.getLogger(__name__)


class ModelFiles:
    """The calibrators of a config file, and which of their files are new."""

    def __init__(self, models: Mapping[str, Model], open_calibrator: Open, monitor: Monitor) -> None:
        self._models, self._open, self._monitor = models, open_calibrator, monitor
        self._stamps = {name: _stamp(one.file) for name, one in models.items()}
        self.calibrators = {name: open_calibrator(one.file) for name, one in models.items()}

    @property
    def routes(self) -> list[Route]:
        """Which devices each reads."""
        return [Route(pattern, name) for name, one in self._models.items() for pattern in one.devices]

    @property
    def channels(self) -> list[str]:
        """The names of all channels that are read, each once."""
        names = (channel.name for one in self.calibrators.values() for channel in one.inputs.channels)
        return list(dict.fromkeys(names))

    def changed(self) -> dict[str, Calibrator]:
        """Calibrators whose files are new; one that cannot be read is told once, and the old one stays."""
        found: dict[str, Calibrator] = {}
        for name, one in self._models.items():
            stamp = _stamp(one.file)
            if stamp is not None and stamp != self._stamps[name]:
                self._stamps[name] = stamp
                found |= self._load(name, one.file)
        self.calibrators |= found
        return found

    def _load(self, name: str, file: str) -> dict[str, Calibrator]:
        try:
            loaded = {name: self._open(file)}
        except ScareError as error:
            self._monitor.count("models_refused")
            LOG.warning("the changed model '%s' is not used: %s", name, error)
            return {}
        self._monitor.count("models_replaced")
        LOG.warning("the model '%s' was loaded anew from %s", name, file)
        return loaded


def _stamp(file: str) -> Stamp:
    try:
        found = Path(file).stat()
    except OSError:  # a published correction has no file
        return None
    return found.st_mtime_ns, found.st_size
