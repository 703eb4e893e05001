"""The `--config` file: one TOML that `train`, `tune`, `compare` and `score` read, and `inspect` and `tune` write.

A section is a record; docs/config.md explains every key. The command line wins over the file. What [model],
[training] and [selection] may hold is known to `training.recipe`: the other sections need none of it.
"""

import json
import tomllib
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scare.data.colocation import SplitSection
from scare.data.mapping import DataSection, tidy_columns
from scare.errors import UsageError
from scare.executor import LOCAL
from scare.export.lowering import Arithmetic
from scare.records import Amount, Count, convert, load_toml, merge

SWITCHES, LISTS = {"data.sort", "data.apply_offset"}, {"split.borders"}  # such options without a value, with several
RECIPE = ("model", "training", "selection")  # the sections that make a recipe
OPTIONS = "the command line"  # where a value came from that is in no file
MOVED = {  # options that the help does not list, and what says the same in the file
    **{name: f"data.{name}" for name in ("site_column", "sort", "step", "apply_offset")},
    **{"borders": "split.borders", "split_column": "split.column"},
    **{name: f"model.{name}" for name in ("preset", "scaling", "gap_policy", "floor")},
    **{name: f"training.{name}" for name in ("steps", "epochs", "rate", "batch", "members", "seed")},
    **{name: f"tune.{name}" for name in ("until", "folds", "trials", "arithmetic", "max_ram", "max_flash")},
    **{"mapping": "[data]", "recipe": "[model] and [training]", "knobs": "[tune.knobs]"},
}


@dataclass(frozen=True)
class TuneSection:
    """How long `scare tune` searches, for what, and within which budget."""

    minutes: Amount = 10.0
    trials: Count | None = None
    folds: Count = 3
    jobs: Count = 2
    executor: str = LOCAL
    until: str = ""
    board: str = ""
    arithmetic: Arithmetic = Arithmetic.FIXED
    max_instructions: Count | None = None
    max_ram: Count | None = None
    max_flash: Count | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CompareSection:
    """Whom `scare compare` fits, and how often; which further baselines `scare train` fits beside its own."""

    models: tuple[str, ...] = ("all",)
    windows: tuple[Count, ...] = (60,)
    seeds: Count = 3
    jobs: Count = 1
    beside: tuple[str, ...] = ()
    executor: str = LOCAL


@dataclass(frozen=True)
class Config:
    """The sections of the file."""

    data: DataSection = field(default_factory=DataSection)
    split: SplitSection = field(default_factory=SplitSection)
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    selection: Mapping[str, Any] = field(default_factory=dict, metadata={"was": "ladder"})
    tune: TuneSection = field(default_factory=TuneSection)
    compare: CompareSection = field(default_factory=CompareSection)


@dataclass(frozen=True)
class Given:
    """A config, the tables it was made of, and where they came from."""

    config: Config
    tables: Mapping[str, Any]
    where: str
    changes_recipe: bool  # whether the file says anything of the recipe

    @property
    def recipe(self) -> dict[str, Any]:
        """The tables that make a recipe."""
        return {name: self.tables[name] for name in RECIPE if name in self.tables}


def read_config(path: Path | None, settings: Sequence[str] = (), **options: Mapping[str, Any]) -> Given:
    """The config of a file, on top `settings` (key=value) and the sections that options give (None: not given)."""
    file = _tidy(load_toml(path)) if path else {}
    where = str(path or OPTIONS)
    convert(file, Config, where)  # first alone, so that what is wrong is said of the file
    said = {name: {key: value for key, value in table.items() if value is not None} for name, table in options.items()}
    typed = merge(parse_settings(settings), {name: table for name, table in said.items() if table})
    given = _knowing(_tidy(typed), file.get("data", {}))
    tables = merge(file, given)
    if "reference" in given.get("data", {}):  # another column, not a change of the file's
        tables["data"]["reference"] = given["data"]["reference"]
    return Given(convert(tables, Config, OPTIONS), tables, where, bool({*RECIPE} & file.keys()))


def as_settings(arguments: Sequence[str], own: Container[str]) -> list[str]:
    """A line in which options that are not a command's `own`, but keys of the file, stand as `--set key=value`.

    >>> as_settings(["box.csv", "--seed", "3", "--sort", "--out", "x.scare"], {"--out"})
    ['box.csv', '--set', 'training.seed=3', '--set', 'data.sort=true', '--out', 'x.scare']
    """
    line: list[str] = []
    left = list(arguments)
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=")
        key = MOVED.get(name.removeprefix("--").replace("-", "_"), "[")
        if not name.startswith("--") or name in own or key.startswith("["):
            line.append(word)
            continue
        if not equals:
            value = "true" if key in SWITCHES else left.pop(0) if left else ""
        line += ["--set", f"{key}={json.dumps(value.split(',')) if key in LISTS else value}"]
    return line


def parse_settings(texts: Sequence[str], example: str = "training.seed=3") -> dict[str, Any]:
    """Tables of key=value, the value as TOML or, where it is none, as text; keys are in a table if the example's is.

    >>> parse_settings(["training.seed=3", "split.column=part"])
    {'training': {'seed': 3}, 'split': {'column': 'part'}}
    """
    tables: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or ("." in example and "." not in key):
            raise UsageError(f"--set takes key=value, such as {example}, not '{text}'")
        try:
            found = tomllib.loads(f"value = {value}")["value"]
        except ValueError:
            found = value.strip()
        for part in reversed(key.strip().split(".")):
            found = {part: found}
        tables = merge(tables, found)
    return tables


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
