"""Golden vectors: windows that an export carries, the results it must give for them, and how far off each may be.

Results are in double precision, tolerances by the rule of `parity`. Comes from `calibrator`; every target writes them,
`board.verifying` runs them.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.parity import (
    FLOAT32_TOLERANCE,
    INTEGER_TOLERANCE,
    INTEGER_WEIGHTS_TOLERANCE,
    ROUNDINGS,
    TIE,
    deviation,
    hash_steps,
    magnitudes,
    nearest_to_tie,
    rounding,
)
from scare.calibrator.plan import Plan, run
from scare.errors import DataError

GOLDEN = "golden.safetensors"
MOST_NUMBERS = 1 << 15  # in all golden windows of an export, but one window always


@dataclass(frozen=True)
class GoldenVectors:
    """Scaled windows [n, window, channels], results in the target's unit [n], how far off each may be [n].

    `ties` [n] says which have a hash activation, or a choice of a branch, that is as good as undecided; `tokens` are
    hashed in all of them.
    """

    windows: np.ndarray
    results: np.ndarray
    tolerances: np.ndarray
    ties: np.ndarray
    tokens: int = 0

    def as_bytes(self, model: str) -> bytes:
        """A safetensors file for the model of this name."""
        real = {"windows": self.windows, "results": self.results, "allowed": self.tolerances}
        whole = {"ties": self.ties.astype(np.uint8), "tokens": np.array([self.tokens])}
        return save({**real, **whole}, {"model": model})

    @staticmethod
    def read(path: Path) -> "GoldenVectors":
        """From such a file."""
        try:
            with safe_open(path, "numpy") as file:
                parts = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            windows, results, tolerances = (parts[name] for name in ("windows", "results", "allowed"))
            ties, tokens = parts["ties"].astype(bool), int(parts["tokens"][0])
            return GoldenVectors(windows, results, tolerances, ties, tokens)
        except (OSError, SafetensorError, KeyError) as error:
            raise DataError(f"{path}: golden vectors cannot be read from it; export again ({error})") from error


def golden_vectors(
    calibrator: Calibrator, integer_weights: bool = False, integer_plan: Plan | None = None
) -> GoldenVectors:
    """What an export of a calibrator must give for its golden windows.

    Where a plan in integers is what was exported, its results are exact: only the target's unit is left to round.
    """
    plan = calibrator.plan
    most = max(1, MOST_NUMBERS // (plan.window * plan.channels))
    windows = calibrator.golden.windows[:most].astype(np.float32)
    tokens = sum(plan.shapes[step.output][0] for step in hash_steps(plan)) * len(windows)
    exact = run(integer_plan or plan.astype(np.float64), windows if integer_plan else windows.astype(np.float64))
    target = calibrator.inputs.scaling.target
    results, scale = target.invert(exact.astype(np.float64)[:, None])[:, 0], float(target.scale[0])
    spread = deviation(calibrator) * scale
    sizes = magnitudes(results, np.abs(exact) * scale, spread)
    if integer_plan:
        return GoldenVectors(windows, results, INTEGER_TOLERANCE * sizes, np.zeros(len(windows), bool), tokens)
    tolerances = np.maximum(FLOAT32_TOLERANCE * sizes, ROUNDINGS * rounding(calibrator) * scale)
    tolerances = np.maximum(tolerances, INTEGER_WEIGHTS_TOLERANCE * spread * integer_weights)
    return GoldenVectors(windows, results, tolerances, nearest_to_tie(plan, windows) < TIE, tokens)


def reference_rmse(calibrator: Calibrator, values: np.ndarray) -> float:
    """The root mean squared error of values [n] to the reference on the file's validation windows; NaN without any."""
    return float(np.sqrt(np.mean((values - calibrator.validation.numbers) ** 2))) if len(values) else float("nan")
