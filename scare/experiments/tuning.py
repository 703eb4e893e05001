"""Tuning searches a preset's knobs for less error on forward folds, within a budget of a board and of time.

`proposing` proposes, `trials` examines, plain files remember: a search that is run again goes on from them. The two
objectives are the means over the folds of RMSE and of top-5 % RMSE. All candidates are scored on the same rows, those
that every window length has a value for.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from math import prod
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import optuna
import polars as pl
import tomli_w
from annotated_types import MinLen

from scare.board.boards import board
from scare.board.measure import measure
from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.intervals import LEVEL, Intervals
from scare.calibrator.passes import average, fold
from scare.data.readings import REFERENCE, Readings
from scare.data.split import Split, known_times, split_by_time
from scare.errors import DataError, ScareError, UsageError
from scare.executor import LOCAL, Executor, keep, open_executor, pack, work_on_sent
from scare.experiments.jax_cache import forget_compiled, keep_compiled
from scare.experiments.random_weights import SAMPLES, draw_plan
from scare.experiments.study import compare, prepare, read_parts
from scare.export.package import export_calibrator
from scare.files import replacing
from scare.records import convert, merged, read_json
from scare.training.data import common_step, prepare_inputs
from scare.training.extrapolation import scaled_rows
from scare.training.fit import fit
from scare.training.recipe import Recipe, adjust, flattened, look_up, make_recipe, nested
from scare.windowing.examples import make_examples
from scare.windowing.inputs import WindowStream
from scare.windowing.training_range import fit_training_range

# A budget on a board: what a candidate may take, and what it takes before it is trained.
#
# A network with random weights (with `random_weights`) already has the RAM, flash and instructions of the trained one.


UNITS = {"instructions": "instructions", "ram_bytes": "B of RAM", "flash_bytes": "B of flash"}
Cost = Mapping[str, int]


@dataclass(frozen=True)
class Budget:
    """The most that one inference, the memory and the program may take on a board; None: not limited."""

    board: str
    arithmetic: str
    instructions: int | None
    ram_bytes: int
    flash_bytes: int

    @staticmethod
    def of(name: str, arithmetic: str, instructions: int | None, ram: int | None, flash: int | None) -> "Budget":
        """A budget on the board of this name; its own memory is the limit where none is given."""
        found = board(name)
        if instructions is not None and "instructions" not in found.measures:
            raise UsageError(f"instructions are not counted on {name}; leave out the limit of instructions")
        return Budget(name, arithmetic, instructions, ram or found.ram, flash or found.flash)

    @property
    def limits(self) -> dict[str, int]:
        """What is limited, and to how much."""
        return {name: most for name in UNITS if (most := getattr(self, name)) is not None}

    def __str__(self) -> str:
        """The limits in words."""
        return f"at most {', '.join(f'{most:,} {UNITS[name]}' for name, most in self.limits.items())}"

    def excess(self, cost: Cost) -> dict[str, tuple[int, int]]:
        """What is over the budget: need and limit of each."""
        return {name: (cost[name], most) for name, most in self.limits.items() if cost[name] > most}

    def reasons(self, cost: Cost) -> list[str]:
        """Why a cost is over the budget; empty when it is not.

        >>> Budget.of("nano33ble", "int8", 20_000, None, None).reasons(
        ...     {"instructions": 23_500, "ram_bytes": 2_300, "flash_bytes": 12_000}
        ... )
        ['23,500 instructions of 20,000']
        """
        over = self.excess(cost)
        return [f"{need:,} {UNITS[name]} of {most:,}" for name, (need, most) in over.items()]


def measure_cost(
    recipe: Recipe, train: Sequence[Readings], validation: Sequence[Readings], budget: Budget
) -> dict[str, int]:
    """Instructions of one inference (of a board that counts them), bytes of RAM and of flash, on the budget's board."""
    calibrator = draw_calibrator(recipe, train, validation)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        export_calibrator(calibrator, "c", budget.arithmetic, folder)
        report = measure(folder, board(budget.board), calibrator.golden.windows[:1])
    counted = {"instructions": int(report.instructions["max"])} if report.instructions else {}
    return {**counted, "ram_bytes": report.ram_bytes, "flash_bytes": report.flash_bytes}


