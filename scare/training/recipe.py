"""Recipes: the settings of a fit, as named presets (`default`, `paper`) and as tables of a `--config` file.

`default` is what users get (docs/decisions says why), `paper` follows the paper. The tables [model], [training] and
[selection] of a file change a preset; `scare tune` writes them, `scare train` reads them (docs/config.md):

    [model]
    preset = "default"
    window = "2h"
    front = { width = 12 }
    [training]
    rate = 0.0025
    [selection]
    tolerance = 0.1
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, make_dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from annotated_types import Gt, Lt

from scare.baselines import MODELS
from scare.baselines.classical import BASELINES
from scare.calibrator.calibrator import Calibrator
from scare.data.readings import Readings
from scare.errors import UsageError
from scare.models import Architecture, Scare
from scare.schema import Amount, Finite, convert, merge
from scare.training.selection import SelectionRules
from scare.windowing.windows import (
    ANY,
    AUTO,
    LEARNED_FROM,
    POLICIES,
    RECENT,
    GapPolicy,
    WindowLength,
    checked_window,
    window_readings,
)
from scare.words import suggestion


class Budget(Protocol):
    """Limits on what a calibrator costs on a board, as `board.measure.BoardBudget` has them.

    A cost maps kinds of cost, the keys of `COST_UNITS` such as `ram_bytes`, to numbers.
    """

    def measure(self, calibrator: Calibrator) -> Mapping[str, int]:
        """Return the cost of a calibrator as it is exported."""

    def reasons(self, cost: Mapping[str, int]) -> Sequence[str]:
        """Return why a cost is over the limits; empty if it is not."""

    def share(self, cost: Mapping[str, int]) -> float:
        """Return the largest share of a limit that a cost takes."""


@dataclass(frozen=True)
class TrainingSettings:
    """Optimiser, length and checkpoints of training. Length is `epochs` if given, else `windows`, else `steps`."""

    steps: int = 3000
    epochs: int = 0
    windows: int = 0  # number of windows to train on, a batch a step
    batch: int = 64
    rate: Amount = 5e-3  # peak learning rate
    warm_up: Amount = 0.05  # share of the steps in which the rate rises from 0
    cosine: bool = True  # the rate falls to 0 in a half cosine; otherwise it stays
    weight_decay: Amount = 1e-2
    clip: Amount = 1.0  # largest norm of a gradient; 0 = any
    average: Amount = 0.995  # share kept of the running mean of weights that is scored and shipped; 0 = no mean
    either: bool = False  # score the weights as well as their running mean, and ship the better
    checkpoints: int = 10  # scored on validation; with `epochs`, one after each
    freeze_at: Amount = 0.6  # share of the steps after which the support set no longer changes
    candidates: int = 1  # support sets drawn at a checkpoint, of which the best on validation is kept
    members: int = 1  # networks trained, with seed, seed + 1, …; what is shipped is the mean of their outputs
    seed: int = 0
    level: Annotated[float, Gt(0), Lt(1)] = 0.9  # share of the references that intervals should cover

    def __post_init__(self) -> None:
        for name in ("batch", "checkpoints", "candidates", "members"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        if min(self.epochs, self.windows) < 0 or (not self.epochs and self._steps < 1):
            raise UsageError("give at least one step or one epoch of training")
        if not self.rate > 0:
            raise UsageError(f"the learning rate must be above 0, not {self.rate:g}")
        if self.seed < 0:
            raise UsageError(f"the seed must not be negative, but it is {self.seed}")

    def rounds(self, examples: int) -> list[int]:
        """Return the steps of each round, from one checkpoint to the next; with `epochs`, a round is an epoch.

        >>> TrainingSettings(steps=25, checkpoints=10).rounds(1000)
        [2, 3, 2, 3, 2, 3, 2, 3, 2, 3]
        >>> TrainingSettings(epochs=2, batch=32).rounds(100)
        [4, 4]
        >>> sum(TrainingSettings(windows=64_000, batch=32).rounds(100))
        2000
        """
        if self.epochs:
            return [ceil(examples / self.batch)] * self.epochs
        count = min(self.checkpoints, self._steps)
        borders = [self._steps * index // count for index in range(count + 1)]
        return [after - before for before, after in pairwise(borders)]

    @property
    def _steps(self) -> int:
        return ceil(self.windows / self.batch) if self.windows else self.steps


PAPER = TrainingSettings(
    epochs=10,
    batch=32,
    rate=1e-3,
    warm_up=0.0,
    weight_decay=0.0,
    clip=0.0,
    average=0.0,
    freeze_at=0.9,
    candidates=16,
)


# A rival is trained on as many windows as SCARE, with Adam without decay; the best checkpoint is kept, either its
# weights or their running mean.
RIVAL = TrainingSettings(rate=3e-3, weight_decay=0.0, either=True)


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a fit besides the data.

    Parameters
    ----------
    name
        Preset that the recipe comes from.
    model
        Architecture of the network.
    window
        Length of a window: readings (at least 4), a duration such as `1h`, or `auto`, which follows the data.
    policy
        Gap policy: when a window is complete enough to be used.
    learned_from
        Gap policy of training windows.
    scaling
        `standard`, `robust` or `constant`.
    per_device
        Whether devices are scaled apart; None leaves it to validation, if that is on the same devices.
    settle_hours
        Hours of readings before a new device gets a scaling of its own.
    same_air
        Whether new devices will stand in the air of training: then each is centred by its own first readings.
    floor
        Lower limit of calibrated values, in the target's unit.
    settings
        Optimiser, length and checkpoints of training.
    rules
        Rules of model selection.
    budget
        What the calibrator may cost on a board.

    Examples
    --------
    >>> Recipe(window=24).settings.steps
    3000
    """

    name: str = "default"
    model: Architecture = field(default_factory=Scare.default)
    window: WindowLength = AUTO
    policy: GapPolicy = RECENT
    learned_from: GapPolicy = ANY
    scaling: str = "standard"
    per_device: bool | None = None
    settle_hours: float = 48.0
    same_air: bool = False
    floor: float | None = None
    settings: TrainingSettings = field(default_factory=TrainingSettings)
    rules: SelectionRules = field(default_factory=SelectionRules)
    budget: Budget | None = None

    def __post_init__(self) -> None:
        checked_window(self.window)

    def for_readings(self, readings: Sequence[Readings]) -> "Recipe":
        """Convert the window to a number of readings, as `fit` needs it."""
        return replace(self, window=window_readings(self.window, readings))

    @property
    def window_readings(self) -> int:
        """The number of readings in a window, once `for_readings` has converted a duration to it."""
        assert isinstance(self.window, int)
        return self.window

    @property
    def weighs_cost(self) -> bool:
        """Whether the cost on a board influences what is shipped."""
        return self.budget is not None or self.rules.smallest_within is not None

    @staticmethod
    def preset(name: str, window: int | str = 0, model: str = "scare", **settings: Any) -> "Recipe":
        """Return a preset, optionally with another window (0: its own), model or training settings.

        >>> Recipe.preset("paper", window=360, seed=5).settings.batch
        32
        """
        if model in BASELINES:
            raise UsageError(
                f"'{model}' is no network: leave out the model, and training compares the network with regressions and"
                f" says which is better; scare.fit(table, recipe='{model}') fits {model} alone"
            )
        for kind, wanted, known in (("preset", name, PRESETS), ("model", model, MODELS)):
            if wanted not in known:
                raise UsageError(f"no {kind} called '{wanted}'{suggestion(wanted, known)}")
        recipe = PRESETS[name]
        if model != "scare":
            rival = recipe.settings if name == "paper" else RIVAL
            recipe = replace(recipe, model=MODELS[model].default(), settings=rival)
        if settings.get("steps") or settings.get("windows"):
            settings.setdefault("epochs", 0)  # the preset's epochs would win over both
        return replace(recipe, window=window or recipe.window, settings=replace(recipe.settings, **settings))


