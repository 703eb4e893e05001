"""Published corrections as calibrators: the registry `corrections.toml`, each entry a small plan on the newest row.

An entry names what it reads by role (`pm`, `humidity`). `find_channels` recognises the roles among a user's channels,
and `bind` makes the calibrator, which is scored, saved and exported like any other. `make_plan` turns a published
formula into kernel calls: a sum of terms, bands with transitions between them, or hygroscopic growth (κ-Köhler theory).
`page` writes docs/corrections.md; a test keeps the two equal:

    python -c "from scare.calibrator.corrections import page; print(page(), end='')" > docs/corrections.md
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import inf, isfinite
from pathlib import Path

import numpy as np

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.cost import count
from scare.calibrator.plan import INPUT, Plan, Step
from scare.data.flags import DEFAULT_SETTINGS
from scare.data.quantities import is_called, quantity, spell_unit
from scare.data.readings import Channel
from scare.errors import NotApplicableError, UsageError
from scare.schema import convert, load_toml
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.windows import STRICT
from scare.words import suggestion

CONSTANT = "constant"  # the term of a formula that no reading multiplies
Terms = Mapping[str, float]  # coefficient by term: a role, its square ("pm^2") or CONSTANT


@dataclass(frozen=True)
class Passage:
    """A transition between two bands of pm: the upper band's formula has the weight `slope` · pm + `offset`.

    The weight is 0 for a pm below `low` and 1 from `high` on.
    """

    low: float
    high: float
    slope: float
    offset: float


@dataclass(frozen=True)
class Growth:
    """Hygroscopic growth: dry pm = pm / (1 + g / (100 / h − 1)) at a relative humidity of h %.

    g is `factor`, or `kappa` / `density` if there is none. h is clamped to `low` and `high`, which are both finite or
    both infinite.
    """

    factor: float | None = None
    kappa: float = 0.0
    density: float = 1.0
    low: float = -inf
    high: float = inf

    def __post_init__(self) -> None:
        if isfinite(self.low) != isfinite(self.high):
            raise UsageError("a growth formula clamps the humidity at both ends or at neither; give low and high")


@dataclass(frozen=True)
class Role:
    """An input of a correction: a quantity with unit and valid range, and how to recognise its channel by name."""

    name: str
    quantity: str
    unit: str
    low: float
    high: float
    about: str
    prefers: str = ""  # regular expression of channel names that are surely meant
    refuses: str = ""  # regular expression of channel names that mean another field of the sensor

    @property
    def channel(self) -> Channel:
        """A channel with the role's name."""
        return Channel(self.name, self.unit, self.low, self.high)


@dataclass(frozen=True)
class Correction:
    """One entry of the registry, whose header explains `formulas`, `passages` and `growth`.

    `certainty` says how sure we are of the coefficients. `vectors` are worked examples: a number for each role, and
    the `expected` result.
    """

    id: str
    version: int
    title: str
    doi: str
    source: str
    certainty: str
    formula: str  # as text
    notes: tuple[str, ...]
    inputs: Mapping[str, Role]
    vectors: tuple[Mapping[str, float], ...]
    formulas: tuple[Terms, ...] = ()
    passages: tuple[Passage, ...] = ()
    growth: Growth | None = None

    @property
    def name(self) -> str:
        """Id and version, which never change their meaning."""
        return f"{self.id}@{self.version}"

    @property
    def roles(self) -> tuple[Role, ...]:
        """The inputs, in the order in which the plan reads them."""
        return tuple(self.inputs.values())

    @property
    def quantity(self) -> str:
        """The quantity to correct, which is that of the first input."""
        return self.roles[0].quantity

    @cached_property
    def plan(self) -> Plan:
        """The formula as kernel calls."""
        return make_plan([*self.inputs], self.formulas, self.passages, self.growth)


def make_plan(
    roles: Sequence[str], formulas: Sequence[Terms], passages: Sequence[Passage] = (), growth: Growth | None = None
) -> Plan:
    """Return a plan of float32 kernel calls on the newest row, which has the value of each role in physical units.

    With several `formulas`, one for each band of pm, `passages` are the transitions between the bands. With `growth`
    there are no formulas, and the roles are `pm` and `humidity`, in this order.
    """
    if growth is not None:
        steps = _growth_steps(growth)
    elif passages:  # all bands are computed, then blended
        weights = {
            field.name: np.array([getattr(passage, field.name) for passage in passages]) for field in fields(Passage)
        }
        bands = _sum_of_terms("polynomial", roles, formulas, "bands")
        steps = [bands, Step("blend", ("bands", "now"), "y", weights)]
    else:
        steps = [_sum_of_terms("dense", roles, formulas, "y")]
    return Plan(1, len(roles), (Step("newest", (INPUT,), "now"), *steps)).astype(np.float32)


