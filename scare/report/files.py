"""Files beside the report: its tables as CSV, and a PDF through an installed Chromium."""

import csv
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from scare.errors import UnreachableError, UsageError
from scare.files import replacing
from scare.report.blocks import ReportTable, plain

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
SECONDS = 120.0  # for a browser to print
FLAGS = ("--headless", "--disable-gpu", "--no-sandbox", "--no-pdf-header-footer", "--virtual-time-budget=10000")


def tables_folder(page: Path) -> Path:
    """Return the folder of a page's tables."""
    return page.with_name(f"{page.stem}-tables")


def write_tables(tables: Iterable[ReportTable], page: Path) -> None:
    """Write tables of a page into the folder beside it, a CSV file each, in place of those of an earlier page."""
    folder = tables_folder(page)
    folder.mkdir(parents=True, exist_ok=True)
    for earlier in folder.glob("[0-9][0-9]-*.csv"):
        earlier.unlink()
    for number, table in enumerate(tables, start=1):
        words = "".join(letter if letter.isalnum() else " " for letter in table.caption.lower()).split()
        path = folder / f"{number:02d}-{'-'.join(words)[:60]}.csv"
        with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.writer(handle)
            writer.writerow(table.head)
            writer.writerows([plain(cell) for cell in row] for row in table.rows)


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
            finished = subprocess.run(
                [*command, page.resolve().as_uri()], capture_output=True, timeout=SECONDS, check=False, text=True
            )
        except subprocess.TimeoutExpired as error:
            raise UnreachableError(f"{browser} did not print {page} within {SECONDS:.0f} s") from error
        if finished.returncode or not temporary.exists() or not temporary.stat().st_size:
            raise UnreachableError(f"{browser} did not print {page}: {finished.stderr.strip()[-300:]}")
    return target
