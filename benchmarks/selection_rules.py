"""Rules of model selection, left out one set at a time: those that the other sets choose, scored on the set left out.

    python -m benchmarks.selection_rules DATA [--others accuracy.json] [--tasks NO2] [--work out/rules] [--json]

Every real task of accuracy.toml is trained with three members for each of RULES; what start and members give on
validation and test is kept in --work, so a run resumes. Which share the network gets is then arithmetic, by each of
`shares`. Ratios are to the best other method of accuracy.py, whose --json is --others; without it, to the rules that we
ship. Every set counts once.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.accuracy_page import SINGLE
from benchmarks.accuracy_tasks import AccuracyTask, load_tasks, read_task, split_task
from scare.calibrator.linear import same_unit
from scare.calibrator.plan import run
from scare.data.flags import TRAINING, drop_dead_devices
from scare.data.split import Split
from scare.files import replacing
from scare.models.selection import BlendWeight, SelectionRules
from scare.training.data import prepare_inputs
from scare.training.fit import train_members
from scare.training.loop import SCORED, Trained
from scare.training.recipe import Recipe
from scare.windowing.training_examples import Examples, make_examples

STDERR, MEMBERS = Console(stderr=True, width=160), 3
RULES = {
    "ours": SelectionRules(),
    "clear_improvement 0.2": SelectionRules(clear_improvement=0.2),
}
RAMPS = (0.0, 0.05), (0.0, 0.1), (0.03, 0.08), (0.05, 0.15)  # network_from, network_full
LEAST = 0.05, 0.3, 0.5  # min_share
OURS = "ours, together 0.03 to 0.08, least 0.3"


class Outputs(NamedTuple):
    """Scaled outputs of the linear start [n] and of the members [members, n], and the reference [n].

    `plain` [2 or 0, n] is the raw reading, as it is and with an offset, if it has the reference's unit.
    """

    start: np.ndarray
    members: np.ndarray
    targets: np.ndarray
    plain: np.ndarray


class Kept(NamedTuple):
    """Outputs of a task trained once: on validation, which the rules see, and on test.

    `unit` is the target's unit for one scaled unit: errors are multiplied by it.
    """

    validation: Outputs
    test: Outputs
    unit: float


Share = Callable[[Outputs], np.ndarray]  # from the outputs on validation to each member's share in the blend [members]


def keep(task: AccuracyTask, split: Split, rules: SelectionRules) -> dict[str, np.ndarray]:
    """Train a task by these rules; returns what its start and members output on validation and test."""
    recipe = replace(Recipe.preset("default", task.window, members=MEMBERS), rules=rules)
    parts, _ = drop_dead_devices({TRAINING: split.train, "validation": split.validation, "test": split.test})
    train, validation, test = parts[TRAINING], parts["validation"], parts["test"]
    inputs, target = prepare_inputs(train, validation, recipe)
    examples = make_examples(train, replace(inputs, policy=recipe.learned_from))
    validation_examples, new = make_examples(validation, inputs), make_examples(test, inputs)
    scaling = inputs.scaling.target
    members = train_members(recipe, examples, validation_examples, float(scaling.scale[0]), None)
    comparable = same_unit(inputs.channels[0], target)
    offset = float((examples.targets - scaling.apply(examples.readings[:, None])[:, 0]).mean())
    found: dict[str, np.ndarray] = {"unit": scaling.scale}
    for name, part in (("validation", validation_examples), ("test", new)):
        plain = scaling.apply(part.readings[:, None])[:, 0] + [[0.0], [offset]] if comparable else np.empty((0, 0))
        # A share of 0 is the linear start, the same for all members; a share of 1 is the network alone.
        start = _outputs(members[0], 0.0, part)
        networks = np.stack([_outputs(member, 1.0, part) for member in members])
        outputs = Outputs(start, networks, part.targets, plain)
        found |= {f"{name}.{field}": array for field, array in outputs._asdict().items()}
    return found


def _outputs(member: Trained, share: float, examples: Examples) -> np.ndarray:
    """Scaled outputs [n] of a member whose network has this share in the blend."""
    parts = [np.arange(start, min(start + SCORED, len(examples))) for start in range(0, len(examples), SCORED)]
    return np.concatenate([run(member.plan(share), examples.windows(part)) for part in parts])


def load(path: Path) -> Kept:
    """Load what `keep` returned for a task."""
    with np.load(path) as found:
        parts = [Outputs(*(found[f"{part}.{field}"] for field in Outputs._fields)) for part in ("validation", "test")]
        return Kept(*parts, float(found["unit"][0]))


def shares() -> dict[str, Share]:
    """List the ways to choose the network's share in the blend, by name.

    `together` chooses one share for the mean of the members, `apart` one for each.
    """

    def ramp(rules: SelectionRules, together: bool) -> Share:
        def share(seen: Outputs) -> np.ndarray:
            given = [seen.members.mean(axis=0)] * MEMBERS if together else seen.members
            return np.array([BlendWeight.fit(one, seen.start, seen.targets, rules).share for one in given])

        return share

    ramps = {
        f"{start:g} to {full:g}, least {least:g}": SelectionRules(
            network_from=start, network_full=full, min_share=least
        )
        for (start, full), least in product(RAMPS, LEAST)
    }
    found = {
        f"{how} {name}": ramp(rules, how == "together")
        for how in ("together", "apart")
        for name, rules in ramps.items()
    }
    return {"no network": lambda seen: np.zeros(MEMBERS), "network alone": lambda seen: np.ones(MEMBERS), **found}


def rmse(kept: Kept, share: Share) -> float:
    """RMSE on test of the blend or raw reading that is best on validation, in the target's unit."""
    validation, test, unit = kept
    shares = share(validation)
    on_validation, on_test = ([_blend(part, shares), *part.plain] for part in (validation, test))
    # Of equal errors the last way counts: a raw reading goes before the blend.
    ways = reversed(range(len(on_validation)))
    best = min(ways, key=lambda way: _root_mean_square(on_validation[way] - validation.targets))
    return _root_mean_square(on_test[best] - test.targets) * unit


