"""Published corrections as calibrators: the registry `corrections.toml`, each entry a small plan on the newest row.

An entry names what it reads by role (`pm`, `humidity`); `find_channels` recognises the roles among a user's channels
and `bind` makes the calibrator, which is scored, saved and exported like any other. Plans come from
`correction_plans`, the page in docs from `correction_page`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.cost import count
from scare.calibrator.plan import INPUT, Plan, Step
from scare.data.flags import DEFAULT_SETTINGS
from scare.data.quantities import is_called, quantity, spell_unit
from scare.data.readings import Channel
from scare.errors import NotApplicableError, UsageError
from scare.records import convert, load_toml
from scare.windowing.grid import STRICT
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import Affine, Scaling
from scare.words import suggestion

# From a published formula to a plan: sums of terms, bands with passages between them, growth in humid air.
#
# Roles come first in their order; a growth formula reads `pm` and `humidity`, in this order.


CONSTANT = "constant"


Terms = Mapping[str, float]


@dataclass(frozen=True)
class Passage:
    """Between two formulas: the share of the later one is 0 below `low`, 1 from `high` on, a line between them."""

    low: float
    high: float
    slope: float
    offset: float


@dataclass(frozen=True)
class Growth:
    """Particles grow in humid air, by `factor` or by `kappa` and `density`; humidity is kept within limits, if any."""

    factor: float | None = None
    kappa: float = 0.0
    density: float = 1.0
    low: float = -inf
    high: float = inf


def make_plan(
    roles: Sequence[str], formulas: Sequence[Terms], passages: Sequence[Passage] = (), growth: Growth | None = None
) -> Plan:
    """Formulas as kernel calls on the newest row (a number for each role, in physical units), float32."""
    if growth is not None:
        steps = _growth_steps(growth)
    elif passages:
        steps = _banded_steps(roles, formulas, passages)
    else:
        steps = [_sum_of_terms("dense", roles, formulas, "y")]
    return Plan(1, len(roles), (Step("newest", (INPUT,), "now"), *steps)).astype(np.float32)


def _banded_steps(roles: Sequence[str], formulas: Sequence[Terms], passages: Sequence[Passage]) -> list[Step]:
    """Every band's formula at once, then the passages between them."""
    weights = {one.name: np.array([getattr(passage, one.name) for passage in passages]) for one in fields(Passage)}
    bands = _sum_of_terms("polynomial", roles, formulas, "bands")
    return [bands, Step("blend", ("bands", "now"), "y", weights)]


def _sum_of_terms(kernel: str, roles: Sequence[str], formulas: Sequence[Terms], output: str) -> Step:
    """Formulas of the newest row as one step; a dense one where every term is a role."""
    squares = [f"{role}^2" for role in roles if any(f"{role}^2" in terms for terms in formulas)]
    wanted = [*roles, *squares]
    powers = [[(term == role) + 2 * (term == f"{role}^2") for role in roles] for term in wanted]
    weight = np.array([[terms.get(term, 0.0) for terms in formulas] for term in wanted])
    weights = {"weight": weight, "bias": np.array([terms.get(CONSTANT, 0.0) for terms in formulas])}
    return Step(kernel, ("now",), output, weights, {} if kernel == "dense" else {"powers": powers})


def _growth_steps(growth: Growth) -> list[Step]:
    """pm / (1 + g / (100 / h − 1)) = pm (1 − h / 100) / (1 + (g − 1) h / 100), which no humidity below 100 breaks."""
    factor = growth.kappa / growth.density if growth.factor is None else growth.factor
    limits, row = (_limit_steps(growth.low, growth.high), "limited") if growth.high < inf else ([], "now")
    dry = {"weight": np.array([[1.0], [-0.01]])}
    wet = {"weight": np.array([[0.0], [(factor - 1) / 100]]), "bias": np.ones(1)}
    return [
        *limits,
        Step("polynomial", (row,), "dry", dry, {"powers": [[1, 0], [1, 1]]}),
        Step("dense", (row,), "wet", wet),
        Step("divide", ("dry", "wet"), "y"),
    ]


def _limit_steps(low: float, high: float) -> list[Step]:
    """Humidity kept within limits: low + relu(h − low) − relu(h − high); pm, never negative here, as it is."""
    apart = {"weight": np.array([[1.0, 0, 0], [0, 1, 1]]), "bias": np.array([0, -low, -high])}
    again = {"weight": np.array([[1.0, 0], [0, 1], [0, -1]]), "bias": np.array([0, low])}
    steps = [Step("dense", ("now",), "apart", apart), Step("relu", ("apart",), "above")]
    return [*steps, Step("dense", ("above",), "limited", again)]


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


# The page of published corrections, docs/corrections.md, made from the registry; a test keeps the two equal.
#
# python -c "from scare.calibrator.corrections import page; print(page(), end='')" > docs/corrections.md


INTRODUCTION = """# Published corrections

A published correction needs no training: use its name wherever a command takes a model, for example
`scare score barkjohn-2021 --data sim.csv` or `scare export arduino barkjohn-2021 --out pm25.zip`. It is saved and
exported like any model, and it is a row in every `scare compare`. A reading outside the valid range is flagged `RANGE`
and gives no value. Negative results are kept: setting them to zero would bias means.

Sources disagree about the coefficients of the US-wide correction, so each version is an entry. `barkjohn-2021`
(0.0862 / 5.75) is the one in EPA's later slides and AirGradient; `barkjohn-2021-sensortoolkit` (0.0852 / 5.72) is the
one in EPA's sensortoolkit. They differ by at most 0.07 ug/m3. The field matters more: `airnow-2021` reads the Plantower
field CF = ATM, the other PurpleAir corrections CF = 1.

This page is made from `scare/calibrator/corrections.toml`; change that file instead. The numbers of an entry never
change; a different reading of its source is a new version.
"""


def page() -> str:
    """The whole page, in Markdown."""
    overview = _table(("correction", "corrects", "reads", "DOI"), map(_overview, EVERY.values()))
    return "\n".join([INTRODUCTION, overview, *map(_section, EVERY.values())])


def _overview(entry: Correction) -> tuple[str, ...]:
    reads = ", ".join(role.quantity for role in entry.roles)
    return f"`{entry.name}`", entry.quantity, reads, _link(entry.doi)


def _section(entry: Correction) -> str:
    facts = {"Formula": entry.formula, "Source": entry.source, "DOI": _link(entry.doi), "Confidence": entry.certainty}
    roles = [(role.name, role.about, role.unit, f"{role.low:g} to {role.high:g}") for role in entry.roles]
    names = [role.name for role in entry.roles]
    vectors = [[f"{vector[name]:.10g}" for name in (*names, "expected")] for vector in entry.vectors]
    return "\n".join(
        [
            f"## `{entry.name}`: {entry.title}\n",
            *(f"- {name}: {text}" for name, text in facts.items()),
            *(f"- {note}" for note in entry.notes),
            "\n" + _table(("role", "what", "unit", "valid range"), roles),
            "Worked by hand:\n",
            _table((*names, "result"), vectors),
        ]
    )


def _link(doi: str) -> str:
    return f"[{doi}](https://doi.org/{doi})" if doi else "none"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
