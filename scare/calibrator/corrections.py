"""Published corrections as calibrators: the registry `corrections.toml`, each entry a small plan on the newest row.

An entry names what it reads by role (`pm`, `humidity`); `find_channels` recognises the roles among a user's channels
and `bind` makes the calibrator, which is scored, saved and exported like any other. Plans come from
`correction_plans`, the page in docs from `correction_page`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.correction_plans import Growth, Passage, make_plan
from scare.calibrator.cost import count
from scare.calibrator.plan import Plan
from scare.data.flags import DEFAULT_SETTINGS
from scare.data.quantities import is_called, quantity, spell_unit
from scare.data.readings import Channel
from scare.errors import NotApplicableError, UsageError
from scare.records import convert, load_toml
from scare.windowing.feeding import Inputs
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.slicing import STRICT
from scare.words import suggestion


@dataclass(frozen=True)
class Role:
    """What a correction reads: a quantity with unit and valid range, and names to look for."""

    name: str
    quantity: str
    unit: str
    low: float
    high: float
    about: str
    prefers: str = ""  # a name that says it is the right one, as a regular expression
    refuses: str = ""  # a name that says it is another one

    @property
    def channel(self) -> Channel:
        """A channel called by the role."""
        return Channel(self.name, self.unit, self.low, self.high)


@dataclass(frozen=True)
class Correction:
    """One entry of the registry (its header says what `formulas`, `passages` and `growth` are).

    `certainty` says how sure we are of its numbers; `vectors` are worked examples: a number for each role, and
    `expected`.
    """

    id: str
    version: int
    title: str
    doi: str
    source: str
    certainty: str
    formula: str  # in words
    notes: tuple[str, ...]
    inputs: Mapping[str, Role]
    vectors: tuple[Mapping[str, float], ...]
    formulas: tuple[Mapping[str, float], ...] = ()
    passages: tuple[Passage, ...] = ()
    growth: Growth | None = None

    @property
    def name(self) -> str:
        """Its identity, for good."""
        return f"{self.id}@{self.version}"

    @property
    def roles(self) -> tuple[Role, ...]:
        """What it reads, in order."""
        return tuple(self.inputs.values())

    @property
    def quantity(self) -> str:
        """What it corrects: its first role's quantity."""
        return self.roles[0].quantity

    @cached_property
    def plan(self) -> Plan:
        """What it computes."""
        return make_plan([*self.inputs], self.formulas, self.passages, self.growth)


def _read_registry(path: Path) -> dict[str, Correction]:
    """Every correction by its name."""
    entries = [
        {**entry, "inputs": {name: _role(name, facts) for name, facts in entry["inputs"].items()}}
        for entry in load_toml(path)["corrections"]
    ]
    return {entry.name: entry for entry in convert(entries, tuple[Correction, ...], path)}


def _role(name: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What the registry tells of a role; unit and range are the quantity's where it tells none."""
    usual = quantity(facts["quantity"])
    return {"name": name, "unit": usual.unit, "low": usual.low, "high": usual.high, **facts}


EVERY = _read_registry(Path(__file__).with_name("corrections.toml"))
# the newest version of each
CORRECTIONS = {entry.id: entry for entry in sorted(EVERY.values(), key=lambda entry: entry.version)}


def find_correction(name: str) -> Correction:
    """The newest version of a correction, or the one asked for.

    >>> find_correction("barkjohn-2021@1").formula
    'PM2.5 = 0.524 · PA_cf1 − 0.0862 · RH + 5.75'
    """
    found = CORRECTIONS.get(name) or EVERY.get(name)
    if found is None:
        raise UsageError(f"no correction called '{name}'{suggestion(name, CORRECTIONS)}")
    return found


def find_channels(correction: Correction, channels: Sequence[Channel]) -> dict[str, Channel]:
    """The channel of each role, recognised by its name.

    >>> barkjohn = find_correction("barkjohn-2021")
    >>> names = ("pm2.5_atm", "pm2.5_cf_1", "RH")
    >>> {role: channel.name for role, channel in find_channels(barkjohn, [Channel(name) for name in names]).items()}
    {'pm': 'pm2.5_cf_1', 'humidity': 'RH'}
    """
    return {role.name: _find_channel(role, channels) for role in correction.roles}


def _find_channel(role: Role, channels: Sequence[Channel]) -> Channel:
    alike = [channel for channel in channels if is_called(channel.name, role.quantity)]
    right = [channel for channel in alike if not (role.refuses and _has(role.refuses, channel.name))]
    right.sort(key=lambda channel: not (role.prefers and _has(role.prefers, channel.name)))
    if right:
        return right[0]
    if alike:
        raise NotApplicableError(f"needs {role.about}; {alike[0].name} is another field")
    names = ", ".join(channel.name for channel in channels)
    raise NotApplicableError(f"needs {role.quantity}: no channel is called so; there are {names}")


def bind(
    correction: Correction, channels: Mapping[str, Channel], step_seconds: float, target: Channel | None = None
) -> Calibrator:
    """The calibrator of a correction that reads these channels, given by role, one row every `step_seconds`.

    A reading outside the correction's valid range is flagged `RANGE` and gives no value. A unit that is not the
    correction's is refused; a channel without a unit is taken to be in it.
    """
    roles = correction.roles
    bound = tuple(_within(correction, role, channels.get(role.name)) for role in roles)
    target = target or Channel(correction.quantity, roles[0].unit)
    check_unit(correction, target, roles[0].unit)
    as_is = Affine(np.zeros(len(roles)), np.ones(len(roles)))
    scaling = Scaling("constant", as_is, Affine(np.zeros(1), np.ones(1)))
    inputs = Inputs(bound, scaling, step_seconds, 1, STRICT, DEFAULT_SETTINGS)
    none = Sample(np.empty((0, 1, len(roles)), np.float32), np.empty(0))
    calibrator = Calibrator(correction.plan, inputs, target, none, none, _facts(correction))
    rows = [[vector[role.name] for role in roles] for vector in correction.vectors]
    golden = np.array(rows, np.float32)[:, None]
    return replace(calibrator, golden=Sample(golden, calibrator.compute(golden)))


def check_unit(correction: Correction, channel: Channel, unit: str) -> None:
    """Refuse a channel or target whose unit is known and another one."""
    if channel.unit and spell_unit(channel.unit) != unit:
        raise NotApplicableError(f"{correction.name} is in {unit}, but {channel.name} is in {channel.unit}")


def _within(correction: Correction, role: Role, channel: Channel | None) -> Channel:
    """The user's channel, narrowed to the valid range."""
    if channel is None:
        raise NotApplicableError(f"needs {role.quantity}: no channel is given for the role '{role.name}'")
    check_unit(correction, channel, role.unit)
    low, high = max(channel.low, role.low), min(channel.high, role.high)
    return Channel(channel.name, role.unit, low, high)


def _facts(correction: Correction) -> dict[str, Any]:
    cost = count(correction.plan)
    origin = {"doi": correction.doi, "source": correction.source, "formula": correction.formula}
    return {"model": correction.name, **origin, "parameters": cost.weights, "bytes": cost.weight_bytes}


def _has(pattern: str, name: str) -> bool:
    return re.search(pattern, name.lower()) is not None
