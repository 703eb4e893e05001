"""The page of a network shows each box once, on a map that needs nothing else, and cannot be broken by names."""

import xml.etree.ElementTree as ElementTree

from scare.data.simulated_city import Journey
from scare.report.network_page import make_map, make_network_page
from scare.upkeep.network.fleet import as_dict
from tests.upkeep.network.cities import draw_city, solve_city

SVG = "{http://www.w3.org/2000/svg}"
NETWORK = as_dict(solve_city(draw_city(Journey.TRAVELLER, 1, boxes=6, days=60)), "ug/m3")


def test_every_box_is_a_circle_and_every_reference_a_square() -> None:
    drawn = ElementTree.fromstring(make_map(NETWORK))
    circles = {
        one: group.find(f"{SVG}title") for group in drawn.iter(f"{SVG}g") for one in group.findall(f"{SVG}circle")
    }
    assert len(circles) == len(NETWORK["boxes"]) == 7
    words = " ".join(title.text or "" for title in circles.values() if title is not None)
    assert all(box["device"] in words for box in NETWORK["boxes"])
    largest = max(circles, key=lambda circle: float(circle.get("r", 0)))
    title = circles[largest]
    assert title is not None
    assert (title.text or "").startswith(f"{NETWORK['boxes'][0]['device']}:")  # the most uncertain comes first
    inside = [float(one.get("cx", -1)) for one in circles]
    assert min(inside) >= 0
    assert max(inside) <= float(drawn.get("viewBox", "").split()[2])


def test_the_page_is_offline_and_escapes_names() -> None:
    boxes = [{**NETWORK["boxes"][0], "device": "<script>alert(1)</script>"}, *NETWORK["boxes"][1:]]
    page = make_network_page({**NETWORK, "boxes": boxes})
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert "station-a (2026-" in page


def test_boxes_without_a_place_are_in_the_table_only() -> None:
    boxes = [{**box, "latitude": None, "longitude": None, "site": ""} for box in NETWORK["boxes"]]
    page = make_network_page({**NETWORK, "boxes": boxes})
    assert "<circle" not in page
    assert page.count("nowhere") == 7
