"""The outcome of a search: the front beside the preset, what does not fit, and a config file a member of the front.

The folds chose the front, so its scores on them are optimistic; only rows that the search never saw tell how much.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from scare.experiments.tuning.search import Search
from scare.experiments.tuning.trials import Trial
from scare.files import replacing
from scare.records import merged
from scare.training.recipes import nested

OBJECTIVES = ("rmse", "top5_rmse")
CONFIG = "best-{}.toml"


def make_outcome(search: Search) -> dict[str, Any]:
    """The outcome as plain values: candidates of each kind, in order, and how many there are."""
    trials = search.trials()
    preset = next((trial for trial in trials if trial.number == 0 and search.finished(trial)), None)
    front = search.front(trials)
    over = sorted((trial for trial in trials if not search.fits(trial)), key=search.times_over)
    failed = [trial for trial in trials if trial.failed is not None]
    scored = [trial for trial in trials if search.finished(trial)]
    ended = [trial for trial in trials if 0 < len(trial.scores) < search.terms.folds and trial.failed is None]
    return {
        "front": [describe(search, trial, preset) for trial in front],
        "preset": describe(search, preset, preset) if preset else None,
        "does_not_fit": [describe(search, trial, preset) for trial in over],
        "failed": [{**describe(search, trial, None), "reason": trial.failed} for trial in failed],
        "candidates": {
            "examined": len(trials),
            "scored_on_all_folds": len(scored),
            "ended_after_one_fold": len(ended),
            "over_budget": len(over),
            "failed": len(failed),
        },
        **({"left_out": list(search.left_out)} if search.left_out else {}),
    }


def describe(search: Search, trial: Trial, preset: Trial | None) -> dict[str, Any]:
    """One candidate: values, cost and reasons, means over the folds, and paired differences to the preset.

    The spread is the standard deviation over the folds (n - 1); one fold has none.
    """
    reasons = search.terms.budget.reasons(trial.cost) if search.terms.budget and trial.cost else []
    facts: dict[str, Any] = {"trial": trial.number, "values": dict(trial.values), "changes": changes(search, trial)}
    facts |= {"cost": trial.cost and dict(trial.cost), "does_not_fit": reasons}
    if search.finished(trial):
        facts |= dict(zip(OBJECTIVES, trial.mean, strict=True)) | {"folds": [list(score) for score in trial.scores]}
        facts |= _differences(trial, preset) if preset else {}
    return facts


def changes(search: Search, trial: Trial) -> dict[str, int | float]:
    """The knobs that are not as in the preset."""
    return {name: value for name, value in trial.values.items() if value != search.preset[name]}


def write_configs(search: Search, front: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> list[Path]:
    """A config file for each member of the front, best-1.toml the one with the least RMSE; older ones go.

    It holds the tables `given` and those of the candidate.
    """
    for old in search.folder.glob(CONFIG.format("*")):
        old.unlink()
    paths = [search.folder / CONFIG.format(place) for place in range(1, len(front) + 1)]
    for path, member in zip(paths, front, strict=True):
        text = tomli_w.dumps(merged(merged(given, search.terms.start), nested(member["values"])))
        with replacing(path) as temporary:
            temporary.write_text(f"# trial {member['trial']}\n{text}", encoding="utf-8")
    return paths


def _differences(trial: Trial, preset: Trial) -> dict[str, float | None]:
    apart = np.array(trial.scores) - np.array(preset.scores)
    spread = apart.std(axis=0, ddof=1).tolist() if len(apart) > 1 else [None, None]
    found: dict[str, float | None] = {}
    for name, mean, deviation in zip(OBJECTIVES, apart.mean(axis=0).tolist(), spread, strict=True):
        found |= {f"{name}_to_preset": mean, f"{name}_to_preset_sd": deviation}
    return found
