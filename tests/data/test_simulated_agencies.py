"""Two agencies and a third town: the same from a seed, and unlike enough that neither's regression serves the other."""

from pathlib import Path

import numpy as np
import polars as pl

from scare.data.simulated_agencies import TOWNS, write_agencies


def test_files_are_the_same_from_a_seed_and_boxes_from_their_number(tmp_path: Path) -> None:
    first, again = (write_agencies(tmp_path / name, boxes=1, days=10, seed=3) for name in ("first", "again"))
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in again]
    write_agencies(tmp_path / "more", boxes=2, days=10, seed=3)
    more = pl.read_csv(tmp_path / "more/north.csv").filter(pl.col("device") == "north-1")
    assert more.equals(pl.read_csv(tmp_path / "first/north.csv"))
    assert (tmp_path / "first/north.token").read_text() != (tmp_path / "first/south.token").read_text()


def test_the_air_of_the_towns_differs_and_boxes_swell_with_humidity(tmp_path: Path) -> None:
    write_agencies(tmp_path, boxes=1, days=60)
    tables = {name: pl.read_csv(tmp_path / f"{name}.csv") for name in TOWNS}
    humidity = {name: float(np.mean(table["humidity"].to_numpy())) for name, table in tables.items()}
    assert humidity["south"] + 8 < humidity["third"] < humidity["north"] - 8
    ratios = {
        name: float(np.median((one["pm25_raw"] / one["pm25_reference"]).to_numpy())) for name, one in tables.items()
    }
    assert 1.2 * ratios["south"] < ratios["north"]
