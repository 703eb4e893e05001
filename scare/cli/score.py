"""`scare score` and `scare report`: grade the eight requirements of a calibrator, and make a page of the result.

Each number has its source; the page opens offline.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from scare.board import boards
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.corrections import bind, find_channels
from scare.calibrator.model_card import SELECTION_FACTS, describe_period, has_learned_from
from scare.calibrator.provenance import processing_level
from scare.cli import options
from scare.cli.config import read_config
from scare.cli.console import STDOUT, emit, note, progress, show_table
from scare.cli.options import find_published, open_calibrator, read_for
from scare.cli.train import evaluated_file
from scare.data.colocation import read_colocation
from scare.data.column_mapping import DataSection
from scare.data.readings import Channel, Readings
from scare.errors import DataError, ExitCode
from scare.experiments.study_task import read_task
from scare.export.lowering import Arithmetic
from scare.extras import is_installed
from scare.extras import require as require_extra
from scare.files import replacing
from scare.report.blocks import plain, readable
from scare.report.deployment import read_deployment
from scare.report.targets import bounds_table, describe_targets, target_table, together_table, why_no_target
from scare.schema import read_json
from scare.scorecard.assessment import Assessment
from scare.scorecard.card import Card, missed_demands, read_demands
from scare.scorecard.requirements import YES_NO, Entry, RequirementTable
from scare.scorecard.run_folder import Run, describe_provenance, make_run, read_run, summarize
from scare.scorecard.scoring import Scored, Subject
from scare.scorecard.scoring import score as measure
from scare.scorecard.targets import TargetSet, choose_sets
from scare.scorecard.uncertainty import AS_GIVEN

NONE = "none"  # value of --board for a score without a board
FEW_ROWS = 500  # fewer scored rows give no reliable numbers


def score(
    model: options.ModelFile,
    data: Annotated[list[Path], typer.Option("--data", help="Tables with a reference that were not used in training.")],
    more: Annotated[list[Path] | None, typer.Argument(metavar="[FILES]...", help="More tables for --data.")] = None,
    time: options.TimeColumns = "",
    channels: options.Channels = "",
    reference: options.Reference = "",
    device_column: options.DeviceColumn = "",
    config: options.ConfigFile = None,
    board: Annotated[str, typer.Option("--board", help="Board name (scare board list), or none.")] = "nano33ble",
    arithmetic: options.ArithmeticName = Arithmetic.FLOAT32,
    require: Annotated[str, typer.Option("--require", help="Limits to meet: rmse=5,ram=20000,compatibility=O.")] = "",
    thresholds: Annotated[Path | None, typer.Option("--thresholds", help="TOML with your own thresholds.")] = None,
    targets: options.TargetNames = "",
    reference_uncertainty: options.ReferenceUncertainty = "",
    study: Annotated[
        Path | None, typer.Option("--study", help="Folder of scare compare to show in the report.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for scorecard.json and series.parquet.")] = None,
    as_json: options.Json = False,
) -> None:
    """Measure and grade accuracy, real time and efficiency, each number with its source.

    Exit code 4: a limit of --require was missed. Rows that were used in training are not scored.

    Examples:
      scare score no2.scare --data later.csv
      scare score no2.scare --data box*.csv --arithmetic fixed --require rmse=5,ram=20000,compatibility=O --out run
      scare score no2.scare --data later.csv --board none --targets cen --reference-uncertainty 42i
    """
    require_extra("board")
    table = RequirementTable.load(thresholds)
    demands = read_demands(require, table)
    sets = choose_sets(targets)
    target_board = None if board == NONE else boards.board(board)
    files = [*data, *(more or ())]
    loaded = read_config(config, data=options.columns(time, channels, reference, device_column))
    calibrator, readings = _open(model, files, loaded.config.data)
    references = {channel.name for channel in (calibrator.target, readings[0].reference) if channel}
    comparison = _read_comparison(study, references)
    growth = None
    if is_installed("equinox"):
        from scare.experiments.untrained import operation_growth

        growth = operation_growth(calibrator)
    subject = Subject(calibrator, readings, arithmetic, target_board, growth)
    with _run_writer(out) as write:
        scored = _measure(subject, table)
        provenance = describe_provenance(model, files, calibrator, arithmetic, table.protocol)
        card, run = _make_card(subject, scored, provenance, comparison)
        card = replace(card, **summarize(run, sets, reference_uncertainty))
        write(card, scored)
    if as_json:
        emit(card.as_dict())
    else:
        if verdict := card.verdict:
            STDOUT.print(verdict.text, markup=False)
        _show(card)
        if targets:
            _show_targets(card, sets)
    _note_remarks(card, out)
    missed = missed_demands(demands, card, table)
    for reason in missed:
        note(f"Missed: {reason}")
    if missed:
        raise typer.Exit(ExitCode.REQUIREMENT_MISSED)


def _open(model: str, files: Sequence[Path], data: DataSection) -> tuple[Calibrator, list[Readings]]:
    """Open the calibrator and the readings to score; a correction takes its channels from the readings."""
    if correction := find_published(model):
        readings = read_colocation(files, data, note)
        first = readings[0]
        channels = find_channels(correction, first.channels)
        return bind(correction, channels, first.step_seconds, first.reference), readings
    calibrator = open_calibrator(model)
    readings = read_for(calibrator, files, data)
    if has_learned_from(calibrator.facts, readings):
        calibrator = _open_evaluated(Path(model), calibrator)
    target, reference = calibrator.target, readings[0].reference
    unit = target.unit or (reference.unit if reference else "")
    return replace(calibrator, target=replace(target, unit=unit)), readings


def _open_evaluated(model: Path, calibrator: Calibrator) -> Calibrator:
    """Open the calibrator as it was evaluated, before the refit, if it is kept beside the file; else warn."""
    file = evaluated_file(model)
    if not file.exists():
        note(
            f"{model} was fitted to rows that are scored here, so its scores are optimistic. Score later rows, or train"
            f" again: 'scare train' keeps a version that was not fitted to them in {file.name}."
        )
        return calibrator
    note(
        f"{model} was fitted to rows that are scored here, so {file.name}, the version before the last fit,"
        " is scored instead."
    )
    return Calibrator.load(file)


def _measure(subject: Subject, table: RequirementTable) -> Scored:
    """Score with a progress bar on stderr."""
    board, blocks = subject.board, table.protocol.blocks
    with progress("scoring", "what") as (bar, task):
        total = blocks + (table.protocol.board_windows if board else 0)
        bar.update(task, total=total, what=f"{subject.arithmetic} in C{f' and on {board.title}' if board else ''}")
        return measure(subject, table, lambda: bar.advance(task))


def _read_comparison(study: Path | None, names: set[str]) -> list[dict[str, Any]]:
    """Read the rows of a `scare compare` run, none without one; its reference must have one of these names."""
    if study is None:
        return []
    try:
        reference = read_task(study).readings["test"][0].reference.name
        rows = read_json(study / "table.json", list[dict[str, Any]])
    except (DataError, LookupError) as error:
        raise DataError(
            f"{study} is not a comparison: {error}; make one with: scare compare … --out {study}"
        ) from error
    if reference not in names:
        raise DataError(f"{study} compares methods for {reference}, not for {' or '.join(sorted(names))}")
    return rows


def _make_card(
    subject: Subject, scored: Scored, provenance: dict[str, Any], comparison: Sequence[dict[str, Any]]
) -> tuple[Card, Run]:
    """Make the scorecard from the facts of model and data and the measured numbers; returns it with its run."""
    calibrator, facts = subject.calibrator, subject.calibrator.facts
    names = ("model", "preset", "data", "parameters", "split", "left_out", "validation_rmse", "formula", "doi")
    model = {name: facts[name] for name in (*names, *sorted(SELECTION_FACTS)) if name in facts}
    model |= {"window": calibrator.window, "step_seconds": calibrator.inputs.step_seconds}
    model |= {"processing_level": str(processing_level(calibrator))}
    line = facts.get("test_scores", {}).get("linear")
    if line and line["rows"] == len(scored.series.rows.scored):  # the rows scored here are those of training's test
        model |= {"line_rmse": line["rmse"]}
    target = {"name": calibrator.target.name, "unit": calibrator.target.unit}
    dataset = scored.series.facts(subject.readings, calibrator)
    card = Card(model, target, scored.entries, dataset, scored.board, provenance, tuple(comparison))
    return card, make_run(card, scored.series.frame)


@contextmanager
def _run_writer(folder: Path | None) -> Iterator[Callable[[Card, Scored], object]]:
    """Yield the function that writes the run for `scare report`; without a folder it does nothing.

    The files are opened first, so that a folder that is not writable is reported before the work.
    """
    if folder is None:
        yield lambda card, scored: None
        return
    with replacing(folder / "scorecard.json") as facts, replacing(folder / "series.parquet") as rows:

        def write(card: Card, scored: Scored) -> None:
            facts.write_text(card.to_json(), encoding="utf-8")
            scored.series.frame.write_parquet(rows)

        yield write


def _show(card: Card) -> None:
    """Print a line for each number; the first of a requirement also has its grade and title."""
    grades = card.grades()
    rows = []
    previous = ""  # requirement
    trivial = card.trivially_met()
    for entry in card.entries:
        is_first = entry.requirement != previous
        title = f"{grades[entry.requirement] or ' '} {entry.title}" if is_first else ""
        title += " (trivially met)" if is_first and entry.requirement in trivial else ""
        rows.append((title, entry.label, *_value_and_unit(entry), entry.source, entry.grade or ""))
        previous = entry.requirement
    facts = card.dataset
    days = describe_period(facts["scored_period"])
    model = card.model.get("model", "a calibrator")
    title = f"{card.target['name']} by {model}: {facts['rows_scored']:,} rows of {days} scored"
    show_table(title, ("requirement", "measure", "value", "unit", "source", "grade"), rows)


def _show_targets(card: Card, sets: Sequence[TargetSet]) -> None:
    """Print the class of each device by each set of targets that was asked for, and where the targets come from."""
    by_name = {assessment.name: assessment for assessment in card.assessments}
    for target_set in sets:
        assessment = by_name.get(target_set.name)
        if assessment is None:
            note(why_no_target(Channel(card.target["name"], card.target["unit"]), [target_set]))
            continue
        together = [together_table(assessment)] if assessment.together else []
        for table in (target_table(assessment), bounds_table(assessment), *together):
            show_table(table.caption, table.head, [[plain(cell) for cell in row] for row in table.rows])
        for line in describe_targets(assessment):
            note(line)


def _value_and_unit(entry: Entry) -> tuple[str, str]:
    """Format an entry's value and unit for the table; a graded value of None was infinite, which JSON cannot store."""
    if entry.value is None or isinstance(entry.value, str):
        return entry.value or ("none" if entry.grade else "not known"), ""
    if entry.unit == YES_NO:
        return "yes" if entry.value else "no", ""
    value, unit = readable(entry.value, entry.unit)
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}", unit


