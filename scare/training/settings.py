"""Settings of training: how long, how hard, how often it is scored. Which numbers a preset takes is in `presets`."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from annotated_types import Gt, Lt

from scare.errors import UsageError
from scare.records import Amount


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
