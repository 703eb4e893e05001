"""Presets: recipes by name. `default` is what users get (docs/decisions says why), `paper` follows the paper.

A recipe names model, window, gap policy, scaling and the settings of training: all that decides a fit besides the data.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, make_dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Lt

from scare.baselines import MODELS
from scare.errors import UsageError
from scare.models import Architecture, Scare
from scare.models.selection import SelectionRules
from scare.records import Amount, Finite, convert, merge
from scare.windowing.grid import ANY, LEARNED_FROM, POLICIES, RECENT, GapPolicy
from scare.words import suggestion

# Settings of training: how long, how hard, how often it is scored. Which numbers a preset takes is in `presets`.


@dataclass(frozen=True)
class Settings:
    """How long and how hard to train. Length is `epochs` if given, else `windows` if given, else `steps`."""

    steps: int = 3000
    epochs: int = 0
    windows: int = 0  # learned from, in as many steps as batches of them
    batch: int = 64
    rate: Amount = 5e-3  # peak learning rate
    warm_up: Amount = 0.05  # share of the steps in which the rate rises from 0
    cosine: bool = True  # the rate falls to 0 in a half cosine; otherwise it stays
    weight_decay: Amount = 1e-2
    clip: Amount = 1.0  # largest norm of a gradient; 0 = any
    average: Amount = 0.995  # share kept of the running mean of weights that is scored and shipped; 0 = no mean
    either: bool = False  # the weights themselves are scored beside their mean, and the better is shipped
    checkpoints: int = 10  # scored on validation; with `epochs`, one after each
    freeze_at: Amount = 0.6  # share of the steps after which the support set no longer changes
    candidates: int = 1  # support sets drawn at a checkpoint, of which the best on validation is kept
    members: int = 1  # networks trained, with seed, seed + 1, …; what is shipped is the mean of their outputs
    seed: int = 0
    level: Annotated[float, Gt(0), Lt(1)] = 0.9  # share of the truth that intervals are to cover

    def __post_init__(self) -> None:
        for name in ("batch", "checkpoints", "candidates", "members"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        if min(self.epochs, self.windows) < 0 or (not self.epochs and self._steps < 1):
            raise UsageError("give at least one step or one epoch of training")
        if not self.rate > 0:
            raise UsageError(f"the learning rate must be above 0, not {self.rate:g}")
        if self.seed < 0:
            raise UsageError(f"a seed cannot be negative, as {self.seed} is")

    def rounds(self, examples: int) -> list[int]:
        """Steps from each checkpoint to the next; with `epochs`, a round is an epoch.

        >>> Settings(steps=25, checkpoints=10).rounds(1000)
        [2, 3, 2, 3, 2, 3, 2, 3, 2, 3]
        >>> Settings(epochs=2, batch=32).rounds(100)
        [4, 4]
        >>> sum(Settings(windows=64_000, batch=32).rounds(100))
        2000
        """
        if self.epochs:
            return [-(-examples // self.batch)] * self.epochs
        count = min(self.checkpoints, self._steps)
        borders = [self._steps * index // count for index in range(count + 1)]
        return [after - before for before, after in pairwise(borders)]

    @property
    def _steps(self) -> int:
        return -(-self.windows // self.batch) if self.windows else self.steps


Window = Annotated[int, Ge(4)]  # readings
PAPER = Settings(
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


# A rival sees as many windows as ours, by the common recipe: Adam without decay, the best checkpoint kept, of its
# weights or of their running mean.
RIVAL = Settings(rate=3e-3, weight_decay=0.0, either=True)


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a fit besides the data."""

    name: str = "default"
    model: Architecture = field(default_factory=Scare.default)
    window: Window = 60
    policy: GapPolicy = RECENT  # when a window is good enough to be used
    learned_from: GapPolicy = ANY  # when it is good enough to be learned from
    scaling: str = "standard"
    per_device: bool | None = None  # scale devices apart; None: if that is better on validation, on the same devices
    settle_hours: float = 96.0  # of readings, before a device not trained on gets a scaling of its own
    floor: float | None = None  # what a calibrated value is never below, in the target's unit
    settings: Settings = field(default_factory=Settings)
    rules: SelectionRules = field(default_factory=SelectionRules)  # what complexity must earn

    def __post_init__(self) -> None:
        if self.window < 4:
            raise UsageError(f"a window needs at least 4 readings, not {self.window}")

    @staticmethod
    def preset(name: str, window: int = 0, model: str = "scare", **settings: Any) -> "Recipe":
        """A preset for a model with this window (0: its own) and these training settings.

        >>> Recipe.preset("paper", window=360, seed=5).settings.batch
        32
        """
        for kind, given, known in (("preset", name, PRESETS), ("model", model, MODELS)):
            if given not in known:
                raise UsageError(f"no {kind} called '{given}'{suggestion(given, known)}")
        chosen = PRESETS[name]
        if model != "scare":
            rival = chosen.settings if name == "paper" else RIVAL
            chosen = replace(chosen, model=MODELS[model].default(), settings=rival)
        if settings.get("steps") or settings.get("windows"):
            settings.setdefault("epochs", 0)
        return replace(chosen, window=window or chosen.window, settings=replace(chosen.settings, **settings))