def draw_calibrator(recipe: Recipe, train: Sequence[Readings], validation: Sequence[Readings]) -> Calibrator:
    """A calibrator of a recipe with random weights, scaled for these readings."""
    inputs, target = prepare_inputs(train, validation, recipe)
    held = make_examples(validation, inputs)
    windows = held.windows(held.spread(SAMPLES))
    draws = [np.random.default_rng(member) for member in range(recipe.settings.members)]
    plans = [draw_plan(recipe, len(inputs.channels), member, draw) for member, draw in enumerate(draws)]
    sample = Sample(windows, np.zeros(len(windows)))
    inputs = replace(inputs, training_range=fit_training_range(scaled_rows(train, inputs), inputs.window))
    plan, sure = fold(average(plans)).astype(np.float32), Intervals(LEVEL, (), (0.0,), (0.0,))
    return Calibrator(plan, inputs, target, sample, sample, intervals=sure)


# Forward folds: the past trains, what follows validates, what follows that scores, again and again.
#
#     rows with a reference   |------- train -------|  v  |  t  |           fold 1
#                             |---------- train ----------|  v  |  t  |     fold 2
#
# Comes from `data`; goes to `search` and to benchmarks that report a spread over time.


FIRST = 0.4  # share of the rows with a reference that the first fold trains on


def forward_folds(readings: Sequence[Readings], folds: int, gap_seconds: float) -> list[Split]:
    """Splits by time in which training grows; a fold's test is the next fold's validation.

    The rows with a reference after the first 40 % are cut into `folds` + 1 equal parts: fold k validates on part k and
    is scored on part k + 1. As in `split_by_time`, rows less than `gap_seconds` after a border lose their reference.

    >>> import polars as pl
    >>> from scare.data.readings import Channel
    >>> frame = pl.DataFrame({"time": [datetime(2026, 1, 1, hour) for hour in range(20)], "reference": 7.0})
    >>> folds = forward_folds([Readings("box-1", frame, (), Channel("no2", "ppb"))], 3, gap_seconds=0)
    >>> [[len(part[0]) for part in fold.parts.values()] for fold in folds]
    [[8, 3, 3], [11, 3, 3], [14, 3, 3]]
    """
    if folds < 1:
        raise UsageError(f"there must be at least one fold, not {folds}")
    times = known_times(readings)
    first = np.rint(len(times) * np.linspace(FIRST, 1.0, folds + 2)[:-1]).astype(int)
    borders = [*times[np.minimum(first, len(times) - 1)].tolist(), np.inf]
    return [_fold(readings, borders[fold : fold + 3], gap_seconds, f"fold {fold + 1}") for fold in range(folds)]


def _fold(readings: Sequence[Readings], borders: Sequence[float], gap_seconds: float, name: str) -> Split:
    """Everything before the third border, split at the first two."""
    rows = [one.rows(one.times < borders[2]) for one in readings]
    first, second = (datetime.fromtimestamp(border, UTC) for border in borders[:2])
    split = split_by_time([one for one in rows if len(one)], gap_seconds, borders=(first, second))
    return replace(split, how=f"{name} {split.how}")


# Knobs: what a search may turn, each by its name in a recipe, with the values it may take.


Number = int | float
Knobs = Mapping[str, tuple[Number, ...]]

KNOBS: dict[str, tuple[Number, ...]] = {
    "model.front.width": (4, 8, 12, 16),  # D
    "model.block.hidden": (16, 32, 64),  # F
    "model.attention.bits": (4, 8, 16),  # c
    "model.attention.supports": (8, 16, 32),  # m
    "training.steps": (1500, 3000, 6000),
    "training.rate": (0.00125, 0.0025, 0.005, 0.01, 0.02),
    "training.weight_decay": (0.0, 0.001, 0.01, 0.1),
    "training.members": (1, 2, 3),
}
WINDOW, SEED = "model.window", "training.seed"
LENGTHS = (0.5, 1, 2, 4)  # times the window of the preset
ON_BOARD = ("model.", "training.members")  # how names of knobs begin that change what a board must do


def usual_knobs(preset: Recipe) -> Knobs:
    """The usual knobs, with window lengths around the preset's.

    >>> usual_knobs(Recipe(window=24))["model.window"]
    (12, 24, 48, 96)
    """
    lengths = tuple(max(4, round(share * preset.window)) for share in LENGTHS)
    return _with_preset({WINDOW: lengths, **KNOBS}, preset)