def _blend(part: Outputs, shares: np.ndarray) -> np.ndarray:
    """Blend the start with each member by its share, and average over members [n]."""
    return part.start + np.mean(shares[:, None] * (part.members - part.start), axis=0)


def _root_mean_square(errors: np.ndarray) -> float:
    return float(np.sqrt(np.square(errors).mean()))


def leave_out(errors: dict[str, dict[str, float]], sets: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Yield each set with the rules that have the least error on the others; `errors` by rules and task, as ratios."""
    for name in sets:
        others = {other: tasks for other, tasks in sets.items() if other != name}
        yield name, min(errors, key=lambda rules: mean_over_sets(errors[rules], others))


def mean_over_sets(errors: dict[str, float], sets: dict[str, list[str]]) -> float:
    """Compute the geometric mean of errors by task, in which every set counts once."""
    return float(np.exp(np.mean([np.mean([np.log(errors[task]) for task in tasks]) for tasks in sets.values()])))


def best_others(path: Path) -> dict[str, float]:
    """Find the lowest RMSE of a method that is not ours, by task, from the JSON of accuracy.py."""
    tasks = json.loads(path.read_text())
    return {
        task: min(
            float(row["rmse"])
            for row in found["rows"]
            if not row["failed"] and row["method"] != SINGLE and not row["method"].startswith(f"{SINGLE}-")
        )
        for task, found in tasks.items()
    }


def train_all(tasks: Sequence[AccuracyTask], options: argparse.Namespace) -> dict[str, dict[str, Kept]]:
    """Train every task by every set of rules; what is in `--work` already is not trained again."""
    found: dict[str, dict[str, Kept]] = {name: {} for name in RULES}
    for task in tasks:
        split = None
        for name, rules in RULES.items():
            path = options.work / f"{task.name}, {name}.npz".replace(" ", "-")
            if not path.exists():
                split = split or split_task(task, read_task(task, options.data), options.data)
                with replacing(path) as file:
                    np.savez(file, **keep(task, split, rules))
                STDERR.print(f"{task.name}: {name}")
            found[name][task.name] = load(path)
    return found


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of the files")
    parser.add_argument("--others", type=Path)
    parser.add_argument("--tasks", default="", help="tasks with one of these words in their names, comma-separated")
    parser.add_argument("--work", type=Path, default=Path("out/rules"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    tasks = [task for task in load_tasks(options.tasks) if task.files and list(options.data.glob(task.files))]
    kept = train_all(tasks, options)
    errors = {
        f"{rules}, {name}": {task: rmse(one, share) for task, one in found.items()}
        for rules, found in kept.items()
        for name, share in shares().items()
    }
    scale = best_others(options.others) if options.others else errors[OURS]
    ratios = {rules: {task: error / scale[task] for task, error in found.items()} for rules, found in errors.items()}
    sets = {name: [task.name for task in tasks if task.set == name] for name in dict.fromkeys(one.set for one in tasks)}
    print_table(ratios, sets)
    if options.json:
        json.dump({"ratios": ratios, "sets": sets}, sys.stdout, indent=1)


def print_table(ratios: dict[str, dict[str, float]], sets: dict[str, list[str]]) -> None:
    """Print which rules the other sets choose for each set, and their error there."""
    table = Table("set left out", "tasks", "chosen by the others", "RMSE there", "of the rules we ship")
    left_out = {}
    for name, rules in leave_out(ratios, sets):
        here = {name: sets[name]}
        left_out |= {task: ratios[rules][task] for task in sets[name]}
        numbers = (mean_over_sets(ratios[one], here) for one in (rules, OURS))
        table.add_row(name, str(len(sets[name])), rules, *(f"{number:.3f}" for number in numbers))
    means = (mean_over_sets(one, sets) for one in (left_out, ratios[OURS]))
    table.add_row("geometric mean", "", "", *(f"{number:.3f}" for number in means))
    STDERR.print(table)
    for rules in sorted(ratios, key=lambda one: mean_over_sets(ratios[one], sets)):
        STDERR.print(f"{mean_over_sets(ratios[rules], sets):.4f} {rules}")


if __name__ == "__main__":
    main()
