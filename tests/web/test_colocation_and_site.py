"""What an officer asks in the page: has it stood there long enough, and a report with the facts of the deployment."""

import json
from pathlib import Path

import pytest

from scare.errors import UsageError
from scare.report.deployment import Deployment, read_deployment
from scare.web.jobs import make_job, typed_lines
from scare.web.session_setup import make_setup, read_selections
from tests.needs import needs
from tests.report.browser import find_browser
from tests.web.browser_session import serving
from tests.web.test_page import is_fine, visiting
from tests.web.test_session_setup import BOTH

pytestmark = needs("web", "train")


def test_the_commands_carry_targets_conditions_facts_and_the_reference() -> None:
    chosen = {"targets": "cen", "reference_uncertainty": "42i", "facts": {"place": "Ispra", "latitude": None}}
    setup = make_setup({"box.csv": BOTH}, read_selections(chosen))
    job = make_job(setup, "progress", {"deployment": ["lastyear.csv"]}, lambda name: f"later/{name}")
    assert typed_lines(job.commands) == [
        "scare progress files/box.csv --config draft.toml --deployment later/lastyear.csv --targets cen"
        " --reference-uncertainty 42i"
    ]
    assert job.about == {"config": setup.config(), "written": "draft.toml"}
    report = make_job(setup, "report", {}, str)
    assert typed_lines(report.commands)[1] == "scare report run --facts site.toml --reference-uncertainty 42i"
    pdf = make_job(setup, "pdf", {}, str)
    assert typed_lines(pdf.commands) == ["scare report run --facts site.toml --reference-uncertainty 42i --pdf"]


def test_the_form_becomes_the_file_that_the_report_reads(tmp_path: Path) -> None:
    typed = {"place": "Ispra", "begin": "2020-01-17", "distance_m": 2.5, "photos": ["a.jpg"], "latitude": None}
    setup = make_setup({"box.csv": BOTH}, read_selections({"facts": typed}))
    json.dumps(typed | dict(setup.selections.facts))  # as the page gets them
    (tmp_path / "site.toml").write_text(setup.site())
    found = read_deployment(tmp_path / "site.toml")
    assert (found.place, str(found.begin), found.distance_m, found.photos) == ("Ispra", "2020-01-17", 2.5, ("a.jpg",))
    assert found.latitude is None
    assert make_setup({"box.csv": BOTH}, read_selections({})).site() == ""
    assert Deployment() == read_deployment_of("", tmp_path)
    with pytest.raises(UsageError, match=r"the facts of the deployment: latitude is 95"):
        read_selections({"facts": {"latitude": 95}})


@pytest.mark.slow
@pytest.mark.skipif(find_browser() is None, reason="chromium (Debian) would run it")
def test_in_the_browser(tmp_path: Path) -> None:
    with serving(tmp_path) as server, visiting(server, tmp_path / "profile") as visitor:
        visitor.begin("Roof")
        visitor.click("#example")
        visitor.sees("#files table svg")
        visitor.click("#next-2")
        visitor.choose("#progress-targets", "cen")
        visitor.until("document.getElementById('progress-targets').value === 'cen'")
        visitor.click("#progress")
        visitor.reads("#stay", "Go on for at least 14 days")
        visitor.reads("#stay", "“Conditions to come”")
        visitor.reads("#stay table", "CEN/TS 17660, field part, box-04")
        is_fine(visitor)
        visitor.choose("#length", "quick")
        visitor.choose("#window", "8")
        visitor.click("#next-3")
        visitor.click("#train")
        visitor.click("#next-4")
        visitor.sees("iframe.report[src]")
        visitor.click("#site summary")
        visitor.choose("#fact-place", "Ispra")
        visitor.choose("#fact-latitude", "95")
        visitor.reads("#problem", "latitude is 95")
        visitor.choose("#fact-latitude", "45.8")
        visitor.sees("#again-report.main")
        is_fine(visitor)
        visitor.click("#again-report")
        visitor.until("!document.getElementById('make-pdf')")
        visitor.click("#make-pdf")
        visitor.sees("#save-pdf")
        (run,) = (tmp_path / "sessions").glob("*/run")
        assert "Ispra" in (run / "report.html").read_text(encoding="utf-8")
        assert (run / "report.pdf").read_bytes().startswith(b"%PDF")


def read_deployment_of(text: str, folder: Path) -> Deployment:
    (folder / "empty.toml").write_text(text)
    return read_deployment(folder / "empty.toml")
