"""The table of what can be exported to which target is what exporting and verifying gives."""

import re

import pytest

from benchmarks.formats import PAGE, ROWS, print_cell, print_page, support
from scare.export.targets import TARGETS
from tests.needs import needs

QUICK = ("c", "micropython", "tflite", "onnx")  # the others are built around the C


def lines_of_the_page() -> dict[str, list[str]]:
    lines = re.findall(r"^\| (\S.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    head, *rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    assert head == ["", *TARGETS]
    return {name: cells for name, *cells in rows}


@needs("tflite", "onnx")
@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_page_is_what_verifying_gives(row: str) -> None:
    written = dict(zip(TARGETS, lines_of_the_page()[row], strict=True))
    found = {target: print_cell(reasons) for target, reasons in support(row, QUICK).items()}
    assert found == {target: written[target] for target in QUICK}


@pytest.mark.slow
def test_the_whole_page() -> None:
    assert print_page({row: support(row) for row in ROWS}) == PAGE.read_text(encoding="utf-8")
