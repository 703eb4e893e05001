"""Files as people have them: tidy, messy, and none at all."""

from datetime import UTC, datetime
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import polars as pl

START = datetime(2026, 3, 1, tzinfo=UTC)
STEP = 600
LOCAL = 3600  # seconds that the logger's clock is ahead of UTC


def truth(rows: int) -> np.ndarray:
    """What is in the air: it wanders, and rises and falls with the day."""
    draw = np.random.default_rng(3)
    steps = pl.Series(draw.normal(size=rows).cumsum())
    wander = (steps - steps.rolling_mean(36, min_samples=1)).to_numpy()
    return 40 + 6 * np.sin(np.arange(rows) * STEP / 86400 * 2 * np.pi) + 3 * wander


def frame(rows: int, seed: int = 0) -> pl.DataFrame:
    """A box beside a station."""
    draw = np.random.default_rng(seed)
    seconds = START.timestamp() + STEP * np.arange(rows)
    humidity = 60 + 10 * np.cos(np.arange(rows) * STEP / 86400 * 2 * np.pi) + draw.normal(size=rows)
    columns = {
        "time": pl.Series(seconds * 1e6).cast(pl.Int64).cast(pl.Datetime("us")),
        "pm25_raw": 1.6 * truth(rows) + 0.1 * (humidity - 60) + 4 + draw.normal(size=rows),
        "temperature": 12 + draw.normal(size=rows),
        "humidity": humidity,
        "pm25_reference": truth(rows) + 0.3 * draw.normal(size=rows),
    }
    return pl.DataFrame(columns).with_columns(pl.col(pl.Float64).round(2))


def write_tidy(path: Path, rows: int = 1500) -> Path:
    """One file with both."""
    frame(rows).write_csv(path, datetime_format="%Y-%m-%dT%H:%M:%SZ")
    return path


def write_xlsx(path: Path, rows: int = 300) -> Path:
    """One sheet with both, in the least that a spreadsheet needs: texts in their cells, no styles."""
    table = frame(rows).with_columns(pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
    texts = [table.columns, *([str(cell) for cell in row] for row in table.rows())]
    cells = (f'<row>{"".join(f"""<c t="inlineStr"><is><t>{one}</t></is></c>""" for one in row)}</row>' for row in texts)
    return write_workbook(path, "".join(cells))


def write_workbook(path: Path, rows: str) -> Path:
    """A spreadsheet of one sheet with these rows, in XML."""
    schemas, links = "http://schemas.openxmlformats.org", "officeDocument/2006/relationships"
    main, kind = f"{schemas}/spreadsheetml/2006/main", "application/vnd.openxmlformats-officedocument.spreadsheetml"

    def link(to: str, target: str) -> str:
        one = f'<Relationship Id="r1" Type="{schemas}/{links}/{to}" Target="{target}"/>'
        return f'<Relationships xmlns="{schemas}/package/2006/relationships">{one}</Relationships>'

    def content(part: str, what: str) -> str:
        return f'<Override PartName="/xl/{part}.xml" ContentType="{kind}.{what}+xml"/>'

    rels = '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    contents = f"{rels}{content('workbook', 'sheet.main')}{content('sheet1', 'worksheet')}"
    sheets = '<sheets><sheet name="Data" sheetId="1" r:id="r1"/></sheets>'
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{schemas}/package/2006/content-types">{contents}</Types>',
        "_rels/.rels": link("officeDocument", "xl/workbook.xml"),
        "xl/_rels/workbook.xml.rels": link("worksheet", "sheet1.xml"),
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{schemas}/{links}">{sheets}</workbook>',
        "xl/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>',
    }
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{text}')
    return path


def write_messy(folder: Path, rows: int = 1500) -> tuple[Path, Path]:
    """A logger's file: semicolons, decimal commas, day-first local time; and a station's in UTC."""
    both = frame(rows)
    sensor, station = folder / "Küche Box 7.csv", folder / "station.csv"
    late = both.drop("pm25_reference").with_columns(pl.col("time") + pl.duration(seconds=LOCAL))
    text = late.write_csv(separator=";", datetime_format="%d.%m.%Y %H:%M").replace(".", ",")
    days = (line.partition(";") for line in text.splitlines())
    sensor.write_text("\n".join(day.replace(",", ".") + sign + rest for day, sign, rest in days) + "\n")
    both.select("time", pl.col("pm25_reference").alias("PM2.5 [ug/m3]")).write_csv(station)
    return sensor, station
