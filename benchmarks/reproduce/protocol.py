"""The protocol of a reproduction: `configs/reproduce.toml` as a record, and the paper's numbers beside it.

The file's top is the full run; the section of the readings at hand replaces what it names, then `[quick]` does if
asked, then what `--set` says.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cache
from math import inf
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge

from scare.data.senseurcity import City, Pollutant, SensorOrder, WindowRule
from scare.errors import UsageError
from scare.experiments.study import BY_PAPER, EXPERIMENTS, NETWORKS, THREE, Job, Study, choose
from scare.records import Amount, Count, Positive, convert, load_toml, merge

CONFIGS = Path(__file__).parents[2] / "configs"
QUICK = "quick"
TRAINED = ("main", "ablation", "adaptability")  # lists of methods
LISTS = (*TRAINED, "board")
SIZE = ("boxes", "days", "seed")  # of a simulation
THE_PAPERS = ("cities", "pollutants")  # what a described data set has its own of


class Kind(StrEnum):
    """Whose readings a reproduction runs on: its section of the file."""

    STAND_IN = "stand-in"
    SENSEURCITY = "senseurcity"
    DESCRIBED = "data-set"


@dataclass(frozen=True)
class Fewer:
    """What a method that takes very long is given of rates and seeds, from a window length on."""

    window: Count
    rates: tuple[Positive, ...] | None = None  # None: as everyone
    seeds: Count | None = None


AS_EVERYONE = Fewer(window=1)


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
    speeds: Mapping[Count, Mapping[str, Positive]]  # by window length
    rates: tuple[Positive, ...] = ()  # one is chosen for every network and task, on validation; none: the recipe's
    fewer: Mapping[str, Fewer] = field(default_factory=dict)  # by method
    window_rule: WindowRule = WindowRule.RECENT
    sensor_order: SensorOrder = SensorOrder.PUBLISHED
    simulation: Mapping[str, Any] = field(default_factory=dict)

    @property
    def simulated(self) -> bool:
        """Whether no error here can be compared with the paper's."""
        return self.kind is Kind.STAND_IN

    def rates_of(self, method: str) -> tuple[float | None, ...]:
        """The rates that a method is tried with; one of None for what has no rate, or the recipe's own."""
        if method not in NETWORKS:
            return (None,)
        fewer = self._fewer(method)
        return (self.rates if fewer.rates is None else fewer.rates) or (None,)

    def seeds_of(self, method: str) -> int:
        """How often a method is fitted: once if there is no chance in it, or several seeds in it already."""
        if method not in NETWORKS or method == THREE:
            return 1
        return self._fewer(method).seeds or self.seeds

    def _fewer(self, method: str) -> Fewer:
        """What a method does without at this window length."""
        found = self.fewer.get(method, AS_EVERYONE)
        return found if self.window >= found.window else AS_EVERYONE

    @property
    def training(self) -> str:
        """How every network is trained, in a line."""
        said = [
            f"N = {self.window}",
            f"seeds {self.seeds}",
            *(f"{name} {value}" for name, value in self.settings.items()),
        ]
        said += [f"rate from {', '.join(f'{rate:g}' for rate in self.rates)} on validation"] if self.rates else []
        less = [name for name in self.fewer if self._fewer(name) != AS_EVERYONE]
        return ", ".join(said) + (f"; fewer seeds or rates: {', '.join(less)}" if less else "")

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return asdict(self)


def read_protocol(path: Path | None, kind: Kind, quick: bool, changes: Mapping[str, Any] | None = None) -> Protocol:
    """The protocol of a file (ours, if none is given) with these changes."""
    if ignored := [name for name in THE_PAPERS if kind is Kind.DESCRIBED and name in (changes or {})]:
        raise UsageError(f"--set {ignored[0]}: places and pollutants are changed in the data set's description")
    source = path or CONFIGS / "reproduce.toml"
    found = load_toml(source)
    sections = {name: found.pop(name, {}) for name in (*Kind, QUICK)}
    for part in (sections[kind], sections[QUICK] if quick else {}, changes or {}):
        found = merge(found, part)
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


def the_papers(experiment: str, method: str) -> Mapping[str, Any]:
    """What the paper prints of a method trained by its recipe; of others it prints nothing.

    >>> the_papers("main", "tesla-paper")["PM10"], the_papers("main", "scare")
    (14.21, {})
    """
    by_paper = method in EXPERIMENTS or method.endswith(BY_PAPER)
    found = paper()[experiment].get(model_of(method), {}) if by_paper else {}
    return {"grades": found} if isinstance(found, str) else found


def model_of(method: str) -> str:
    """The model as the paper's tables name it.

    >>> model_of("tesla-paper"), model_of("scare"), model_of("exp-3")
    ('tesla', 'scare', 'exp-3')
    """
    return method.removesuffix(BY_PAPER)


# One policy for every network: of a small grid of rates the one with the least error on validation, for each task.
#
# Rates are tried with the first seed, and further seeds take what it chose. Whether weights or their running mean are
# shipped is decided in every fit (`training.either`), on validation as well.


def trials(method: str, protocol: Protocol) -> list[Job]:
    """The first seed at every rate; of what has no rate, its one fit."""
    return [Job(method, protocol.window, 0, rate) for rate in protocol.rates_of(method)]


def chosen(study: Study, method: str, protocol: Protocol) -> Job | None:
    """The trial with the least error on validation, once all have ended; None before, and if all failed."""
    results = {job: study.result(job) for job in trials(method, protocol)}
    if not all(results.values()):
        return None
    errors = {job: found.get("validation_rmse", inf) for job, found in results.items() if found and not found["failed"]}
    return min(errors, key=errors.__getitem__, default=None)


def seeds_of(trial: Job, protocol: Protocol) -> list[Job]:
    """The jobs of every seed at a trial's rate, itself the first."""
    return [replace(trial, seed=seed) for seed in range(protocol.seeds_of(trial.method))]


def jobs_of(study: Study, method: str, protocol: Protocol) -> list[Job]:
    """What a method is scored by: every seed at the rate chosen; while none is, one trial that has no result."""
    if trial := chosen(study, method, protocol):
        return seeds_of(trial, protocol)
    tried = trials(method, protocol)
    return [next((job for job in tried if study.result(job) is None), tried[0])]


def describe_choice(study: Study, method: str, protocol: Protocol) -> dict[str, Any] | None:
    """The rate chosen, how many seeds ship a running mean of weights, and the error of every rate on validation."""
    trial = chosen(study, method, protocol)
    if trial is None or trial.rate is None:
        return None
    results = [found for job in seeds_of(trial, protocol) if (found := study.result(job)) and not found["failed"]]
    means = sum(sum(found.get("averaged", ())) for found in results)
    errors = {f"at {job.rate:g}": (study.result(job) or {}).get("validation_rmse") for job in trials(method, protocol)}
    return {"rate": trial.rate, "means": f"{means} of {len(results)}", **errors}
