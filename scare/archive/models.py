"""Which model reads which device: one for all, or a table `device,model` whose devices may be patterns (`roof-*`)."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from scare.archive.looking import content_hash
from scare.archive.series import Model
from scare.calibrator.calibrator import Calibrator
from scare.data.tables import read_table
from scare.errors import UsageError
from scare.live.fleet import DEFAULT, Route, choose_route

COLUMNS = ["device", "model"]


class Models:
    """Models by route, each opened once so that a bad file is refused before the work begins."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._models = {path: _open(path) for path in dict.fromkeys(route.calibrator for route in routes)}

    def of(self, device: str) -> Model | None:
        """The model of a device, None if none is named for it."""
        path = choose_route(self._routes, device)
        return None if path is None else self._models[path]

    def by_device(self, devices: Iterable[str]) -> dict[str, Model]:
        """The models of those devices that have one."""
        found = ((device, self.of(device)) for device in dict.fromkeys(devices))
        return {device: model for device, model in found if model is not None}


def one_model(path: Path) -> Models:
    """The same model for every device."""
    return Models([Route(DEFAULT, str(path))])


def model_table(path: Path) -> Models:
    """The models that a table names; a relative path is from the table's folder."""
    table = read_table(path)
    if not {*COLUMNS} <= {*table.columns}:
        there = ", ".join(table.columns)
        raise UsageError(f"{path}: a table of models has the columns {' and '.join(COLUMNS)}, not {there}")
    rows = table.select(COLUMNS).drop_nulls().rows()
    return Models([Route(str(device), str(path.parent / str(model))) for device, model in rows])


def _open(path: str) -> Model:
    Calibrator.load(path)
    return Model(str(Path(path).absolute()), content_hash(Path(path)))
