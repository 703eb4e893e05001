"""The `--config` file: one TOML that `train`, `tune`, `compare` and `score` read, and `inspect` and `tune` write.

A section is a record; docs/config.md explains every key. The command line wins over the file. What [model] and
[training] may hold is known to the training room (`training/recipes`), which the other sections do not need.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from scare.data.mapping import DataSection, tidy_columns
from scare.export.arithmetic import Arithmetic
from scare.records import Amount, Count, convert, load_toml, merged

OPTIONS = "the command line"  # where a value came from that is in no file
MOVED = {  # options of earlier versions, and what says the same in the file
    **{name: f"data.{name}" for name in ("site_column", "sort", "step", "apply_offset")},
    **{"borders": "split.borders", "split_column": "split.column"},
    **{name: f"model.{name}" for name in ("preset", "scaling", "gap_policy")},
    **{name: f"training.{name}" for name in ("steps", "epochs", "rate", "batch", "members", "seed")},
    **{name: f"tune.{name}" for name in ("until", "folds", "trials", "arithmetic", "max_ram", "max_flash")},
    **{"mapping": "[data]", "recipe": "[model] and [training]", "knobs": "[tune.knobs]"},
}


class SplitBy(StrEnum):
    """What keeps training, validation and test apart."""

    TIME = "time"
    DEVICE = "device"
    SITE = "site"


@dataclass(frozen=True)
class SplitSection:
    """How training, validation and test are kept apart."""

    by: SplitBy = SplitBy.TIME
    borders: tuple[str, ...] = ()
    column: str = ""


@dataclass(frozen=True)
class TuneSection:
    """How long `scare tune` searches, for what, and within which budget."""

    minutes: Amount = 10.0
    trials: Count | None = None
    folds: Count = 3
    jobs: Count = 2
    until: str = ""
    board: str = ""
    arithmetic: Arithmetic = Arithmetic.INT8
    max_instructions: Count | None = None
    max_ram: Count | None = None
    max_flash: Count | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CompareSection:
    """Whom `scare compare` fits, and how often."""

    models: tuple[str, ...] = ("all",)
    windows: tuple[Count, ...] = (60,)
    seeds: Count = 3
    jobs: Count = 1


@dataclass(frozen=True)
class Config:
    """The sections of the file."""

    data: DataSection = field(default_factory=DataSection)
    split: SplitSection = field(default_factory=SplitSection)
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    tune: TuneSection = field(default_factory=TuneSection)
    compare: CompareSection = field(default_factory=CompareSection)


@dataclass(frozen=True)
class Given:
    """A config, the tables it was made of, and where they came from."""

    config: Config
    tables: Mapping[str, Any]
    where: str
    changes_recipe: bool  # whether the file says anything of model or training

    @property
    def recipe(self) -> dict[str, Any]:
        """The tables that make a recipe."""
        return {name: self.tables[name] for name in ("model", "training") if name in self.tables}


def read_config(path: Path | None, **options: Mapping[str, Any]) -> Given:
    """The config of a file, with the sections that options give (None: not given) on top."""
    file = _tidy(load_toml(path)) if path else {}
    where = str(path or OPTIONS)
    convert(file, Config, where)  # first alone, so that what is wrong is said of the file
    said = {name: {key: value for key, value in table.items() if value is not None} for name, table in options.items()}
    given = _knowing(_tidy({name: table for name, table in said.items() if table}), file.get("data", {}))
    tables = merged(file, given)
    if "reference" in given.get("data", {}):  # another column, not a change of the file's
        tables["data"]["reference"] = given["data"]["reference"]
    return Given(convert(tables, Config, OPTIONS), tables, where, bool({"model", "training"} & file.keys()))


def _tidy(tables: Mapping[str, Any]) -> dict[str, Any]:
    data = tables.get("data")
    return {**tables, "data": tidy_columns(data)} if isinstance(data, Mapping) else dict(tables)


def _knowing(options: dict[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """The options, where a channel that [data] of the file describes keeps its unit and limits."""
    described = [*data.get("channels", ()), *([data["reference"]] if "reference" in data else ())]
    known = {channel["name"]: channel for channel in described}
    columns = dict(options.get("data", {}))
    if "channels" in columns:
        columns["channels"] = [known.get(one["name"], one) for one in columns["channels"]]
    if "reference" in columns:
        columns["reference"] = known.get(columns["reference"]["name"], columns["reference"])
    return {**options, "data": columns} if columns else options