def _sum_of_terms(kernel: str, roles: Sequence[str], formulas: Sequence[Terms], output: str) -> Step:
    """Return formulas of the newest row as one step, with one output for each formula.

    The kernel is `polynomial`, or `dense` if the formulas have no squares.
    """
    squared = [role for role in roles if any(f"{role}^2" in terms for terms in formulas)]
    all_terms = [*roles, *(f"{role}^2" for role in squared)]
    # The exponent of each role in each term, [terms, roles].
    powers = [[int(role == of_term) for role in roles] for of_term in roles]
    powers += [[2 * int(role == of_term) for role in roles] for of_term in squared]
    weight = np.array([[terms.get(term, 0.0) for terms in formulas] for term in all_terms])  # [terms, formulas]
    weights = {"weight": weight, "bias": np.array([terms.get(CONSTANT, 0.0) for terms in formulas])}
    return Step(kernel, ("now",), output, weights, {} if kernel == "dense" else {"powers": powers})


def _growth_steps(growth: Growth) -> list[Step]:
    """Return steps for pm / (1 + g / (100 / h − 1)), written as pm (1 − h / 100) / (1 + (g − 1) h / 100).

    The second form is finite at h = 0, too. Humidity is clamped as low + relu(h − low) − relu(h − high). pm passes
    through the same relu unchanged, since a negative pm is outside the valid range.
    """
    steps = list[Step]()
    row = "now"  # name of the value with pm and humidity
    if growth.high < inf:
        # From (pm, h) to (pm, h − low, h − high), and after the relu to (pm, clamped h).
        subtract = {"weight": np.array([[1.0, 0, 0], [0, 1, 1]]), "bias": np.array([0, -growth.low, -growth.high])}
        recombine = {"weight": np.array([[1.0, 0], [0, 1], [0, -1]]), "bias": np.array([0, growth.low])}
        steps = [
            Step("dense", ("now",), "apart", subtract),
            Step("relu", ("apart",), "above"),
            Step("dense", ("above",), "limited", recombine),
        ]
        row = "limited"
    factor = growth.kappa / growth.density if growth.factor is None else growth.factor
    # Weights of the numerator, pm − 0.01 pm h, and of the denominator.
    dry = {"weight": np.array([[1.0], [-0.01]])}  # of the terms pm and pm · h
    wet = {"weight": np.array([[0.0], [(factor - 1) / 100]]), "bias": np.ones(1)}  # of pm and h
    return [
        *steps,
        Step("polynomial", (row,), "dry", dry, {"powers": [[1, 0], [1, 1]]}),
        Step("dense", (row,), "wet", wet),
        Step("divide", ("dry", "wet"), "y"),
    ]


def _read_registry(path: Path) -> dict[str, Correction]:
    """Read all corrections, by `name`; an input without a unit or range takes those of its quantity."""
    entries = load_toml(path)["corrections"]
    for entry in entries:
        for name, role in entry["inputs"].items():
            usual = quantity(role["quantity"])
            entry["inputs"][name] = {"name": name, "unit": usual.unit, "low": usual.low, "high": usual.high, **role}
    return {entry.name: entry for entry in convert(entries, tuple[Correction, ...], path)}


ALL_VERSIONS = _read_registry(Path(__file__).with_name("corrections.toml"))  # by name, such as "airnow-2021@1"
# The newest version of each, by id: a later version replaces the earlier ones.
CORRECTIONS = {entry.id: entry for entry in sorted(ALL_VERSIONS.values(), key=lambda entry: entry.version)}


def find_correction(name: str) -> Correction:
    """Look up a correction by id (its newest version) or by name with a version.

    >>> find_correction("barkjohn-2021@1").formula
    'PM2.5 = 0.524 · PA_cf1 − 0.0862 · RH + 5.75'
    """
    correction = CORRECTIONS.get(name) or ALL_VERSIONS.get(name)
    if correction is None:
        raise UsageError(f"no correction called '{name}'{suggestion(name, CORRECTIONS)}")
    return correction


