"""The protocol of a reproduction: `configs/reproduce.toml` as a record, and the paper's numbers beside it.

The file's top is the full run; `[stand-in]` or `[senseurcity]` replaces what it names, then `[quick]` does if asked.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from scare.data.senseurcity import City, Pollutant
from scare.errors import UsageError
from scare.experiments.contenders import BY_PAPER, choose
from scare.words import suggestion

INSTALLED = Path(__file__).with_name("configs")
IN_TREE = Path(__file__).parents[3] / "configs"
CONFIGS = INSTALLED if INSTALLED.is_dir() else IN_TREE
STAND_IN, REAL, QUICK = "stand-in", "senseurcity", "quick"
LISTS = ("main", "ablation", "adaptability", "board")  # of contenders
TRAINED = LISTS[:3]
SIZE = ("boxes", "days", "seed")  # of a simulation


@dataclass(frozen=True)
class Protocol:
    """What a reproduction runs, and on what: `simulated` readings or SensEURCity's, in full or as a `quick` try."""

    simulated: bool
    quick: bool
    cities: tuple[City, ...]
    pollutants: tuple[Pollutant, ...]
    window: int
    seeds: int
    main: tuple[str, ...]
    ablation: tuple[str, ...]
    adaptability: tuple[str, ...]
    thresholds: tuple[float, ...]
    board: tuple[str, ...]
    board_windows: tuple[int, ...]
    board_name: str
    board_trials: int
    figure_trials: int
    most_rows: int
    settings: Mapping[str, Any]
    speeds: Mapping[str, float]
    simulation: Mapping[str, Any]

    @property
    def notes(self) -> list[str]:
        """What every output says first: whose readings these are, and how much they mean."""
        data = "SensEURCity (Zenodo 7669644), the paper's data"
        if self.simulated:
            size = f"boxes {self.simulation['boxes']}, days {self.simulation['days']:g} in each city"
            data = f"SIMULATED stand-in, not the paper's data: {size}; compare no error here with the paper's"
        short = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        cells = f"cities {len(self.cities)}, pollutants {len(self.pollutants)}, N = {self.window}, seeds {self.seeds}"
        lines = [f"Data: {data}.", f"Training: {cells}{f', {short}' if short else ''}."]
        return [*lines, "Quick: a try of the machinery; the numbers mean nothing about accuracy."][: 2 + self.quick]

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return asdict(self)


def read_protocol(path: Path | None, simulated: bool, quick: bool) -> Protocol:
    """The protocol of a file (ours, if none is given)."""
    source = path or CONFIGS / "reproduce.toml"
    found = _load(source)
    sections = {name: found.pop(name, {}) for name in (STAND_IN, REAL, QUICK)}
    found |= sections[STAND_IN if simulated else REAL] | (sections[QUICK] if quick else {})
    found.setdefault("simulation", {})
    known = [field.name for field in fields(Protocol)][2:]
    for name in found:
        if name not in known:
            raise UsageError(f"{source}: '{name}' means nothing here{suggestion(name, known)}")
    for name in known:
        if name not in found:
            raise UsageError(f"{source}: '{name}' is missing; see configs/reproduce.toml")
    if simulated and not set(SIZE) <= found["simulation"].keys():
        raise UsageError(f"{source}: 'simulation' needs {', '.join(SIZE)}")
    try:
        return Protocol(simulated, quick, **{name: _typed(name, value) for name, value in found.items()})
    except (TypeError, ValueError) as error:
        raise UsageError(f"{source}: {error}") from error


@cache
def paper() -> dict[str, dict[str, Any]]:
    """What the paper prints, by experiment and model."""
    return _load(CONFIGS / "paper_results.toml")


def model_of(contender: str) -> str:
    """The model as the paper's tables name it.

    >>> model_of("tesla-paper"), model_of("scare"), model_of("exp-3")
    ('tesla', 'scare', 'exp-3')
    """
    return contender.removesuffix(BY_PAPER)


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def _typed(name: str, value: Any) -> Any:
    """A value of the file as the record holds it; what cannot be is refused."""
    if name in LISTS:
        return tuple(choose(value))
    if name == "cities":
        return tuple(map(City, value))
    if name == "pollutants":
        return tuple(map(Pollutant, value))
    if isinstance(value, list):
        return tuple(value)
    kind = {"settings": dict, "speeds": dict, "simulation": dict, "board_name": str}.get(name, int)
    if not isinstance(value, kind):
        raise ValueError(f"'{name}' cannot be {value!r}")
    return value
