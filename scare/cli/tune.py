"""`scare tune`: search a preset's hyperparameters for less error, within the budget of a board and a time limit."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from scare.calibrator.cost import COST_HEADINGS
from scare.cli import options
from scare.cli.config import read_config
from scare.cli.console import STDERR, emit, note, progress, show_table
from scare.cli.options import OUTPUT, option
from scare.cli.train import make_recipe
from scare.data.colocation import parse_time, read_colocation
from scare.data.readings import Readings
from scare.data.split import TEST_SHARE, cut_by_time
from scare.errors import DataError, ExitCode, UsageError
from scare.extras import require
from scare.files import replacing
from scare.schema import merge
from scare.words import plural

SCORES = ("RMSE", "− preset", "top-5 %", "− preset")
SHOWN = 10  # most candidates listed that do not fit


def tune(
    files: options.Files,
    config: options.ConfigFile = None,
    settings: options.Settings = None,
    time: options.TimeColumns = "",
    channels: options.Channels = "",
    reference: options.Reference = "",
    device_column: options.DeviceColumn = "",
    window: options.FirstWindow = None,
    minutes: options.Minutes = None,
    jobs: options.Candidates = None,
    executor: options.Executor = None,
    board: options.BudgetBoard = None,
    instructions: options.Instructions = None,
    out: Annotated[Path, option(OUTPUT, "--out", "Folder for trials and configs; run again to continue.")] = Path(
        "out/tune"
    ),
    as_json: options.Json = False,
) -> None:
    """Search SCARE's hyperparameters for less error on later periods, within a board's budget.

    Examples:
      scare tune sim.parquet --minutes 10 --out out/tune
      scare tune box*.csv --time date --channels NO2,OX,T,RH --reference Ref.NO2 --board nano33ble
      scare train box*.csv --config out/tune/best-1.toml
    """
    loaded = read_config(
        config,
        settings or (),
        data=options.columns(time, channels, reference, device_column),
        model={"window": window},
        tune={
            "minutes": minutes,
            "jobs": jobs,
            "executor": executor,
        },
        budget={"board": board, "instructions": instructions},
    )
    section = loaded.config.tune
    preset = make_recipe(loaded)
    require("train", "optuna")
    from scare.experiments.trials import TrialSettings, default_space, make_space
    from scare.experiments.tuning import Effort, prepare_search, run_search

    readings = read_colocation(files, loaded.config.data, note)
    preset = preset.for_readings(readings)
    space = (
        make_space(section.knobs, preset, f"{loaded.where}: [tune.knobs]") if section.knobs else default_space(preset)
    )
    if (budget := loaded.config.budget.make()) is None:
        note("No --board and no budget: memory and instructions are not measured.")
    # The window may have been given as a duration; trials get it as a number of readings.
    tables = merge(loaded.recipe, {"model": {"window": preset.window}})
    trial_settings = TrialSettings(section.folds, preset.settings.seed, tables, budget)
    try:
        search = prepare_search(out, _without_test(readings, section.until), space, trial_settings)
    except DataError as error:
        raise DataError(f"{error}; a shorter window, fewer tune.folds or more data may help") from error
    for line in search.left_out:
        note(line)
    interrupted = True
    with suppress(KeyboardInterrupt), progress("tuning", "what") as (bar, task):

        def show_progress(trials: Sequence[Any]) -> None:
            bar.update(task, completed=len(trials), total=section.trials, what=_best(search, trials))
            if not STDERR.is_terminal:  # a log shows no bar
                note(_best(search, trials))

        run_search(search, Effort(60 * section.minutes, section.trials, section.jobs, section.executor), show_progress)
        interrupted = False
    _print_outcome(search, loaded.tables, as_json)
    if interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)


def _without_test(readings: list[Readings], until: str) -> list[Readings]:
    """Return the rows before the test begins; the search sees no others."""
    if until:
        end = parse_time(until, "tune.until").timestamp()
        rows = [box.rows(box.times < end) for box in readings]
    else:
        before, test = cut_by_time(readings, TEST_SHARE, gap_seconds=0.0)
        rows, end = list(before), min(float(box.times[0]) for box in test)
    note(f"Rows from {datetime.fromtimestamp(end, UTC):%Y-%m-%d %H:%M:%S} on are reserved for the test and not used.")
    before_test = [box for box in rows if len(box)]
    if not before_test:
        raise UsageError(f"tune.until: there is no row before {until}")
    return before_test


def _best(search: Any, trials: Sequence[Any]) -> str:
    """Return how many candidates were tried, and the lowest RMSE so far (the Pareto front is sorted by it)."""
    front = search.front(trials)
    return plural(len(trials), "candidate") + (f", RMSE {front[0].mean[0]:.4g}" if front else "")


def _print_outcome(search: Any, tables: Mapping[str, Any], as_json: bool) -> None:
    """Print the outcome, and write it to table.json with a config file for each candidate of the Pareto front.

    The config files have the sections [data] and [split] of the user's `tables`.
    """
    from scare.experiments.tuning import make_outcome, write_configs

    outcome = make_outcome(search)
    sections = {name: tables[name] for name in ("data", "split") if name in tables}
    configs = write_configs(search, outcome["front"], sections)
    for member, path in zip(outcome["front"], configs, strict=True):
        member["config"] = str(path)
    with replacing(search.folder / "table.json") as temporary:
        temporary.write_text(json.dumps(outcome, indent=1), encoding="utf-8")
    if as_json:
        emit({"folder": str(search.folder), **outcome})
    else:
        _show(outcome, search.settings)
    for candidate in outcome["failed"]:
        note(f"Trial {candidate['trial']} ({_name(candidate)}) has no score: {candidate['reason']}")
    note(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in outcome["candidates"].items()))
    if not outcome["front"]:
        note("No candidate within the budget has a score yet. Run again to continue, or raise the budget.")
        return
    note(
        "The scores above are optimistic, because these folds chose the candidates. To score the best one on the test:"
    )
    note(f"scare train … --config {configs[0]}")


def _show(outcome: Mapping[str, Any], settings: Any) -> None:
    """Print the front, the preset and what does not fit, as tables."""
    preset = outcome["preset"]  # trial 0
    is_on_front = any(member["trial"] == 0 for member in outcome["front"])
    off_front = [preset] if preset and not is_on_front else []
    shown = [*outcome["front"], *off_front]
    cost = _cost_headings(shown)
    folds = plural(settings.folds, "fold")
    title = f"Pareto front: means over {folds}, differences to the preset ± spread over the folds"
    rows = [[_name(candidate, candidate in off_front), *_scores(candidate), *_cost(candidate)] for candidate in shown]
    if rows:
        show_table(title, ["", *SCORES, *cost], rows)
    if too_large := outcome["does_not_fit"]:
        title = f"does not fit {settings.budget}: {len(too_large)}, nearest first"
        rows = [[_name(candidate), *_cost(candidate)] for candidate in too_large[:SHOWN]]
        show_table(title, ["", *_cost_headings(too_large)], rows)


def _name(candidate: Mapping[str, Any], off_front: bool = False) -> str:
    """Return the trial's number and changes to the preset; with `off_front`, also why it is not on the front."""
    changes = [f"{name.rpartition('.')[2]} {value:g}" for name, value in candidate["changes"].items()]
    reason = "does not fit" if candidate["does_not_fit"] else "not on the front"
    return f"{candidate['trial']}: {', '.join(changes) or 'preset'}{f' ({reason})' if off_front else ''}"


def _scores(candidate: Mapping[str, Any]) -> list[str]:
    """Return the cells under the headings `SCORES`; for the preset (trial 0), differences from the preset are blank."""
    cells = []
    for name in ("rmse", "top5_rmse"):
        mean, spread = candidate.get(f"{name}_to_preset"), candidate.get(f"{name}_to_preset_sd")
        difference = f"{mean:+.2g}" if candidate["trial"] and mean is not None else ""
        if difference and spread is not None:
            difference += f" ±{spread:.1g}"
        cells += [f"{candidate[name]:.4g}", difference]
    return cells


def _cost_headings(shown: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the headings of the costs that were measured for any of these candidates."""
    measured = {name for candidate in shown for name in candidate["cost"] or ()}
    return [heading for name, heading in COST_HEADINGS.items() if name in measured]


def _cost(candidate: Mapping[str, Any]) -> list[str]:
    """Return the cells for the headings of `_cost_headings`; empty if the cost was not measured."""
    return [f"{cost:,}" for cost in (candidate["cost"] or {}).values()]