def find_channels(correction: Correction, channels: Sequence[Channel]) -> dict[str, Channel]:
    """Find the channel of each role by its name; raises a NotApplicableError if there is none.

    A channel that the role prefers is taken before others of the same quantity; one that it refuses is never taken.

    >>> barkjohn = find_correction("barkjohn-2021")
    >>> names = ("pm2.5_atm", "pm2.5_cf_1", "RH")
    >>> {role: channel.name for role, channel in find_channels(barkjohn, [Channel(name) for name in names]).items()}
    {'pm': 'pm2.5_cf_1', 'humidity': 'RH'}
    """

    def matches(pattern: str, channel: Channel) -> bool:
        return bool(pattern) and re.search(pattern, channel.name.lower()) is not None

    by_role = {}
    for role in correction.roles:
        same_quantity = [channel for channel in channels if is_called(channel.name, role.quantity)]
        allowed = [channel for channel in same_quantity if not matches(role.refuses, channel)]
        if allowed:
            by_role[role.name] = next((channel for channel in allowed if matches(role.prefers, channel)), allowed[0])
        elif same_quantity:
            raise NotApplicableError(f"needs {role.about}; {same_quantity[0].name} is another field")
        else:
            names = ", ".join(channel.name for channel in channels)
            raise NotApplicableError(f"needs {role.quantity}: no channel has such a name; the channels are {names}")
    return by_role


def bind(
    correction: Correction, channels: Mapping[str, Channel], step_seconds: float, target: Channel | None = None
) -> Calibrator:
    """Make the calibrator of a correction from a channel for each role, with one row every `step_seconds`.

    A reading outside the correction's valid range is flagged `RANGE` and gives no value. A channel in another unit
    raises a NotApplicableError; a channel without a unit is taken to be in the correction's.
    """
    roles = correction.roles
    narrowed = []  # channels with the correction's unit, and valid ranges within the correction's
    for role in roles:
        channel = channels.get(role.name)
        if channel is None:
            raise NotApplicableError(f"needs {role.quantity}: no channel is given for the role '{role.name}'")
        check_unit(correction, channel, role.unit)
        low, high = max(channel.low, role.low), min(channel.high, role.high)
        narrowed.append(Channel(channel.name, role.unit, low, high))
    target = target or Channel(correction.quantity, roles[0].unit)
    check_unit(correction, target, roles[0].unit)
    # A formula reads physical units, so the scaling changes nothing.
    identity = Affine(np.zeros(len(roles)), np.ones(len(roles)))
    scaling = Scaling("constant", identity, Affine(np.zeros(1), np.ones(1)))
    inputs = Inputs(tuple(narrowed), scaling, step_seconds, 1, STRICT, DEFAULT_SETTINGS)
    cost = count(correction.plan)
    facts = {
        "model": correction.name,
        "doi": correction.doi,
        "source": correction.source,
        "formula": correction.formula,
        "parameters": cost.weights,
        "bytes": cost.weight_bytes,
    }
    no_windows = Sample(np.empty((0, 1, len(roles)), np.float32), np.empty(0))
    calibrator = Calibrator(correction.plan, inputs, target, no_windows, no_windows, facts)
    rows = [[vector[role.name] for role in roles] for vector in correction.vectors]
    golden = np.array(rows, np.float32)[:, None]  # windows of one row: [vectors, 1, roles]
    return replace(calibrator, golden=Sample(golden, calibrator.compute(golden)))


def check_unit(correction: Correction, channel: Channel, unit: str) -> None:
    """Raise a NotApplicableError if a channel or target has a known unit other than the correction's."""
    if channel.unit and spell_unit(channel.unit) != unit:
        raise NotApplicableError(f"{correction.name} is in {unit}, but {channel.name} is in {channel.unit}")


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
    """Return docs/corrections.md, in Markdown, made from the registry."""
    overview = [
        (f"`{entry.name}`", entry.quantity, ", ".join(role.quantity for role in entry.roles), _link(entry.doi))
        for entry in ALL_VERSIONS.values()
    ]
    head = _table(("correction", "corrects", "reads", "DOI"), overview)
    return "\n".join([INTRODUCTION, head, *map(_section, ALL_VERSIONS.values())])


def _section(entry: Correction) -> str:
    """Describe one correction: formula, source, inputs and worked examples."""
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
    """Return a DOI as a Markdown link; "none" if it is empty."""
    return f"[{doi}](https://doi.org/{doi})" if doi else "none"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
