"""The protocol of a reproduction (`configs/reproduce.toml`) and the paper's printed results.

The top of the file describes the full run. Its keys are overridden, in this order, by the section of the kind of
readings, by `[quick]` if `--quick` is given, and by `--set`.

One policy holds for every network: of a small grid of learning rates the one with the least error on validation is
taken, for each task. Rates are tried with the first seed, and further seeds use the best one. Whether the weights or
their running mean are shipped is decided in every fit (`training.either`), on validation as well.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cache
from math import inf
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge

from benchmarks.reproduce.senseurcity import City, Pollutant, SensorOrder, WindowRule
from scare.errors import UsageError
from scare.experiments.study import BY_PAPER, EXPERIMENTS, NETWORKS, THREE, Job, Study, choose
from scare.schema import Amount, Count, Positive, convert, load_toml, merge

CONFIGS = Path(__file__).parents[2] / "configs"
QUICK = "quick"
TRAINED = ("main", "ablation", "adaptability")  # lists of methods
LISTS = (*TRAINED, "board")
SIZE = ("boxes", "days", "seed")  # settings that a simulation needs
PLACES = ("cities", "pollutants")  # settings that a described data set replaces by its own


class ReadingsKind(StrEnum):
    """Which readings a reproduction runs on; names its section of the file."""

    STAND_IN = "stand-in"
    SENSEURCITY = "senseurcity"
    DESCRIBED = "data-set"


@dataclass(frozen=True)
class ReducedEffort:
    """Fewer rates and seeds for a method that trains very long, from a window length on."""

    window: Count
    rates: tuple[Positive, ...] | None = None  # None: as for every method
    seeds: Count | None = None


FULL_EFFORT = ReducedEffort(window=1)


@dataclass(frozen=True)
class Protocol:
    """What a reproduction runs, and on which `kind` of readings, in full or as a `quick` trial."""

    kind: ReadingsKind
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
    rates: tuple[Positive, ...] = ()  # the best on validation is taken for every network and task; none: the recipe's
    fewer: Mapping[str, ReducedEffort] = field(default_factory=dict)  # by method
    window_rule: WindowRule = WindowRule.RECENT
    sensor_order: SensorOrder = SensorOrder.PUBLISHED
    simulation: Mapping[str, Any] = field(default_factory=dict)

    @property
    def simulated(self) -> bool:
        """Whether the readings are simulated, so that no error can be compared with the paper's."""
        return self.kind is ReadingsKind.STAND_IN

    def rates_of(self, method: str) -> tuple[float | None, ...]:
        """The learning rates that a method is tried with; (None,) for a baseline, or for the recipe's own rate."""
        if method not in NETWORKS:
            return (None,)
        effort = self._effort(method)
        return (self.rates if effort.rates is None else effort.rates) or (None,)

    def seeds_of(self, method: str) -> int:
        """How often a method is fitted: once if it has no randomness, or several seeds in it already."""
        if method not in NETWORKS or method == THREE:
            return 1
        return self._effort(method).seeds or self.seeds

    def _effort(self, method: str) -> ReducedEffort:
        """The reduced effort of a method, if it applies at this window length."""
        reduced = self.fewer.get(method, FULL_EFFORT)
        return reduced if self.window >= reduced.window else FULL_EFFORT

    @property
    def training(self) -> str:
        """How every network is trained, in one line."""
        parts = [
            f"N = {self.window}",
            f"seeds {self.seeds}",
            *(f"{name} {value}" for name, value in self.settings.items()),
        ]
        parts += [f"rate from {', '.join(f'{rate:g}' for rate in self.rates)} on validation"] if self.rates else []
        reduced = [name for name in self.fewer if self._effort(name) != FULL_EFFORT]
        return ", ".join(parts) + (f"; fewer seeds or rates: {', '.join(reduced)}" if reduced else "")

    def as_dict(self) -> dict[str, Any]:
        """The protocol as plain values, for JSON."""
        return asdict(self)