PRESETS = {
    "default": Recipe(),
    "paper": Recipe("paper", Scare.paper(), 360, RECENT, RECENT, "constant", False, 0.0, settings=PAPER),
}


class ScalingKind(StrEnum):
    """How channels are scaled: `scaling` of [model]."""

    AUTO = "auto"  # as the preset does
    DEVICE = "device"
    POOLED = "pooled"
    ROBUST = "robust"
    CONSTANT = "constant"


SCALINGS: dict[ScalingKind, dict[str, Any]] = {
    ScalingKind.AUTO: {},
    ScalingKind.DEVICE: {"scaling": "standard", "per_device": True},
    ScalingKind.POOLED: {"scaling": "standard", "per_device": False},
    ScalingKind.ROBUST: {"scaling": "robust"},
    ScalingKind.CONSTANT: {"scaling": "constant"},
}


def make_recipe(tables: Mapping[str, Any], where: Path | str) -> Recipe:
    """Make the recipe that the tables of a file describe; error messages begin with `where`, the name of the file.

    >>> make_recipe({"model": {"preset": "paper", "window": 60}, "training": {"seed": 5}}, "r.toml").settings.batch
    32
    """
    model = tables.get("model", {})
    try:
        preset = Recipe.preset(str(model.get("preset", "default")), model=str(model.get("name", "scare")))
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    return adjust(preset, tables, where)