PRESETS = {
    "default": Recipe(),
    "paper": Recipe("paper", Scare.paper(), 360, RECENT, RECENT, "constant", False, 0.0, settings=PAPER),
}


# Recipes as tables: [model], [training] and [selection] of a `--config` file say what differs from a preset.
#
#     [model]
#     preset = "default"
#     window = 120
#     front = { width = 12 }
#     [training]
#     rate = 0.0025
#     [selection]
#     clear_improvement = 0.2
#
# `scare tune` writes them, `scare train` reads them (docs/config.md).


Table = Mapping[str, Any]


class ScalingKind(StrEnum):
    """How channels are scaled."""

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


def make_recipe(tables: Table, where: Path | str) -> Recipe:
    """The recipe that the tables describe; `where` they came from begins the message about a wrong value.

    >>> make_recipe({"model": {"preset": "paper", "window": 60}, "training": {"seed": 5}}, "r.toml").settings.batch
    32
    """
    model = tables.get("model", {})
    try:
        preset = Recipe.preset(str(model.get("preset", "default")), model=str(model.get("name", "scare")))
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    return adjust(preset, tables, where)


def adjust(recipe: Recipe, tables: Table, where: Path | str) -> Recipe:
    """The recipe with the values of tables.

    >>> adjust(Recipe(), {"model": {"window": 24, "front": {"width": 4}}}, "r.toml").model.front.width
    4
    >>> adjust(Recipe(), {"training": {"rat": 0.1}}, "r.toml")
    Traceback (most recent call last):
    scare.errors.UsageError: r.toml: unknown key 'rat' in [training]; did you mean 'rate'?
    """
    training = tables.get("training")
    if isinstance(training, Mapping) and training.keys() & {"steps", "windows"}:
        tables = {**tables, "training": {"epochs": 0, **training}}
    kind: Any = recipe.model.__class__
    changed = convert(merge(describe(recipe), tables), _tables_of(kind), where)
    model = kind(**{field.name: getattr(changed.model, field.name) for field in fields(kind)})
    own = changed.model
    parts: dict[str, Any] = {"model": model, "window": own.window, "floor": own.floor, "settings": changed.training}
    parts |= {"policy": POLICIES[own.gap_policy], "learned_from": LEARNED_FROM[own.learned_from]}
    return replace(recipe, **parts, rules=changed.selection, **SCALINGS[own.scaling])


def describe(recipe: Recipe) -> dict[str, Any]:
    """The tables of a recipe, every key with its value."""
    architecture: Any = recipe.model
    policies = {"gap_policy": recipe.policy.name, "learned_from": recipe.learned_from.name}
    own = {"window": recipe.window, "floor": recipe.floor, "scaling": ScalingKind.AUTO}
    model = {**own, **policies, **asdict(architecture)}
    return {"model": model, "training": asdict(recipe.settings), "selection": asdict(recipe.rules)}


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted name as tables in tables.

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


def flattened(tables: Table, prefix: str = "") -> dict[str, Any]:
    """Tables in tables as values by dotted name: the inverse of `nested`."""
    flat: dict[str, Any] = {}
    for name, value in tables.items():
        flat |= flattened(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


def look_up(recipe: Recipe, name: str) -> Any:
    """The recipe's value of a dotted name."""
    known = flattened(describe(recipe))
    if name not in known:
        raise UsageError(f"this model has no {name}; [tune.knobs] names what to search instead")
    return known[name]


@cache
def _tables_of(architecture: Any) -> Any:
    """What tables may say of a recipe with this architecture."""
    used: Any = Literal[tuple(POLICIES)]
    learned: Any = Literal[tuple(LEARNED_FROM)]
    policies = [("gap_policy", used, ""), ("learned_from", learned, "")]
    floor = ("floor", Finite | None, None)
    own = [("name", str, ""), ("preset", str, ""), floor, ("scaling", ScalingKind, ""), *policies]
    parts = [(field.name, field.type) for field in fields(architecture)]
    model = make_dataclass("Model", [("window", Window), *parts, *own])
    return make_dataclass(
        "Tables",
        [("model", model), ("training", Settings), ("selection", SelectionRules, field(metadata={"was": "ladder"}))],
    )
