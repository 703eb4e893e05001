"""The dashboards ask for what our metrics and lines have, and each panel is as Grafana imports it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from scare.live.line_stream import LineStream
from scare.live.pipeline import COUNTS
from tests.calibrator.building import make_calibrator

FOLDER = Path(__file__).parents[2] / "packaging" / "grafana"


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", ["gateway", "readings"])
def test_panels_do_not_overlap_and_use_the_data_source_that_is_chosen(name: str) -> None:
    dashboard = read(name)
    assert {"uid", "title", "schemaVersion", "panels", "templating"} <= dashboard.keys()
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken
        assert all(x < 24 for x, _ in cells)
        taken |= cells
        assert panel["datasource"]["uid"] == "${source}"
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    variables = {one["name"] for one in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?(?!__|tag_|timeFilter)(\w+)", json.dumps(dashboard)))
    assert used <= variables


def test_the_gateways_dashboard_asks_for_metrics_that_there_are() -> None:
    asked = set(
        re.findall(
            r"scare_\w+", " ".join(one["expr"] for panel in read("gateway")["panels"] for one in panel["targets"])
        )
    )
    counters = {f"scare_{name}_total" for name in COUNTS}
    source = (Path(__file__).parents[2] / "scare" / "live" / "http.py").read_text(encoding="utf-8")
    gauges = {f"scare_{name}" for name in re.findall(r'^        "(\w+)": \(', source, re.MULTILINE)} | {
        "scare_problem",
        "scare_alerts",
    }
    assert asked <= counters | gauges | {"scare_wait_seconds_p50", "scare_wait_seconds_p99"}


def test_the_dashboard_of_readings_asks_for_fields_of_a_line() -> None:
    asked = set(
        re.findall(
            r'\("(\w+)"\)', " ".join(one["query"] for panel in read("readings")["panels"] for one in panel["targets"])
        )
    )
    stream = LineStream(make_calibrator(), None, {})  # type: ignore[arg-type]
    assert asked == stream._by_key(1.0, 0.5, 1.5, 0).keys()