def adjust(recipe: Recipe, tables: Mapping[str, Any], where: Path | str) -> Recipe:
    """Return the recipe with the values of these tables; error messages begin with `where`, the name of their file.

    >>> adjust(Recipe(), {"model": {"window": 24, "front": {"width": 4}}}, "r.toml").model.front.width
    4
    >>> adjust(Recipe(), {"training": {"rat": 0.1}}, "r.toml")
    Traceback (most recent call last):
    scare.errors.UsageError: r.toml: unknown key 'rat' in [training]; did you mean 'rate'?
    """
    training = tables.get("training")
    if isinstance(training, Mapping) and training.keys() & {"steps", "windows"}:
        tables = {**tables, "training": {"epochs": 0, **training}}  # the preset's epochs would win over both
    architecture: Any = recipe.model.__class__
    changed = convert(merge(recipe_tables(recipe), tables), _tables_type(architecture), where)
    model = changed.model  # the table [model]: fields of the architecture, and some of the recipe itself
    return replace(
        recipe,
        model=architecture(**{field.name: getattr(model, field.name) for field in fields(architecture)}),
        window=model.window,
        floor=model.floor,
        same_air=model.same_air,
        policy=POLICIES[model.gap_policy],
        learned_from=LEARNED_FROM[model.learned_from],
        settings=changed.training,
        rules=changed.selection,
        **SCALINGS[model.scaling],
    )


def recipe_tables(recipe: Recipe) -> dict[str, Any]:
    """Return the tables of a recipe with every key; the inverse of `make_recipe`."""
    architecture: Any = recipe.model
    model = {
        "window": recipe.window,
        "floor": recipe.floor,
        "same_air": recipe.same_air,
        "scaling": ScalingKind.AUTO,  # changes nothing: the preset's scaling stays
        "gap_policy": recipe.policy.name,
        "learned_from": recipe.learned_from.name,
        **asdict(architecture),
    }
    return {"model": model, "training": asdict(recipe.settings), "selection": asdict(recipe.rules)}


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Convert values by dotted name to nested tables.

    >>> nested({"model.window": 24, "model.front.width": 4})
    {'model': {'window': 24, 'front': {'width': 4}}}
    """
    tables: dict[str, Any] = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        table = tables
        for part in path:
            table = table.setdefault(part, {})
        table[last] = value
    return tables


def flattened(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Convert nested tables to values by dotted name: the inverse of `nested`."""
    flat: dict[str, Any] = {}
    for name, value in tables.items():
        flat |= flattened(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


def look_up(recipe: Recipe, name: str) -> Any:
    """Look up a recipe's value by its dotted name."""
    known = flattened(recipe_tables(recipe))
    if name not in known:
        raise UsageError(f"this model has no setting {name}; name others in [tune.knobs]")
    return known[name]


@cache
def _tables_type(architecture: Any) -> Any:
    """Make the dataclass that `convert` checks a recipe's tables against, for this architecture."""
    gap_policy: Any = Literal[tuple(POLICIES)]
    learned_from: Any = Literal[tuple(LEARNED_FROM)]
    of_architecture = [(part.name, part.type) for part in fields(architecture)]
    of_recipe = [
        ("name", str, ""),
        ("preset", str, ""),
        ("floor", Finite | None, None),
        ("same_air", bool, False),
        ("scaling", ScalingKind, ""),
        ("gap_policy", gap_policy, ""),
        ("learned_from", learned_from, ""),
    ]
    model = make_dataclass("Model", [("window", WindowLength), *of_architecture, *of_recipe])
    selection = ("selection", SelectionRules, field(metadata={"was": "ladder"}))  # its name in older files
    return make_dataclass("Tables", [("model", model), ("training", TrainingSettings), selection])
