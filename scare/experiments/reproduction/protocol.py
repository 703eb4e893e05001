"""The protocol of a reproduction: `configs/reproduce.toml` as a record, and the paper's numbers beside it.

The file's top is the full run; `[stand-in]` or `[senseurcity]` replaces what it names, then `[quick]` does if asked.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge

from scare.data.senseurcity import City, Pollutant
from scare.errors import UsageError
from scare.experiments.contenders import BY_PAPER, choose
from scare.records import Amount, Count, Positive, convert, load_toml

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
    window: Count
    seeds: Count
    main: tuple[str, ...]
    ablation: tuple[str, ...]
    adaptability: tuple[str, ...]
    thresholds: tuple[Amount, ...]
    board: tuple[str, ...]
    board_windows: tuple[Count, ...]
    board_name: str
    board_trials: Count
    figure_trials: Count
    most_rows: Annotated[int, Ge(0)]
    settings: Mapping[str, Any]
    speeds: Mapping[str, Positive]
    simulation: Mapping[str, Any] = field(default_factory=dict)

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
    found = load_toml(source)
    sections = {name: found.pop(name, {}) for name in (STAND_IN, REAL, QUICK)}
    found |= sections[STAND_IN if simulated else REAL] | (sections[QUICK] if quick else {})
    protocol = convert({**found, "simulated": simulated, "quick": quick}, Protocol, source)
    if simulated and not set(SIZE) <= protocol.simulation.keys():
        raise UsageError(f"{source}: 'simulation' needs {', '.join(SIZE)}")
    try:
        chosen: dict[str, Any] = {name: tuple(choose(getattr(protocol, name))) for name in LISTS}
        return replace(protocol, **chosen)
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from error


@cache
def paper() -> dict[str, dict[str, Any]]:
    """What the paper prints, by experiment and model."""
    return load_toml(CONFIGS / "paper_results.toml")


def model_of(contender: str) -> str:
    """The model as the paper's tables name it.

    >>> model_of("tesla-paper"), model_of("scare"), model_of("exp-3")
    ('tesla', 'scare', 'exp-3')
    """
    return contender.removesuffix(BY_PAPER)