def make_knobs(tables: Mapping[str, Any], preset: Recipe, where: Path | str) -> Knobs:
    """The knobs of [tune.knobs]: the tables of a recipe, with a list of numbers for each key."""
    listed = convert(flattened(tables), dict[str, Annotated[tuple[Number, ...], MinLen(1)]], where)
    if SEED in listed:
        raise UsageError(f"{where}: '{SEED}' is no knob: a seed that scores better is luck")
    for name, values in listed.items():
        for value in values:
            adjust(preset, nested({name: value}), where)
    return _with_preset({WINDOW: (preset.window,), **listed}, preset)


def preset_values(knobs: Knobs, preset: Recipe) -> dict[str, Number]:
    """The preset's own value of each knob."""
    return {name: look_up(preset, name) for name in knobs}


def architecture(values: Mapping[str, Number]) -> dict[str, Number]:
    """The values that change what a board must do."""
    return {name: value for name, value in values.items() if name.startswith(ON_BOARD)}


def _with_preset(knobs: Mapping[str, tuple[Number, ...]], preset: Recipe) -> Knobs:
    """The knobs in order, with the preset's own values among theirs."""
    return {name: tuple(sorted({*knobs[name], value})) for name, value in preset_values(knobs, preset).items()}


# A trial examines one candidate: its cost on a board, then its error on one fold after the other.
#
#     folder/fold-1/…             the readings of a fold, as `study` keeps them
#     folder/trials/0007.json     what a finished trial found
#
# A trial runs in a process of its own and is told plain values. It stops early when the candidate is over the budget,
# or after the first fold when it is hopeless there.


Score = tuple[float, float]  # RMSE, and RMSE of the twentieth of the rows with the largest change


@dataclass(frozen=True)
class Trial:
    """A candidate (values of knobs by dotted name) and what is known of it; trial 0 is the preset itself."""

    number: int
    values: Mapping[str, int | float]
    cost: Cost | None = None
    scores: tuple[Score, ...] = ()  # a fold each
    seconds: float = 0.0
    failed: str | None = None

    @property
    def mean(self) -> Score:
        """The mean over the folds."""
        rmse, top5 = np.mean(self.scores, axis=0).tolist()
        return rmse, top5


@dataclass(frozen=True)
class Terms:
    """What every trial is held to; a candidate beyond both numbers of `hopeless` on the first fold ends there."""

    folds: int
    seed: int = 0
    start: Mapping[str, Any] = field(default_factory=dict)  # tables of the recipe that the search begins at
    budget: Budget | None = None
    hopeless: Score | None = None


def read_trials(folder: Path) -> list[Trial]:
    """The finished trials of a folder, by number."""
    return [read_json(path, Trial) for path in sorted((folder / "trials").glob("[0-9]*.json"))]


def run_sent_trial(packed: bytes, described: dict[str, Any], terms: dict[str, Any]) -> dict[str, bytes]:
    """A trial on folds that were sent: the file of what was found."""
    return work_on_sent(packed, run_trial, described, terms)


def run_trial(folder: str, described: dict[str, Any], terms: dict[str, Any], results: str = "") -> None:
    """Examine one candidate and write what was found to `results`; whatever stops it becomes its reason."""
    trial, begun = convert(described, Trial, "trial"), time.perf_counter()
    try:
        trial = examine(Path(folder), trial, convert(terms, Terms, "trial"))
    except ScareError as error:
        trial = replace(trial, failed=str(error))
    except Exception as error:
        trial = replace(trial, failed=f"{type(error).__name__}: {error}")
    write_trial(Path(folder), replace(trial, seconds=round(time.perf_counter() - begun, 2)), results)
    forget_compiled()


def trial_file(folder: Path, number: int) -> Path:
    """Where the trial of this number is kept."""
    return folder / "trials" / f"{number:04}.json"


def write_trial(folder: Path, trial: Trial, results: str = "") -> None:
    """Keep what a trial found, in the folder's own place or in `results`."""
    path = trial_file(folder, trial.number)
    with replacing(Path(results) / path.name if results else path) as temporary:
        temporary.write_text(json.dumps(asdict(trial), indent=1), encoding="utf-8")


