"""The protocol of a reproduction: `configs/reproduce.toml` as a record, and the paper's numbers beside it.

The file's top is the full run; the section of the readings at hand replaces what it names, then `[quick]` does if
asked, then what `--set` says.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge

from scare.data.senseurcity import City, Pollutant, SensorOrder, WindowRule
from scare.errors import UsageError
from scare.experiments.contenders import BY_PAPER, EXPERIMENTS, choose
from scare.records import Amount, Count, Positive, convert, load_toml, merged

INSTALLED = Path(__file__).with_name("configs")
IN_TREE = Path(__file__).parents[3] / "configs"
CONFIGS = INSTALLED if INSTALLED.is_dir() else IN_TREE
QUICK = "quick"
LISTS = ("main", "ablation", "adaptability", "board")  # of contenders
TRAINED = LISTS[:3]
SIZE = ("boxes", "days", "seed")  # of a simulation


class Kind(StrEnum):
    """Whose readings a reproduction runs on: its section of the file."""

    STAND_IN = "stand-in"
    SENSEURCITY = "senseurcity"
    DESCRIBED = "data-set"


@dataclass(frozen=True)
class Protocol:
    """What a reproduction runs, and on what `kind` of readings, in full or as a `quick` try."""

    kind: Kind
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
    speeds: Mapping[str, Mapping[str, Positive]]  # by window length
    rates: tuple[Positive, ...] = ()  # one is chosen for every network and task, on validation; none: the recipe's
    window_rule: WindowRule = WindowRule.RECENT
    sensor_order: SensorOrder = SensorOrder.PUBLISHED
    simulation: Mapping[str, Any] = field(default_factory=dict)

    @property
    def simulated(self) -> bool:
        """Whether no error here can be compared with the paper's."""
        return self.kind is Kind.STAND_IN

    @property
    def training(self) -> str:
        """How every network is trained, in a line."""
        said = [f"{name} {value}" for name, value in self.settings.items()]
        said += [f"rate from {', '.join(f'{rate:g}' for rate in self.rates)} on validation"] if self.rates else []
        return ", ".join([f"N = {self.window}", f"seeds {self.seeds}", *said])

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return asdict(self)


def read_protocol(path: Path | None, kind: Kind, quick: bool, changes: Mapping[str, Any] | None = None) -> Protocol:
    """The protocol of a file (ours, if none is given) with these changes."""
    source = path or CONFIGS / "reproduce.toml"
    found = load_toml(source)
    sections = {name: found.pop(name, {}) for name in (*Kind, QUICK)}
    for part in (sections[kind], sections[QUICK] if quick else {}, changes or {}):
        found = merged(found, part)
    protocol = convert({**found, "kind": kind, "quick": quick}, Protocol, source)
    if protocol.simulated and not set(SIZE) <= protocol.simulation.keys():
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


def the_papers(experiment: str, contender: str) -> Mapping[str, Any]:
    """What the paper prints of a contender trained by its recipe; of others it prints nothing.

    >>> the_papers("main", "tesla-paper")["PM10"], the_papers("main", "scare")
    (14.21, {})
    """
    by_paper = contender in EXPERIMENTS or contender.endswith(BY_PAPER)
    found = paper()[experiment].get(model_of(contender), {}) if by_paper else {}
    return {"grades": found} if isinstance(found, str) else found


def model_of(contender: str) -> str:
    """The model as the paper's tables name it.

    >>> model_of("tesla-paper"), model_of("scare"), model_of("exp-3")
    ('tesla', 'scare', 'exp-3')
    """
    return contender.removesuffix(BY_PAPER)
