"""CONTRIBUTING's "Add a correction": an entry in the registry is a calibrator, checked by its worked examples."""

import numpy as np
import pytest

from tests.recipes.walking import Walk

ENTRY = """
[[corrections]]
id = "harbour-2026"
version = 1
title = "Our own correction beside the harbour"
doi = ""
source = "this test"
certainty = "made up"
formula = "PM2.5 = 0.5 * PM - 0.1 * RH + 6"
notes = ["Made for a walk through the recipe."]
formulas = [{ pm = 0.5, humidity = -0.1, constant = 6.0 }]
vectors = [{ pm = 10.0, humidity = 40.0, expected = 7.0 }]

[corrections.inputs.pm]
quantity = "PM2.5"
high = 500.0
about = "PM2.5 of our counter"

[corrections.inputs.humidity]
quantity = "RH"
about = "relative humidity"
"""
PAGE = "from scare.calibrator.corrections import page; print(page(), end='')"


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Walk:
    walk = Walk(tmp_path_factory.mktemp("walk"))
    walk.append("scare/calibrator/corrections.toml", ENTRY)
    return walk


def test_a_command_that_takes_a_model_takes_it(walk: Walk) -> None:
    reported = walk.scare("export c harbour-2026 --out harbour")
    assert reported["folder"] == "harbour"
    assert "PM2.5 [ug/m3] from pm [ug/m3], humidity [%]" in (walk.folder / "harbour" / "README.md").read_text(
        encoding="utf-8"
    )


def test_its_worked_example_comes_out_and_its_range_is_kept(walk: Walk) -> None:
    text = walk.python(
        "from scare.calibrator.corrections import bind, find_channels, find_correction\n"
        "from scare.data.readings import Channel\n"
        "import numpy as np\n"
        "found = find_correction('harbour-2026')\n"
        "bound = bind(found, find_channels(found, [Channel('pm25'), Channel('RH')]), 60.0)\n"
        "live = bound.live('box')\n"
        "print(*live.push(0.0, np.array([10.0, 40.0])), *live.push(60.0, np.array([600.0, 40.0])))"
    )
    value, _, _, flags, beyond, _, _, why = text.split()
    assert (float(value), float(beyond)) == (pytest.approx(7.0), pytest.approx(np.nan, nan_ok=True))
    assert int(flags) & 1 == 0
    assert int(why) & 1 == 1


def test_the_page_tells_it(walk: Walk) -> None:
    made = walk.python(PAGE)
    assert "## `harbour-2026@1`: Our own correction beside the harbour" in made
    assert "| pm | PM2.5 of our counter | ug/m3 | 0 to 500 |" in made
    assert made != (walk.folder / "docs" / "corrections.md").read_text(encoding="utf-8")
