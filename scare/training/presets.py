"""Presets: recipes by name. `default` is what users get (docs/decisions says why), `paper` follows the paper.

A recipe names model, window, gap policy, scaling and the settings of training: all that decides a fit besides the data.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from annotated_types import Ge

from scare.errors import UsageError
from scare.models import MODELS, Architecture, Scare
from scare.models.ladder import Rules
from scare.training.settings import Settings
from scare.windowing.slicing import ANY, RECENT, GapPolicy
from scare.words import suggestion

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
    rules: Rules = field(default_factory=Rules)  # what complexity must earn

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
