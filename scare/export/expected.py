"""What an export must give: golden windows, their results in double precision, and how far off each may be.

The rule is that of the parity certificate (docs/certificate.md): in float32 a result is within 10⁻⁵ of the larger of
itself and the target's standard deviation, or within twice what float32 rounds in NumPy itself. Weights in int8 may
move it by 2 % of the standard deviation. A hash activation that is as good as zero may have either sign, and a choice
that is as good as undecided may be either.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.kernels import hash_activations
from scare.calibrator.kernels.choice import THRESHOLD
from scare.calibrator.plan import Plan, run, values
from scare.errors import DataError

NUMBERS, INTEGERS = 1e-5, 0.02  # how far off a result may be, of itself or of the standard deviation; of the latter
EXACT = 1e-6  # the same where all but the unit is integer
ROUNDINGS = 2.0  # times the largest error of float32 in NumPy that a result may be off, if that is more
TIE = 1e-4  # an activation nearer to zero is a tie
HASH, GOLDEN, MODEL = "hash_codes", "golden.safetensors", "model"
MOST_NUMBERS = 1 << 15  # in all golden windows of an export, but one window always


@dataclass(frozen=True)
class Expected:
    """Scaled windows [n, window, channels], results in the target's unit [n], how far off each may be [n].

    `ties` [n] says which have a hash activation, or a choice of a branch, that is as good as undecided; `tokens` are
    hashed in all of them. `model` is what the export calls the model.
    """

    windows: np.ndarray
    results: np.ndarray
    allowed: np.ndarray
    ties: np.ndarray
    tokens: int = 0
    model: str = ""

    def as_bytes(self, model: str) -> bytes:
        """A safetensors file for the model of this name."""
        real = {"windows": self.windows, "results": self.results, "allowed": self.allowed}
        whole = {"ties": self.ties.astype(np.uint8), "tokens": np.array([self.tokens])}
        return save({**real, **whole}, {MODEL: model})

    @staticmethod
    def read(path: Path) -> "Expected":
        """From such a file."""
        try:
            with safe_open(path, "numpy") as file:
                parts = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                model = (file.metadata() or {})[MODEL]
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", model):
                raise KeyError(f"a model called {model!r}")  # it becomes part of a path
            windows, results, allowed = (parts[name] for name in ("windows", "results", "allowed"))
            return Expected(windows, results, allowed, parts["ties"].astype(bool), int(parts["tokens"][0]), model)
        except (OSError, SafetensorError, KeyError) as error:
            raise DataError(f"{path}: golden windows cannot be read from it; export again ({error})") from error


def expect_results(calibrator: Calibrator, integer_weights: bool = False, integer_plan: Plan | None = None) -> Expected:
    """What an export of a calibrator must give for its golden windows.

    Where a plan in integers is what was exported, its results are exact: only the target's unit is left to round.
    """
    plan = calibrator.plan
    most = max(1, MOST_NUMBERS // (plan.window * plan.channels))
    windows = calibrator.golden.windows[:most].astype(np.float32)
    tokens = sum(plan.shapes[step.output][0] for step in plan.steps if step.kernel == HASH)
    exact = run(integer_plan or plan.astype(np.float64), windows if integer_plan else windows.astype(np.float64))
    target = calibrator.inputs.scaling.target
    results, scale = target.invert(exact.astype(np.float64)[:, None])[:, 0], float(target.scale[0])
    spread = deviation(calibrator) * scale
    sizes = np.maximum(np.abs(results), np.abs(exact) * scale).clip(min=spread)
    if integer_plan:
        return Expected(windows, results, EXACT * sizes, np.zeros(len(windows), bool), tokens * len(windows))
    allowed = np.maximum(NUMBERS * sizes, ROUNDINGS * rounding(calibrator) * scale)
    allowed = np.maximum(allowed, INTEGERS * spread * integer_weights)
    return Expected(windows, results, allowed, from_tie(plan, windows) < TIE, tokens * len(windows))


def reference_rmse(calibrator: Calibrator, values: np.ndarray) -> float:
    """The root mean squared error of values [n] to the reference on the file's validation windows; NaN without any."""
    return float(np.sqrt(np.mean((values - calibrator.validation.numbers) ** 2))) if len(values) else float("nan")


def deviation(calibrator: Calibrator) -> float:
    """The target's standard deviation, scaled: 1 where it is scaled by it, or where it is not known."""
    scaling, numbers = calibrator.inputs.scaling, calibrator.validation.numbers
    if scaling.method == "standard" or len(numbers) < 2:
        return 1.0
    return float(np.std(numbers) / scaling.target.scale[0]) or 1.0


def rounding(calibrator: Calibrator) -> float:
    """The largest error of float32 in NumPy on the model's own windows, scaled, where hash codes agree."""
    windows = np.concatenate([calibrator.golden.windows, calibrator.validation.windows])
    if not len(windows) or calibrator.plan.branches is not None:
        return 0.0
    names = {step.output for step in calibrator.plan.steps if step.kernel == HASH}
    last = calibrator.plan.steps[-1].output
    single = values(calibrator.plan, windows, {last, *names})
    double = values(calibrator.plan.astype(np.float64), windows.astype(np.float64), {last, *names})
    alike = np.ones(len(windows), bool)
    for name in names:
        alike &= (single[name] == double[name]).all(axis=1)
    return float(np.abs(single[last] - double[last])[alike].max(initial=0.0))


def from_tie(plan: Plan, windows: np.ndarray) -> np.ndarray:
    """How far the hash activation nearest to zero is from it, or a choice from its threshold, [n]; else infinity."""
    nearest = np.full(len(windows), np.inf)
    if plan.branches is not None:
        return np.abs(run(plan.branches[0], windows) - THRESHOLD)
    steps = [step for step in plan.steps if step.kernel == HASH]
    if not steps:
        return nearest
    sources = values(plan, windows, {step.inputs[0] for step in steps})
    for step in steps:
        sizes = np.abs(hash_activations(sources[step.inputs[0]], step.weights, step.settings))
        nearest = np.minimum(nearest, sizes.min(axis=(1, 2)))
    return nearest