def examine(folder: Path, trial: Trial, terms: Terms) -> Trial:
    """The trial with its cost, and with its scores if it is worth them; the preset itself always is."""
    recipe = recipe_of(trial.values, terms)
    for number in range(1, terms.folds + 1):
        parts = read_parts(folder / f"fold-{number}")
        if terms.budget and trial.cost is None:
            trial = replace(trial, cost=measure_cost(recipe, parts["train"], parts["validation"], terms.budget))
        if trial.number and terms.budget and trial.cost and terms.budget.reasons(trial.cost):
            break
        calibrator = fit(parts["train"], parts["validation"], recipe)
        trial = replace(trial, scores=(*trial.scores, score(calibrator, parts["test"])))
        if trial.number and number == 1 and terms.hopeless and np.all(np.greater(trial.scores[0], terms.hopeless)):
            break
    return trial


def recipe_of(values: Mapping[str, int | float], terms: Terms) -> Recipe:
    """The recipe of a candidate."""
    start = merged(terms.start, {"training": {"seed": terms.seed}})
    return adjust(make_recipe(start, "start"), nested(values), "knobs")


def score(calibrator: Any, test: Sequence[Readings]) -> Score:
    """RMSE and top-5 % RMSE over all test rows that have a reference; a row without a value is refused."""
    found = compare({"": calibrator}, test)[""]
    rows = sum(int(np.isfinite(one.targets).sum()) for one in test)
    if found.rows < rows:
        raise DataError(f"it has no value for {rows - found.rows} of {rows} rows")
    if not np.isfinite([found.rmse, found.top5_rmse]).all():
        raise DataError("its error is not a number, or no row has a known change of the raw reading")
    return found.rmse, found.top5_rmse


# Proposing the next candidate: some around the preset, then Optuna's Parzen estimator for two objectives.
#
# A knob is an ordered list of values, of which Optuna sees the places. It is told of finished trials and keeps nothing.


DRAWN = 10  # candidates drawn at random around the preset before Optuna knows enough
TURNED = 1 / 3  # share of the knobs that are turned in these
ATTEMPTS = 5  # proposals in a row of candidates already known
Errors = Callable[[Trial, Sequence[Trial]], Score]  # of a trial, given all that are finished


class Proposer:
    """A search for small errors over knobs, beginning at the preset's own values."""

    def __init__(self, knobs: Knobs, preset: Mapping[str, int | float], errors: Errors, seed: int) -> None:
        self._knobs, self._preset, self._errors, self._seed = knobs, dict(preset), errors, seed
        self._places: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.IntDistribution(0, len(values) - 1) for name, values in knobs.items()
        }
        self._study: optuna.Study | None = None
        self._open: dict[int, optuna.Trial] = {}
        self._told: set[int] = set()

    def propose(self, done: Sequence[Trial], running: Sequence[Trial]) -> Trial | None:
        """A candidate that is neither finished nor running, the preset first; None when there is nothing new."""
        study = self._tell(done)
        known = [dict(trial.values) for trial in (*done, *running)]
        if self._preset not in known:
            study.enqueue_trial(self._places_of(self._preset))
        if len(known) >= prod(map(len, self._knobs.values())):
            return None
        asked = self._ask(study, known)
        values = self._values_of(asked)
        last = max((trial.number for trial in (*done, *running)), default=0)
        number = 0 if values == self._preset else last + 1
        self._open[number] = asked
        return Trial(number, values)

    def _ask(self, study: optuna.Study, known: Sequence[Mapping[str, int | float]]) -> optuna.Trial:
        """The next candidate that is not known: drawn around the preset at first, and when Optuna repeats itself."""
        for _ in range(ATTEMPTS if self._preset not in known or len(known) > DRAWN else 0):
            asked = study.ask(self._places)
            if self._values_of(asked) not in known:
                return asked
            study.tell(asked, state=optuna.trial.TrialState.FAIL)
        study.enqueue_trial(self._places_of(self._draw(known)))
        return study.ask(self._places)

    def _draw(self, known: Sequence[Mapping[str, int | float]]) -> dict[str, int | float]:
        """The preset with some knobs turned at random, not known."""
        draw, values = Random(self._seed + len(known)), self._preset
        while values in known:
            turned = {name: draw.choice(choices) for name, choices in self._knobs.items() if draw.random() < TURNED}
            values = {**self._preset, **turned}
        return values

    def _tell(self, done: Sequence[Trial]) -> optuna.Study:
        """The study, which knows all finished trials; one that is resumed draws other numbers than before."""
        if self._study is None:
            optuna.logging.set_verbosity(optuna.logging.WARNING)
            sampler = optuna.samplers.TPESampler(n_startup_trials=0, seed=self._seed + len(done), constant_liar=True)
            self._study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
        for trial in (trial for trial in done if trial.number not in self._told):
            self._told.add(trial.number)
            errors = self._errors(trial, done)
            if trial.number in self._open:
                self._study.tell(self._open.pop(trial.number), errors)
            else:
                places = self._places_of(trial.values)
                known = optuna.trial.create_trial(params=places, distributions=self._places, values=errors)
                self._study.add_trial(known)
        return self._study

    def _values_of(self, asked: optuna.Trial) -> dict[str, int | float]:
        return {name: values[asked.params[name]] for name, values in self._knobs.items()}

    def _places_of(self, values: Mapping[str, int | float]) -> dict[str, int]:
        return {name: self._knobs[name].index(value) for name, value in values.items()}


