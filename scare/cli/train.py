"""`scare train`: from a co-location table to a calibrator."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from scare.calibrator.calibrator import Calibrator
from scare.cli import options
from scare.cli.colocation import SplitBy, divide, join, prepare, read, say_split
from scare.cli.console import emit, say
from scare.cli.training import fit_with_progress, score_against_yardsticks, scores_as_dict, show_scores, training_room
from scare.errors import ExitCode, UsageError
from scare.files import replacing
from scare.records import load_toml
from scare.scorecard.accuracy import Accuracy
from scare.words import suggestion


class ScalingKind(StrEnum):
    """How channels are scaled."""

    AUTO = "auto"
    DEVICE = "device"
    POOLED = "pooled"
    ROBUST = "robust"
    CONSTANT = "constant"


def train(
    files: Annotated[list[Path], typer.Argument(help="One file a device, or one long file with a device column.")],
    out: Annotated[Path, typer.Option("--out", help="The calibrator to write.")] = Path("model.scare"),
    time: options.TimeColumns = "",
    channels: options.Channels = "",
    reference: options.Reference = "",
    device_column: options.DeviceColumn = "",
    site_column: options.SiteColumn = "",
    mapping: options.MappingFile = None,
    sort: options.Sort = False,
    step: options.Step = None,
    reference_file: Annotated[
        Path | None, typer.Option("--reference-file", help="Table of the reference, if apart.")
    ] = None,
    apply_offset: Annotated[
        bool, typer.Option("--apply-offset", help="Shift the sensor by the clock offset found.")
    ] = False,
    model: Annotated[str, typer.Option("--model", help="Which model to train.")] = "scare",
    preset: Annotated[str, typer.Option("--preset", help="default, or paper.")] = "default",
    recipe_file: Annotated[
        Path | None, typer.Option("--recipe", help="TOML of what differs from the preset, as 'scare tune' writes it.")
    ] = None,
    window: Annotated[
        int | None, typer.Option("--window", min=1, help="Readings a calibrated value is made from, not the preset's.")
    ] = None,
    split: Annotated[SplitBy, typer.Option("--split", help="What keeps the test apart.")] = SplitBy.TIME,
    borders: options.Borders = "",
    scaling: Annotated[
        ScalingKind,
        typer.Option("--scaling", metavar="<kind>", help="auto, device, pooled, robust, or constant (/300)."),
    ] = ScalingKind.AUTO,
    gap_policy: Annotated[str, typer.Option("--gap-policy", help="recent, or strict.")] = "recent",
    epochs: options.Epochs = None,
    steps: options.Steps = None,
    rate: Annotated[float | None, typer.Option("--rate", min=0, help="Peak learning rate, not the preset's.")] = None,
    batch: Annotated[int | None, typer.Option("--batch", min=1, help="Windows a step, not the preset's.")] = None,
    members: Annotated[
        int | None, typer.Option("--members", min=1, help="Networks trained; their mean is the calibrator.")
    ] = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Train a calibrator on co-located readings and compare it with raw and linear regression.

    Examples:
      scare train sim.parquet --split device --out pm.scare
      scare train sim.parquet --preset paper --window 360 --epochs 2 --out m.scare
      scare train box*.csv --time date --channels NO2,OX,T,RH --reference Ref.NO2
      scare train sensor.csv --reference-file station.csv --reference PM2.5
    """
    settings = {"window": window, "epochs": epochs, "steps": steps, "rate": rate, "batch": batch, "seed": seed}
    settings["members"] = members
    recipe = _recipe(model, preset, recipe_file, settings)
    recipe = _with_choices(recipe, gap_policy, scaling)
    labels = {"time": time, "channels": channels, "device_column": device_column, "site_column": site_column}
    with replacing(out) as temporary:  # an output that cannot be written is known before the work, not after
        if reference_file is None:
            readings = read(files, mapping, {**labels, "reference": reference, "sort": sort})
        else:
            sensors = read(files, mapping, {**labels, "sort": sort}, with_reference=False)
            readings = join(sensors, reference_file, reference, apply_offset)
        parts = divide([prepare(one, step) for one in readings], split, recipe.window, borders)
        say_split(parts)
        calibrator = fit_with_progress(parts.train, parts.validation, recipe)
        scores = score_against_yardsticks(calibrator, parts, f"{calibrator.facts['model']} ({recipe.name})")
        calibrator = calibrator.with_facts(**parts.facts, test_scores=scores_as_dict(scores))
        calibrator.save(temporary)
    _tell(calibrator, scores, out, as_json)


def _tell(calibrator: Calibrator, scores: dict[str, Accuracy], out: Path, as_json: bool) -> None:
    """Print the result; a training that was interrupted says so."""
    if as_json:
        emit({"file": str(out), "scores": scores_as_dict(scores), "facts": dict(calibrator.facts)})
    else:
        unit = f", in {calibrator.target.unit}" if calibrator.target.unit else ""
        rows = next(iter(scores.values())).rows
        show_scores(scores, f"{calibrator.target.name}: {rows:,} test rows{unit}")
    if calibrator.facts.get("interrupted"):
        say(f"calibrator written to {out}: the best until the interruption, not the end of the training")
        raise typer.Exit(ExitCode.INTERRUPTED)
    say(f"calibrator written to {out}")


def _recipe(model: str, preset: str, file: Path | None, settings: dict[str, Any]) -> Any:
    """The recipe of a preset, changed by a file and then by options."""
    training_room()
    from scare.training.presets import Recipe
    from scare.training.recipes import adjust

    given = {name: value for name, value in settings.items() if value is not None}
    if file is None:
        return Recipe.preset(preset, model=model, **given)
    if not given["seed"]:
        del given["seed"]  # the file's
    recipe = adjust(Recipe.preset(preset, model=model), load_toml(file), str(file))
    window = {"window": given.pop("window")} if "window" in given else {}
    named = replace(recipe, name=f"{preset}+{file.stem}")
    return adjust(named, {**window, "settings": given}, "options")


def _with_choices(recipe: Any, policy: str, scaling: ScalingKind) -> Any:
    """The recipe with a gap policy and a scaling."""
    from scare.windowing.slicing import POLICIES

    if policy not in POLICIES:
        raise UsageError(f"no gap policy called '{policy}'{suggestion(policy, POLICIES)}")
    choices: dict[ScalingKind, dict[str, Any]] = {
        ScalingKind.AUTO: {},
        ScalingKind.DEVICE: {"scaling": "standard", "per_device": True},
        ScalingKind.POOLED: {"scaling": "standard", "per_device": False},
        ScalingKind.ROBUST: {"scaling": "robust"},
        ScalingKind.CONSTANT: {"scaling": "constant"},
    }
    return replace(recipe, policy=POLICIES[policy], **choices[scaling])
