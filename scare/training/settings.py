"""Settings of a fit: the optimiser's, and the recipe that names model, window, gap policy and scaling.

Two presets: `default` is what users get (docs/decisions/default.md says why each number), `paper` follows the paper.
"""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from scare.errors import UsageError
from scare.models import MODELS, Architecture, Scare
from scare.windowing.slicing import POLICIES, RECENT, GapPolicy
from scare.words import suggestion


@dataclass(frozen=True)
class Settings:
    """How long and how hard to train. Length is `epochs` if given, else `steps`."""

    steps: int = 3000
    epochs: int = 0
    batch: int = 64
    rate: float = 5e-3  # peak learning rate
    warm_up: float = 0.05  # share of the steps in which the rate rises from 0
    cosine: bool = True  # the rate falls to 0 in a half cosine; otherwise it stays
    weight_decay: float = 1e-2
    clip: float = 1.0  # largest norm of a gradient; 0 = any
    average: float = 0.995  # share kept of the running mean of weights that is scored and shipped; 0 = no mean
    checkpoints: int = 10  # scored on validation; with `epochs`, one after each
    freeze_at: float = 0.6  # share of the steps after which the support set no longer changes
    candidates: int = 1  # support sets drawn at a checkpoint, of which the best on validation is kept
    members: int = 1  # networks trained, with seed, seed + 1, …; what is shipped is the mean of their outputs
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batch", "checkpoints", "candidates", "members"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.epochs < 0 or (self.epochs == 0 and self.steps < 1):
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
        """
        if self.epochs:
            return [-(-examples // self.batch)] * self.epochs
        count = min(self.checkpoints, self.steps)
        borders = [self.steps * index // count for index in range(count + 1)]
        return [after - before for before, after in pairwise(borders)]


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


# A rival sees as many windows as ours, by the common recipe: Adam without decay, the best checkpoint kept.
RIVAL = Settings(rate=1e-3, weight_decay=0.0, average=0.0)


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a fit besides the data."""

    name: str = "default"
    model: Architecture = field(default_factory=Scare.default)
    window: int = 60
    policy: GapPolicy = RECENT
    scaling: str = "standard"
    per_device: bool | None = None  # scale devices apart; None: if that is better on validation, on the same devices
    settle_hours: float = 96.0  # of readings, before a device not trained on gets a scaling of its own
    settings: Settings = Settings()

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
        if settings.get("steps"):
            settings.setdefault("epochs", 0)
        return replace(chosen, window=window or chosen.window, settings=replace(chosen.settings, **settings))


PRESETS = {
    "default": Recipe(),
    "paper": Recipe("paper", Scare.paper(), 360, RECENT, "constant", False, 0.0, PAPER),
}

__all__ = ["MODELS", "POLICIES", "PRESETS", "Recipe", "Settings"]
