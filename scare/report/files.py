"""Files beside the report: its tables as CSV, and a PDF through an installed Chromium."""

import csv
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from scare.errors import UnreachableError, UsageError
from scare.files import replacing
from scare.report.blocks import ReportTable, plain
from scare.report.chart_data import make_views
from scare.report.sections import devices, quality, scorecard
from scare.report.targets import precision, targets
from scare.scorecard.run_folder import Run

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
SECONDS = 120.0  # for a browser to print
FLAGS = ("--headless", "--disable-gpu", "--no-sandbox", "--no-pdf-header-footer", "--virtual-time-budget=10000")


def write_tables(run: Run, page: Path) -> Path:
    """Write the report's tables into the folder NAME-tables beside it, a CSV file each; returns the folder."""
    folder = page.with_name(f"{page.stem}-tables")
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(_tables(run), start=1):
        name = "".join(letter if letter.isalnum() else "-" for letter in table.caption.lower())
        path = folder / f"{number:02d}-{'-'.join(filter(None, name.split('-')))[:60]}.csv"
        with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.writer(handle)
            writer.writerow(table.head)
            writer.writerows([plain(cell) for cell in row] for row in table.rows)
    return folder


def _tables(run: Run) -> Iterator[ReportTable]:
    blocks = [
        *devices(list(make_views(run)), run.target.unit),
        *precision(run.card.assessments),
        *targets(run),
        *scorecard(run.card),
        *quality(run),
    ]
    yield from (block for block in blocks if isinstance(block, ReportTable))


def print_pdf(page: Path) -> Path:
    """Print a page to NAME.pdf beside it; a UsageError says what to install if there is no browser."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise UsageError(
            "--pdf needs Chromium or Chrome, and none is installed; open the page in any browser and print it to a file"
        )
    target = page.with_suffix(".pdf")
    with replacing(target) as temporary, TemporaryDirectory() as profile:
        command = [browser, *FLAGS, f"--user-data-dir={profile}", f"--print-to-pdf={temporary.resolve()}"]
        try:
            done = subprocess.run(
                [*command, page.resolve().as_uri()], capture_output=True, timeout=SECONDS, check=False, text=True
            )
        except subprocess.TimeoutExpired as error:
            raise UnreachableError(f"{browser} did not print {page} within {SECONDS:.0f} s") from error
        if done.returncode or not temporary.exists() or not temporary.stat().st_size:
            raise UnreachableError(f"{browser} did not print {page}: {done.stderr.strip()[-300:]}")
    return target