HOPELESS = 1.05  # times the worst on the front, on the first fold and in both objectives: not examined further
UNFIT = 1e9  # stands for the error of what has no score
Progress = Callable[[Sequence[Trial]], None]


@dataclass(frozen=True)
class Effort:
    """How long to search: seconds from now, trials in all, processes at a time, and where they are."""

    seconds: float
    trials: int | None = None
    processes: int = 2
    where: str = LOCAL


@dataclass(frozen=True)
class Search:
    """Knobs, the preset's own values of them, every trial's terms, the folder that remembers, the devices left out."""

    folder: Path
    knobs: Knobs
    preset: Mapping[str, int | float]
    terms: Terms
    left_out: tuple[str, ...] = ()

    def trials(self) -> list[Trial]:
        """What is finished."""
        return read_trials(self.folder)

    def fits(self, trial: Trial) -> bool:
        """Whether a trial is within the budget, or there is none."""
        return not (self.terms.budget and trial.cost and self.terms.budget.reasons(trial.cost))

    def finished(self, trial: Trial) -> bool:
        """Whether a trial has a score on every fold."""
        return trial.failed is None and len(trial.scores) == self.terms.folds

    def front(self, trials: Sequence[Trial]) -> list[Trial]:
        """Trials within the budget that no other beats in both objectives, the least RMSE first."""
        rivals = [trial for trial in trials if self.finished(trial) and self.fits(trial)]
        return sorted((one for one in rivals if not any(_beats(other, one) for other in rivals)), key=lambda t: t.mean)

    def errors(self, trial: Trial, done: Sequence[Trial]) -> Score:
        """What the search makes smaller; after the first fold only, the preset's errors times the ratio there.

        Beyond any error is what has no score or is over the budget, the further the more it is over.
        """
        if not (self.fits(trial) and trial.failed is None and trial.scores):
            return UNFIT * self.times_over(trial), UNFIT * self.times_over(trial)
        if self.finished(trial):
            return trial.mean
        preset = next((one for one in done if one.number == 0), trial)
        rmse, top5 = (np.array(preset.mean) * trial.scores[0] / np.array(preset.scores[0])).tolist()
        return rmse, top5

    def times_over(self, trial: Trial) -> float:
        """How many times over the budget a trial is, at least 1."""
        over = self.terms.budget.excess(trial.cost).values() if self.terms.budget and trial.cost else ()
        return max([1.0, *(need / most for need, most in over)])


def prepare_search(folder: Path, readings: Sequence[Readings], knobs: Knobs, terms: Terms) -> Search:
    """A search that begins at the preset, new or to be resumed; a folder with another is refused."""
    preset, windows = preset_values(knobs, recipe_of({}, terms)), [int(length) for length in knobs[WINDOW]]
    splits = forward_folds(readings, terms.folds, max(windows) * common_step(readings))
    listed = {name: list(values) for name, values in knobs.items()}
    settings = {"knobs": listed, "preset": preset, "terms": asdict(terms)}
    for number, split in enumerate(splits, start=1):
        prepare(folder / f"fold-{number}", on_shared_rows(split, windows, recipe_of({}, terms)), [], settings)
    left_out = dict.fromkeys(sentence for split in splits for sentence in split.left_out)
    return Search(folder, knobs, preset, terms, tuple(left_out))


def on_shared_rows(split: Split, windows: Sequence[int], recipe: Recipe) -> Split:
    """The split with test references only where every window length has a value."""
    tests = list(split.test)
    for window in windows:
        inputs, _ = prepare_inputs(split.train, split.validation, replace(recipe, window=window))
        for index, one in enumerate(tests):
            segments, _ = WindowStream(inputs, one.device).take(one.times, inputs.select(one))
            rows = np.concatenate([np.empty(0, int), *(segment.rows for segment in segments)])
            kept = np.full(len(one), np.nan)
            kept[rows] = one.targets[rows]
            tests[index] = replace(one, frame=one.frame.with_columns(pl.Series(REFERENCE, kept)))
    if not any(np.isfinite(one.targets).any() for one in tests):
        raise DataError(f"no test row has a value for every window length ({windows}); {split.how}")
    return replace(split, test=tuple(tests))


