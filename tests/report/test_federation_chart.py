"""The chart of a federation: a bar for each error, none longer than fits, and nothing that a name could inject."""

import re
from xml.etree import ElementTree

from scare.report.federation_chart import LONGEST, make_federation_chart

ERRORS = {
    "north": {"raw": 40.0, "others": 8.0, "own": 2.0, "all": 4.0, "constant": 9.0},
    "<b>": {"raw": None, "others": 1.0, "own": 1.0, "all": 1.0, "constant": 2.0},
}


def test_bars_are_as_long_as_errors_and_cut_off_where_nothing_else_reaches() -> None:
    chart = make_federation_chart(ERRORS, "ug/m3")
    bars = [float(one) for one in re.findall(r'<rect x="160" y="\d+" width="([\d.]+)"', chart)]
    assert bars == [LONGEST, LONGEST, LONGEST / 4, LONGEST / 2, *3 * [round(LONGEST / 8, 1)]]
    texts = [element.text for element in ElementTree.fromstring(chart).iter("{http://www.w3.org/2000/svg}text")]
    assert "<b>" in texts
    assert "RMSE [µg/m³]" in texts
