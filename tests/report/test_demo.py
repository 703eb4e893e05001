"""The figure is a picture and the page one file: offline, escaped, complete."""

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from scare import Calibrator, Channel, Readings
from scare.baselines.classical import linear_regression, raw_reading
from scare.experiments.study import compare
from scare.report.page import write_demo_page
from scare.report.png_figures import draw_calibration
from scare.training.data import prepare_inputs
from tests.training.small_fits import line_recipe, make_readings

PNG = b"\x89PNG\r\n\x1a\n"
NASTY = "<script>alert('1')</script> & $\\frac$"


@pytest.fixture(scope="module")
def box() -> Readings:
    return make_readings()


@pytest.fixture(scope="module")
def calibrator(box: Readings) -> Calibrator:
    inputs, target = prepare_inputs([box], [box], line_recipe())
    return linear_regression([box], inputs, target).with_facts(devices=[NASTY])


@pytest.fixture(scope="module")
def figure(box: Readings, calibrator: Calibrator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_calibration(calibrator, box, tmp_path_factory.mktemp("figure") / "box.png")


@pytest.fixture(scope="module")
def html(box: Readings, calibrator: Calibrator, figure: Path) -> str:
    scores = compare({NASTY: raw_reading(calibrator.inputs, calibrator.target), "ours": calibrator}, [box])
    return write_demo_page(figure.with_name("page.html"), NASTY, calibrator, scores, figure).read_text(encoding="utf-8")


class Page(HTMLParser):
    """The tags of a page and what they refer to."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.references: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]


def test_the_figure_is_a_png_wider_than_high(figure: Path) -> None:
    content = figure.read_bytes()
    assert content.startswith(PNG)
    width, height = (int.from_bytes(content[start : start + 4]) for start in (16, 20))
    assert width > height > 300


def test_the_same_figure_has_the_same_bytes(box: Readings, calibrator: Calibrator, figure: Path) -> None:
    again = draw_calibration(calibrator, box, figure.with_name("again.png"))
    assert again.read_bytes() == figure.read_bytes()


def test_no_figure_stays_open(figure: Path) -> None:
    from matplotlib import pyplot

    assert pyplot.get_fignums() == []


def test_a_name_with_dollars_is_drawn_as_it_is(box: Readings, calibrator: Calibrator, tmp_path: Path) -> None:
    odd = replace(calibrator, target=Channel(NASTY, NASTY))
    assert draw_calibration(odd, replace(box, device=NASTY), tmp_path / "odd.png").read_bytes().startswith(PNG)


def test_the_page_refers_to_nothing_outside_itself(html: str) -> None:
    references = Page(html).references
    assert len(references) == 1
    assert references[0].startswith("data:image/png;base64,")
    assert not re.search(r"https?://|url\(|@import", re.sub(r"base64,[\w+/=]+", "", html))


def test_the_picture_on_the_page_is_the_figure(html: str, figure: Path) -> None:
    (image,) = re.findall(r"base64,([\w+/=]+)", html)
    assert base64.b64decode(image) == figure.read_bytes()


def test_titles_names_and_facts_are_escaped(html: str) -> None:
    assert "script" not in Page(html).tags
    assert html.count("&lt;script&gt;alert(") == 4  # title, heading, a rival's name, a device


def test_the_page_tells_scores_cost_and_origin(html: str) -> None:
    for word in ("RMSE", "200 rows, in ppb", 'class="ours"><td>ours', "multiply-adds", "bytes of weights", "window: 1"):
        assert word in html


def test_our_row_is_the_last_and_the_only_one_marked(
    box: Readings, calibrator: Calibrator, figure: Path, tmp_path: Path
) -> None:
    unknown = replace(calibrator, target=replace(calibrator.target, unit=""))
    scores = compare({"a": calibrator, "b": calibrator}, [box])
    table = write_demo_page(tmp_path / "page.html", "t", unknown, scores, figure).read_text(encoding="utf-8")
    assert table.count('class="ours"') == 1
    assert table.index("<td>a") < table.index('class="ours"') < table.index("<td>b")
    assert ", in " not in table.split("</table>")[1].split("</p>")[0]
