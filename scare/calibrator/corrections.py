"""Published corrections as calibrators: the registry `corrections.toml`, each entry a small plan on the newest row.

An entry names what it reads by role (`pm`, `humidity`); `find_channels` recognises the roles among a user's channels
and `bind` makes the calibrator, which is scored, saved and exported like any other. Plans come from
`correction_plans`, the page in docs from `correction_page`.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.correction_plans import Formula, make_plan
from scare.calibrator.cost import count
from scare.calibrator.plan import Plan
from scare.data.quality import DEFAULT_SETTINGS
from scare.data.readings import Channel
from scare.errors import NotApplicableError, UsageError
from scare.windowing.feeding import Inputs
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.slicing import STRICT
from scare.words import suggestion

SPELLINGS = {"µ": "u", "μ": "u", "³": "3", "^": "", " ": "", "percent": "%", "%rh": "%", "ugm-3": "ug/m3"}


@dataclass(frozen=True)
class Role:
    """What a correction reads: unit and valid range (a channel called by the role), the quantity, names to look for."""

    channel: Channel
    quantity: str
    about: str
    prefers: str = ""  # a name that says it is the right one, as a regular expression
    refuses: str = ""  # a name that says it is another one


@dataclass(frozen=True)
class Publication:
    """Where a correction comes from, and how sure we are of its numbers."""

    title: str
    doi: str
    source: str
    certainty: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Correction:
    """One entry of the registry; `vectors` are worked examples: a number for each role, and `expected`."""

    id: str
    version: int
    publication: Publication
    roles: tuple[Role, ...]
    formula: Formula
    vectors: tuple[Mapping[str, float], ...]

    @property
    def name(self) -> str:
        """Its identity, for good."""
        return f"{self.id}@{self.version}"

    @property
    def quantity(self) -> str:
        """What it corrects: its first role's quantity."""
        return self.roles[0].quantity


def _read_registry(path: Path) -> tuple[dict[str, Correction], dict[str, tuple[str, ...]]]:
    """Every correction by its name, and the names each quantity goes by."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    entries = [_correction(entry) for entry in table["corrections"]]
    names = {quantity: tuple(facts["names"]) for quantity, facts in table["quantities"].items()}
    return {entry.name: entry for entry in entries}, names


def _correction(entry: dict[str, Any]) -> Correction:
    roles = tuple(_role(name, facts) for name, facts in entry["inputs"].items())
    terms, passages = tuple(entry.get("formulas", ())), tuple(entry.get("passages", ()))
    formula = Formula(entry["formula"], terms, passages, entry.get("growth"))
    facts = {name: entry[name] for name in ("title", "doi", "source", "certainty")}
    publication = Publication(**facts, notes=tuple(entry["notes"]))
    return Correction(entry["id"], entry["version"], publication, roles, formula, tuple(entry["vectors"]))


def _role(name: str, facts: dict[str, Any]) -> Role:
    channel = Channel(name, facts["unit"], facts["low"], facts["high"])
    return Role(channel, facts["quantity"], facts["about"], facts.get("prefers", ""), facts.get("refuses", ""))


EVERY, QUANTITY_NAMES = _read_registry(Path(__file__).with_name("corrections.toml"))
# the newest version of each
CORRECTIONS = {entry.id: entry for entry in sorted(EVERY.values(), key=lambda entry: entry.version)}


def find_correction(name: str) -> Correction:
    """The newest version of a correction, or the one asked for.

    >>> find_correction("barkjohn-2021@1").formula.words
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
    return {role.channel.name: _find_channel(role, channels) for role in correction.roles}


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


def is_called(name: str, quantity: str) -> bool:
    """Whether a channel of this name may be this quantity.

    >>> is_called("Ref.PM2.5", "PM2.5"), is_called("pm_raw", "PM10"), is_called("PM10", "PM2.5")
    (True, True, False)
    """
    return any(_has(pattern, name) for pattern in QUANTITY_NAMES[quantity])


def bind(
    correction: Correction, channels: Mapping[str, Channel], step_seconds: float, target: Channel | None = None
) -> Calibrator:
    """The calibrator of a correction that reads these channels, given by role, one row every `step_seconds`.

    A reading outside the correction's valid range is flagged `RANGE` and gives no value. A unit that is not the
    correction's is refused; a channel without a unit is taken to be in it.
    """
    roles = correction.roles
    bound = tuple(_within(correction, role, channels.get(role.channel.name)) for role in roles)
    target = target or Channel(correction.quantity, roles[0].channel.unit)
    check_unit(correction, target, roles[0].channel.unit)
    plan = make_plan([role.channel.name for role in roles], correction.formula)
    as_is = Affine(np.zeros(len(roles)), np.ones(len(roles)))
    scaling = Scaling("constant", as_is, Affine(np.zeros(1), np.ones(1)))
    inputs = Inputs(bound, scaling, step_seconds, 1, STRICT, DEFAULT_SETTINGS)
    none = Sample(np.empty((0, 1, len(roles)), np.float32), np.empty(0))
    calibrator = Calibrator(plan, inputs, target, none, none, _facts(correction, plan))
    rows = [[vector[role.channel.name] for role in roles] for vector in correction.vectors]
    golden = np.array(rows, np.float32)[:, None]
    return replace(calibrator, golden=Sample(golden, calibrator.compute(golden)))


def check_unit(correction: Correction, channel: Channel, unit: str) -> None:
    """Refuse a channel or target whose unit is known and another one."""
    if channel.unit and spell_unit(channel.unit) != unit:
        raise NotApplicableError(f"{correction.name} is in {unit}, but {channel.name} is in {channel.unit}")


def _within(correction: Correction, role: Role, channel: Channel | None) -> Channel:
    """The user's channel, narrowed to the valid range."""
    if channel is None:
        raise NotApplicableError(f"needs {role.quantity}: no channel is given for the role '{role.channel.name}'")
    check_unit(correction, channel, role.channel.unit)
    low, high = max(channel.low, role.channel.low), min(channel.high, role.channel.high)
    return Channel(channel.name, role.channel.unit, low, high)


def _facts(correction: Correction, plan: Plan) -> dict[str, Any]:
    cost, publication = count(plan), correction.publication
    origin = {"doi": publication.doi, "source": publication.source, "formula": correction.formula.words}
    return {"model": correction.name, **origin, "parameters": cost.weights, "bytes": cost.weight_bytes}


def _has(pattern: str, name: str) -> bool:
    return re.search(pattern, name.lower()) is not None


def spell_unit(unit: str) -> str:
    """A unit as the registry writes it.

    >>> spell_unit("µg/m³"), spell_unit("% RH")
    ('ug/m3', '%')
    """
    unit = unit.lower()
    for other, ours in SPELLINGS.items():
        unit = unit.replace(other, ours)
    return unit
