"""The tables of formats are what exporting and verifying gives: what can be exported where, how large files are."""

import re

import pytest

from benchmarks.formats import (
    COMPARED,
    LENGTHS,
    PAGE,
    ROWS,
    WINDOW,
    flatbuffer_sizes,
    print_cell,
    print_page,
    print_sizes,
    support,
)
from scare.export.targets import TARGETS
from tests.needs import needs

OFTEN = ("scare", "tesla", "dlinear", "nlinear")
QUICK = ("c", "micropython", "tflite", "onnx")  # the others are built around the C


def lines_of_the_page(table: int, head: list[str]) -> dict[str, list[str]]:
    part = PAGE.read_text(encoding="utf-8").split("\n## ")[table]
    lines = re.findall(r"^\| (\S.*) \|$", part, re.MULTILINE)
    first, *rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    assert first == head
    return {name: cells for name, *cells in rows}


@needs("tflite", "onnx")
@pytest.mark.parametrize("row", [row if row in OFTEN else pytest.param(row, marks=pytest.mark.slow) for row in ROWS])
def test_a_row_of_the_page_is_what_verifying_gives(row: str) -> None:
    written = dict(zip(TARGETS, lines_of_the_page(0, ["", *TARGETS])[row], strict=True))
    found = {target: print_cell(reasons) for target, reasons in support(row, QUICK).items()}
    assert found == {target: written[target] for target in QUICK}


def test_ours_is_smaller_than_tesla_as_the_page_says() -> None:
    lines = lines_of_the_page(1, ["N", *COMPARED])
    assert [int(window) for window in lines] == list(LENGTHS)
    for cells in lines.values():
        tesla, _, ours = ([int(size.replace(",", "")) for size in cell.split(" / ")] for cell in cells)
        assert all(own < other for own, other in zip(ours, tesla, strict=True))


@pytest.mark.slow
@needs("tflite")
def test_flatbuffers_are_as_large_as_the_page_says() -> None:
    assert print_sizes(WINDOW, flatbuffer_sizes(WINDOW)) in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_whole_page() -> None:
    every = {row: support(row) for row in ROWS}
    sizes = {window: flatbuffer_sizes(window) for window in LENGTHS}
    assert print_page(every, sizes) == PAGE.read_text(encoding="utf-8")