def read_protocol(
    path: Path | None, kind: ReadingsKind, quick: bool, changes: Mapping[str, Any] | None = None
) -> Protocol:
    """Read the protocol of a file (configs/reproduce.toml if None), and apply the changes of `--set`."""
    if ignored := [name for name in PLACES if kind is ReadingsKind.DESCRIBED and name in (changes or {})]:
        raise UsageError(f"--set {ignored[0]}: places and pollutants are changed in the data set's description")
    source = path or CONFIGS / "reproduce.toml"
    tables = load_toml(source)
    sections = {name: tables.pop(name, {}) for name in (*ReadingsKind, QUICK)}
    for part in (sections[kind], sections[QUICK] if quick else {}, changes or {}):
        tables = merge(tables, part)
    protocol = convert({**tables, "kind": kind, "quick": quick}, Protocol, source)
    if protocol.simulated and not set(SIZE) <= protocol.simulation.keys():
        raise UsageError(f"{source}: 'simulation' needs {', '.join(SIZE)}")
    try:
        chosen: dict[str, Any] = {name: tuple(choose(getattr(protocol, name))) for name in LISTS}
        return replace(protocol, **chosen)
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from error


@cache
def paper() -> dict[str, dict[str, Any]]:
    """Load the results that the paper prints, by experiment and model."""
    return load_toml(CONFIGS / "paper_results.toml")


def paper_values(experiment: str, method: str) -> Mapping[str, Any]:
    """Look up the paper's results of a method, if it is trained by the paper's recipe; empty for other methods.

    >>> paper_values("main", "tesla-paper")["PM10"], paper_values("main", "scare")
    (14.21, {})
    """
    by_paper = method in EXPERIMENTS or method.endswith(BY_PAPER)
    found = paper()[experiment].get(model_of(method), {}) if by_paper else {}
    return {"grades": found} if isinstance(found, str) else found


def model_of(method: str) -> str:
    """Find the name of a method's model in the paper's tables.

    >>> model_of("tesla-paper"), model_of("scare"), model_of("exp-3")
    ('tesla', 'scare', 'exp-3')
    """
    return method.removesuffix(BY_PAPER)


def rate_trials(method: str, protocol: Protocol) -> list[Job]:
    """List the jobs that choose a method's rate: the first seed at every rate; one job if there is no choice."""
    return [Job(method, protocol.window, 0, rate) for rate in protocol.rates_of(method)]


def best_trial(study: Study, method: str, protocol: Protocol) -> Job | None:
    """Find the rate trial with the least validation error; None until all have ended, and if all failed."""
    results = {job: study.result(job) for job in rate_trials(method, protocol)}
    if not all(results.values()):
        return None
    errors = {job: found.get("validation_rmse", inf) for job, found in results.items() if found and not found["failed"]}
    return min(errors, key=errors.__getitem__, default=None)


def seeds_of(trial: Job, protocol: Protocol) -> list[Job]:
    """List the jobs of every seed at a trial's rate; the trial itself is the first."""
    return [replace(trial, seed=seed) for seed in range(protocol.seeds_of(trial.method))]


def scored_jobs(study: Study, method: str, protocol: Protocol) -> list[Job]:
    """List the jobs that score a method: every seed at its best rate.

    While the best rate is not known, it is one trial that has no result yet, so that the method shows as unfinished.
    """
    if trial := best_trial(study, method, protocol):
        return seeds_of(trial, protocol)
    tried = rate_trials(method, protocol)
    return [next((job for job in tried if study.result(job) is None), tried[0])]


def describe_best_rate(study: Study, method: str, protocol: Protocol) -> dict[str, Any] | None:
    """Describe the best rate, how many seeds ship a running mean of weights, and the error at every rate.

    None if there is no choice, or not yet.
    """
    trial = best_trial(study, method, protocol)
    if trial is None or trial.rate is None:
        return None
    results = [found for job in seeds_of(trial, protocol) if (found := study.result(job)) and not found["failed"]]
    means = sum(sum(found.get("averaged", ())) for found in results)
    errors = {
        f"at {job.rate:g}": (study.result(job) or {}).get("validation_rmse") for job in rate_trials(method, protocol)
    }
    return {"rate": trial.rate, "means": f"{means} of {len(results)}", **errors}
