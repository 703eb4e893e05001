"""The picture and numbers at the top of the README: a real PurpleAir next to a regulatory station, before and after.

    python -m benchmarks.readme_picture purpleair_va_pm25.csv.gz

The file is a co-location with the columns time, device, split (train, validate, test), pm25_cf1, temp_f, rh and
reference. Ours is made from mawhal/purpleair_deq on GitHub (CC0-1.0): three PurpleAirs next to the Virginia DEQ station
Shirley during the smoke of June 2023, in 10-minute means. The readings are not part of this project.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib

matplotlib.use("Agg")

import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from scare.cli.app import run
from scare.files import replacing
from scare.report.png_figures import OURS_COLOUR, RAW, REFERENCE

OUT = Path(__file__).parents[1] / "docs" / "before-after.png"
OPTIONS = ["--time", "time", "--device-column", "device"]
DEVICE = "PA159965"
UNIT = "µg/m³"


def calibrate(path: Path) -> pl.DataFrame:
    """Calibrate a file by the commands of the README, with their defaults; returns its test rows."""
    with TemporaryDirectory() as scratch:
        model, table = f"{scratch}/pm25.scare", f"{scratch}/calibrated.csv"
        train = ["train", str(path), *OPTIONS, "--channels", "pm25_cf1,temp_f,rh", "--reference", "reference"]
        for command in (
            [*train, "--set", "split.column=split", "--window", "30", "--out", model],
            ["predict", model, str(path), *OPTIONS, "--out", table],
        ):
            if code := run(command):
                sys.exit(code)
        calibrated = pl.read_csv(table, try_parse_dates=True)
    test = pl.read_csv(path, try_parse_dates=True).filter(pl.col("split") == "test").select("device", "time")
    return calibrated.join(test, on=["device", "time"])


def draw(rows: pl.DataFrame, path: Path) -> None:
    """Draw test rows of one device: sensor and reference on the left, calibrated and reference on the right."""
    one = rows.filter(pl.col("device") == DEVICE).sort("time")
    times = one["time"].dt.replace_time_zone(None).to_numpy()
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.2), sharey=True, layout="constrained")
    panels = (("sensor as it is", "pm25_cf1", RAW), ("calibrated by scare", "calibrated", OURS_COLOUR))
    for panel, (title, column, colour) in zip(axes, panels, strict=True):
        panel.plot(times, one["reference"], color=REFERENCE, linewidth=1.4, label="reference station")
        panel.plot(times, one[column], color=colour, linewidth=1.1, label=title)
        panel.set_title(f"{title}: RMSE {rmse(rows, column):.1f} {UNIT}", fontsize=11)
        panel.xaxis.set_major_formatter(mdates.ConciseDateFormatter(panel.xaxis.get_major_locator()))
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False, fontsize=9, loc="upper right")
    axes[0].set_ylabel(f"PM2.5 [{UNIT}]")
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=140)


def rmse(rows: pl.DataFrame, column: str) -> float:
    """Compute the RMSE of a column over the test rows of all devices that have a calibrated value."""
    known = rows.drop_nulls(["reference", "calibrated", column])
    return float(np.sqrt((known[column] - known["reference"]).pow(2).mean()))


def main() -> None:
    """Calibrate, draw and print the numbers."""
    rows = calibrate(Path(sys.argv[1]))
    draw(rows, OUT)
    print(f"sensor {rmse(rows, 'pm25_cf1'):.2f}, calibrated {rmse(rows, 'calibrated'):.2f} {UNIT}; picture: {OUT}")


if __name__ == "__main__":
    main()