def _note_remarks(card: Card, out: Path | None) -> None:
    """Print remarks on the scored rows, what does not fit the board, and why some numbers were not measured."""
    facts, board = card.dataset, card.board or {}
    if facts["rows_of_training"]:
        used = f"{facts['rows_of_training']:,} of {facts['rows']:,} rows were used in training"
        note(f"{used}; the report shows them, but they are not scored.")
    known = {*facts["training_devices"], *facts["validation_devices"]}
    new = [name for name in facts["devices"] if name not in known]
    if known and new:
        note(f"Scored as new devices, because they were not in training or validation: {', '.join(new)}.")
    if facts["rows_scored"] < FEW_ROWS:
        note(f"Only {facts['rows_scored']:,} rows were scored, too few for reliable accuracy.")
    for reason in board.get("reasons", ()):
        note(f"{board['title']}: {reason}")
    missing: dict[str, list[str]] = {}
    for entry in card.entries:
        if entry.threshold and entry.value is None and "reason" in entry.detail:
            missing.setdefault(entry.detail["reason"], []).append(entry.measure)
    for reason, names in missing.items():
        note(f"Not measured: {', '.join(names)} ({reason}).")
    if out is not None:
        note(f"Wrote scorecard.json and series.parquet to {out}.")


def report(
    run: Annotated[Path, typer.Argument(help="A folder written by scare score --out.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="The page to write.", show_default="RUN/report.html")
    ] = None,
    targets: options.TargetNames = "",
    reference_uncertainty: options.ReferenceUncertainty = "",
    facts: Annotated[
        Path | None,
        typer.Option("--facts", help="TOML with facts of the deployment: heights, distances, dates, photos."),
    ] = None,
    pdf: Annotated[
        bool, typer.Option("--pdf", help="Write a PDF beside the page, through an installed Chromium.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Write one HTML page with the scorecard, charts, results on a board, agency targets, data quality and provenance.

    Examples:
      scare report out/no2
      scare report out/no2 --targets cen,city.toml --reference-uncertainty 42i
      scare report out/no2 --out no2.html --facts site.toml --pdf
    """
    from scare.report.files import print_pdf, tables_folder
    from scare.report.page import write_report

    scored_run, deployment = read_run(run), read_deployment(facts) if facts else None
    if targets or reference_uncertainty:
        # Unless another one is given, the uncertainty that the run was graded with stays.
        uncertainty = reference_uncertainty or _graded_with(scored_run.card.assessments)
        summary = summarize(scored_run, choose_sets(targets), uncertainty)
        scored_run = replace(scored_run, card=replace(scored_run.card, **summary))
    path = out or run / "report.html"
    with progress("drawing", "device") as (bar, task):
        bar.update(task, total=len(scored_run.series))
        write_report(scored_run, path, lambda name: bar.update(task, advance=1, device=name), deployment)
    size, written = path.stat().st_size, tables_folder(path)
    if as_json:
        devices = [series.device for series in scored_run.series]
        emit({"page": str(path), "bytes": size, "devices": devices, "rows": sum(map(len, scored_run.series))})
    note(f"Wrote {path} ({size / 1e6:.1f} MB). It opens in any browser, even offline. Its tables are in {written}.")
    if pdf:
        note(f"Wrote {print_pdf(path)}.")


def _graded_with(assessments: Sequence[Assessment]) -> str:
    """Return the reference's uncertainty, or its analyser, with which a run was graded; empty if neither was given."""
    graded = next((assessment for assessment in assessments if assessment.reference_source), None)
    if graded is None:
        return ""
    if graded.reference_source == AS_GIVEN:
        return str(graded.reference_uncertainty)
    return graded.reference_source.partition(":")[0]  # the analyser's name comes before the source
