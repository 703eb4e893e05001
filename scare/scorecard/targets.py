"""Targets of agencies and standards for sensors beside a reference: a dated registry, `targets.toml`, and own files.

A set of targets has classes by pollutant, best first, each with bounds of several measures. `assessment` grades.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from scare.data.quantities import conversion, find_quantity, quantity
from scare.data.readings import Channel
from scare.errors import UsageError
from scare.schema import Amount, Count, Finite, Positive, convert, load_toml, with_names
from scare.scorecard.uncertainty import Regression
from scare.words import suggestion

TABLE = Path(__file__).with_name("targets.toml")
MEASURES = {  # labels
    "slope": "slope",
    "intercept": "intercept",
    "r2": "r²",
    "rmse": "RMSE",
    "nrmse": "RMSE / mean",
    "uncertainty": "expanded uncertainty",
    "between_units": "u(bs,s)",
    "data_capture": "data capture",
    "sd": "standard deviation",
    "cv": "coefficient of variation",
}
IN_UNIT = ("intercept", "rmse", "sd", "between_units")  # measures with the unit; the others are ratios
SHARES = ("nrmse", "cv", "uncertainty", "data_capture")  # ratios that are written in per cent
Bounds = tuple[Finite, Finite]  # lowest and highest value
Classes = Mapping[str, Mapping[str, Bounds]]


@dataclass(frozen=True)
class Target:
    """The classes of one pollutant, best first, each with bounds by measure; those of `IN_UNIT` are in `unit`."""

    name: str
    unit: str
    average_hours: Count
    classes: Classes
    limit: Positive | None = None  # where the expanded uncertainty is judged
    source: str = ""

    def in_unit(self, unit: str, temperature: float) -> "Target | None":
        """Convert limit and bounds to another unit, for gases at a temperature; None if there is no conversion."""
        converted = conversion(self.unit, unit, quantity(self.name).molar_mass, temperature)
        if converted is None:
            return None
        classes: dict[str, dict[str, Bounds]] = {}
        for name, bounds in self.classes.items():
            # Units of concentration differ by a factor, never by an offset.
            gains = {measure: converted.gain if measure in IN_UNIT else 1.0 for measure in bounds}
            classes[name] = {
                measure: (gains[measure] * low, gains[measure] * high) for measure, (low, high) in bounds.items()
            }
        return replace(self, unit=unit, classes=classes, limit=self.limit and converted.gain * self.limit)

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures for which at least one class has bounds."""
        return measures_of(self.classes)


@dataclass(frozen=True)
class TargetSet:
    """A set of targets as in the registry, whose header explains the fields."""

    name: str
    title: str
    as_of: date
    source: str
    regression: Regression
    completeness: Amount
    through_hours: bool
    temperature: Finite
    units: Count
    days: Count | None = None
    second_hand: str = ""
    type_in: str = ""
    either: tuple[tuple[str, ...], ...] = ()
    remarks: tuple[str, ...] = ()
    targets: Mapping[str, Target] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for target in self.targets.values():
            quantity(target.name)  # raises for a pollutant that is not known
            for name, bounds in target.classes.items():
                for measure in bounds:
                    if measure not in MEASURES:
                        hint = suggestion(measure, MEASURES)
                        raise UsageError(f"{self.name}, {target.name}, {name}: no measure is called '{measure}'{hint}")
                if "uncertainty" in bounds and target.limit is None:
                    raise UsageError(f"{self.name}, {target.name}: the uncertainty is judged at a limit; add limit = …")

    def find(self, channel: Channel) -> Target | None:
        """Return the target of the pollutant that a channel is named after."""
        pollutant = find_quantity(channel.name)
        return self.targets.get(pollutant.name) if pollutant else None

    def check_numbers(self) -> None:
        """Raise an error that says what to type in, for a set without numbers."""
        if self.type_in:
            raise UsageError(
                f"{self.title}: its numbers are not in this program, and nothing is graded without them. Type in"
                f" {self.type_in} from {self.source}, in the form of [cen] in {TABLE.name}, and give the file:"
                " --targets FILE.toml"
            )


def measures_of(classes: Classes) -> tuple[str, ...]:
    """Return the measures that some class bounds, in the order in which they are shown."""
    bounded = {measure for bounds in classes.values() for measure in bounds}
    return tuple(measure for measure in MEASURES if measure in bounded)


@cache
def target_sets() -> Mapping[str, TargetSet]:
    """Return all sets of the registry, by name."""
    return _read_sets(TABLE)


def _read_sets(path: Path) -> Mapping[str, TargetSet]:
    """Read the sets of targets of a TOML file, by name."""
    table: dict[str, Any] = {}
    for name, entry in with_names(load_toml(path)).items():
        if not isinstance(entry, Mapping):
            raise UsageError(
                f"{path}: '{name}' belongs to no set of targets; a set begins with a line such as [my-city]"
            )
        table[name] = {**entry, "targets": with_names(entry.get("targets", {}))}
    return convert(table, dict[str, TargetSet], path)


def choose_sets(text: str) -> tuple[TargetSet, ...]:
    """Return the sets that `--targets` names: names of the registry and files of the user's own, with commas.

    An empty text means all sets of the registry that have numbers.

    >>> [target_set.title for target_set in choose_sets("cen")]
    ['CEN/TS 17660, field part']
    """
    if not text:
        return tuple(target_set for target_set in target_sets().values() if not target_set.type_in)
    chosen: list[TargetSet] = []
    for name in text.split(","):
        if name.endswith(".toml"):
            chosen += _read_sets(Path(name)).values()
        elif name in target_sets():
            chosen.append(target_sets()[name])
        else:
            hint = suggestion(name, target_sets())
            raise UsageError(
                f"--targets: no set of targets is called '{name}'{hint}; there are {', '.join(target_sets())}, and"
                " files of your own that end in .toml"
            )
    for target_set in chosen:
        target_set.check_numbers()
    return tuple(chosen)


def title(channel: Channel) -> str:
    """Return the usual spelling of what a channel measures; the channel's name if no set has targets for it.

    >>> title(Channel("pm25_reference")), title(Channel("co2"))
    ('PM2.5', 'co2')
    """
    targets = (target_set.find(channel) for target_set in target_sets().values())
    return next((target.name for target in targets if target), channel.name)
