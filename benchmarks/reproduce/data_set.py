"""Data sets of several pollutants, and the devices to test on, as a TOML file describes them:

about = "what it is, for every page made from it"
files = "*.csv.gz"                     # under the folder of the files, each one device unless a column names it
without = ["box-7"]                    # devices that are not used at all
[data]                                 # columns that all pollutants share, as in a `--config` file
time = "date"
[pollutants.PM10]
channels = ["5310CAT"]
reference = "OPCN3PM10"
[places."box 1"]                       # a place in a table: its test and validation devices
validation = "box-2"
test = "box-1"
train = ["box-3", "box-4"]             # if left out: all others
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scare.data.column_mapping import ColumnMapping, read_readings, tidy_columns
from scare.data.readings import Readings
from scare.data.split import Split, split_by_device
from scare.errors import DataError, UsageError
from scare.schema import convert, load_toml
from scare.words import suggestion


@dataclass(frozen=True)
class Roles:
    """The devices for validation and test of one place; training has all others unless `train` names them."""

    validation: str
    test: str
    train: tuple[str, ...] = ()


@dataclass(frozen=True)
class DataSet:
    """A data set that a TOML file describes: columns by pollutant, test and validation devices by place."""

    about: str
    files: str
    pollutants: Mapping[str, ColumnMapping]
    places: Mapping[str, Roles]
    without: tuple[str, ...] = ()

    def read(self, folder: Path, pollutant: str) -> list[Readings]:
        """Read all devices in `folder` except those in `without`."""
        files = sorted(folder.glob(self.files))
        if not files:
            raise DataError(f"no file {self.files} in {folder}; name the folder of the data set with --files")
        readings = [box for file in files for box in read_readings(file, self.pollutants[pollutant])]
        return [box for box in readings if box.device not in self.without]

    def split(self, readings: Sequence[Readings], place: str) -> Split:
        """Split the readings into training, validation and test of a place."""
        roles = self.places[place]
        wanted = (*roles.train, roles.validation, roles.test)
        known = [box.device for box in readings]
        for name in wanted:
            if name not in known:
                raise UsageError(f"{place}: no device '{name}'{suggestion(name, known)}")
        chosen = [box for box in readings if not roles.train or box.device in wanted]
        return split_by_device(chosen, roles.validation, roles.test)


def read_data_set(path: Path) -> DataSet:
    """Read the TOML description of a data set; each pollutant's table inherits the columns of [data]."""
    tables = load_toml(path)
    shared = tables.pop("data", {})
    pollutants = tables.get("pollutants")
    if isinstance(shared, Mapping) and isinstance(pollutants, Mapping):  # `convert` reports anything else
        tables["pollutants"] = {
            name: tidy_columns({**shared, **table}) if isinstance(table, Mapping) else table
            for name, table in pollutants.items()
        }
    return convert(tables, DataSet, path)
