"""The `--config` file: one TOML that `train`, `tune`, `compare` and `score` read, and `inspect` and `tune` write.

A section is a record; docs/config.md explains every key. The command line wins over the file. The keys of [model],
[training] and [selection] are checked by `training.recipe`, which needs JAX; the other sections do not.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scare.data.colocation import SplitSection
from scare.data.column_mapping import DataSection, tidy_columns
from scare.errors import UsageError
from scare.executor import LOCAL
from scare.export.lowering import Arithmetic
from scare.extras import require
from scare.schema import Amount, Count, convert, load_toml, merge
from scare.windowing.windows import AUTO, WindowLength

if TYPE_CHECKING:
    from scare.board.measure import BoardBudget

RECIPE = ("model", "training", "selection")  # the sections that describe a recipe
DEFAULT_BOARD = "nano33ble"  # for a budget that names no board
COMMAND_LINE = "the command line"  # the origin of a value that is in no file


@dataclass(frozen=True)
class BudgetSection:
    """What a calibrator may cost: instructions of one inference, bytes of RAM and flash.

    Without a limit of their own, RAM and flash have the board's; instructions have none.
    """

    board: str = field(default="", metadata={"was": "tune.board"})
    arithmetic: Arithmetic = field(default=Arithmetic.FIXED, metadata={"was": "tune.arithmetic"})
    instructions: Count | None = field(default=None, metadata={"was": "tune.max_instructions"})
    ram: Count | None = field(default=None, metadata={"was": "tune.max_ram"})
    flash: Count | None = field(default=None, metadata={"was": "tune.max_flash"})

    def make(self) -> "BoardBudget | None":
        """Return the budget of the board; None if neither a board nor a limit is given."""
        limits = self.instructions, self.ram, self.flash
        if not (self.board or any(limits)):
            return None
        require("board")
        from scare.board.measure import BoardBudget

        return BoardBudget.of(self.board or DEFAULT_BOARD, str(self.arithmetic), *limits)


@dataclass(frozen=True)
class TuneSection:
    """How long `scare tune` searches, and for what."""

    minutes: Amount = 10.0
    trials: Count | None = None
    folds: Count = 3
    jobs: Count = 2
    executor: str = LOCAL
    until: str = ""
    knobs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CompareSection:
    """Which methods `scare compare` fits, and how often; `beside` are further baselines that `scare train` fits."""

    models: tuple[str, ...] = ("all",)
    windows: tuple[WindowLength, ...] = (AUTO,)
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
    budget: BudgetSection = field(default_factory=BudgetSection)
    tune: TuneSection = field(default_factory=TuneSection)
    compare: CompareSection = field(default_factory=CompareSection)


@dataclass(frozen=True)
class LoadedConfig:
    """A config, the TOML tables it was made from, and their origin for error messages."""

    config: Config
    tables: Mapping[str, Any]
    where: str
    changes_recipe: bool  # whether the file has a section of the recipe

    @property
    def recipe(self) -> dict[str, Any]:
        """The tables that describe a recipe."""
        return {name: self.tables[name] for name in RECIPE if name in self.tables}


def read_config(path: Path | None, settings: Sequence[str] = (), **options: Mapping[str, Any]) -> LoadedConfig:
    """Read a config file, then apply `settings` (key=value) and `options`, which win over it.

    `options` are sections of command-line options, such as data={"time": …}; None is an option that was not given.
    """
    file = _tidy(load_toml(path)) if path else {}
    where = str(path or COMMAND_LINE)
    convert(file, Config, where)  # check the file alone first, so that an error names it
    given_options: dict[str, Any] = {}
    for section, table in options.items():
        if present := {key: value for key, value in table.items() if value is not None}:
            given_options[section] = present
    command_line = _tidy(merge(parse_settings(settings), given_options))
    # An option gives only names: a channel that the file describes keeps its unit and limits.
    file_data = file.get("data", {})
    described = [*file_data.get("channels", ()), *([file_data["reference"]] if "reference" in file_data else ())]
    known = {channel["name"]: channel for channel in described}
    columns = dict(command_line.get("data", {}))
    if "channels" in columns:
        columns["channels"] = [known.get(channel["name"], channel) for channel in columns["channels"]]
    if "reference" in columns:
        columns["reference"] = known.get(columns["reference"]["name"], columns["reference"])
    tables = merge(file, {**command_line, "data": columns} if columns else command_line)
    if "reference" in columns:  # `merge` would give the new column the unit and limits of the file's
        tables["data"]["reference"] = columns["reference"]
    return LoadedConfig(convert(tables, Config, COMMAND_LINE), tables, where, bool({*RECIPE} & file.keys()))


def parse_settings(texts: Sequence[str], example: str = "training.seed=3") -> dict[str, Any]:
    """Parse key=value texts into nested tables; a value that is not valid TOML is taken as text.

    Error messages show `example`; if its key has a section, all keys must have one.

    >>> parse_settings(["training.seed=3", "split.column=part"])
    {'training': {'seed': 3}, 'split': {'column': 'part'}}
    """
    tables: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or ("." in example and "." not in key):
            raise UsageError(f"--set takes key=value, such as {example}, not '{text}'")
        try:
            nested = tomllib.loads(f"value = {value}")["value"]
        except ValueError:
            nested = value.strip()
        for part in reversed(key.strip().split(".")):  # a.b=1 becomes {"a": {"b": 1}}, from the inside out
            nested = {part: nested}
        tables = merge(tables, nested)
    return tables


def _tidy(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Expand the shorthand of [data] with `tidy_columns`."""
    data = tables.get("data")
    return {**tables, "data": tidy_columns(data)} if isinstance(data, Mapping) else dict(tables)