def run_search(search: Search, effort: Effort, progress: Progress) -> None:
    """Examine candidates until the time or the trials are used up; Ctrl-C ends those that run, finished ones stay.

    The preset is the first and is always finished. Nothing begins that would, by the mean so far, end too late, and
    what runs when the time is over is ended without a result.
    """
    _forget_failed_preset(search)
    keep_compiled()
    with open_executor(effort.where, effort.processes, search.folder) as executor:
        _search(search, effort, executor, progress)


def _search(search: Search, effort: Effort, executor: Executor, progress: Progress) -> None:
    proposer, begun = Proposer(search.knobs, search.preset, search.errors, search.terms.seed), time.monotonic()
    running: dict[Future[Any], tuple[Trial, float]] = {}  # what each runs, and since when
    while True:
        done, left = search.trials(), effort.seconds - (time.monotonic() - begun)
        _check_preset(done)
        usual = float(np.mean([trial.seconds for trial in done])) if done else 0.0
        current = [one for one, _ in running.values()]
        wanted = effort.trials is None or len(done) + len(running) < effort.trials
        in_time = left > usual or all(trial.number for trial in (*done, *current))
        if wanted and in_time and len(running) < executor.size:
            trial = proposer.propose(done, current)
            if trial is not None:
                running[_start(search, trial, done, executor)] = trial, time.monotonic()
                continue
        if not running or (left <= 0 and any(trial.number == 0 for trial in done)):
            return
        wait(running, max(0.1, left) if done else None, FIRST_COMPLETED)
        for future in [one for one in running if one.done()]:
            _collect(search, executor, future, *running.pop(future))
            progress(search.trials())


def _beats(one: Trial, other: Trial) -> bool:
    return one.mean != other.mean and all(np.less_equal(one.mean, other.mean))


def _forget_failed_preset(search: Search) -> None:
    """Without the preset there is no search: one that failed before is tried again."""
    for trial in search.trials():
        if trial.number == 0 and trial.failed is not None:
            trial_file(search.folder, 0).unlink()


def _check_preset(done: Sequence[Trial]) -> None:
    for trial in done:
        if trial.number == 0 and trial.failed is not None:
            raise DataError(f"the preset itself cannot be examined: {trial.failed}")


def _start(search: Search, trial: Trial, done: Sequence[Trial], executor: Executor) -> "Future[Any]":
    terms = asdict(replace(search.terms, hopeless=_hopeless(search, done)))
    told = asdict(replace(trial, cost=_known_cost(trial, done)))
    if executor.shared:
        folds = [path for path in search.folder.glob("fold-*/**/*") if path.is_file()]
        return executor.submit(run_sent_trial, pack(search.folder, folds), told, terms)
    return executor.submit(run_trial, str(search.folder), told, terms)


def _collect(search: Search, executor: Executor, future: "Future[Any]", trial: Trial, begun: float) -> None:
    """Note the end of a trial that could not do so itself, and keep what was sent back."""
    if reason := executor.lost(future):
        write_trial(search.folder, replace(trial, failed=reason, seconds=time.monotonic() - begun))
    elif executor.shared:
        keep(future.result(), trial_file(search.folder, trial.number).parent)


def _hopeless(search: Search, done: Sequence[Trial]) -> Score | None:
    """Errors on the first fold beyond which a candidate is not examined further, once there is a front."""
    front = search.front(done)
    if not front or not any(trial.number == 0 for trial in done):
        return None
    rmse, top5 = (HOPELESS * np.max([trial.scores[0] for trial in front], axis=0)).tolist()
    return rmse, top5


def _known_cost(trial: Trial, done: Sequence[Trial]) -> Cost | None:
    """What an equal architecture took."""
    same = architecture(trial.values)
    return next((one.cost for one in done if one.cost and architecture(one.values) == same), None)


# The outcome of a search: the front beside the preset, what does not fit, and a config file a member of the front.
#
# The folds chose the front, so its scores on them are optimistic; only rows that the search never saw tell how much.


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
