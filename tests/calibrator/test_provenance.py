"""How a value came to be: the level that inputs and training make, and the version of its product."""

import hashlib
import json
from pathlib import Path

import pytest

from scare.calibrator.corrections import bind, find_correction
from scare.calibrator.model_card import model_card
from scare.calibrator.provenance import describe_table, processing_level, product_version
from tests.calibrator.building import make_calibrator


@pytest.mark.parametrize(
    ("facts", "level", "independent"),
    [
        ({"devices": ["box"], "outcome": "network"}, "2B", False),
        ({"devices": ["box"], "outcome": "raw"}, "1", True),
        ({}, "2B", False),
        ({"outcome": "ridge", "external_channels": ["temperature"]}, "3", False),
    ],
)
def test_the_level_follows_from_training_and_inputs(facts: dict[str, object], level: str, independent: bool) -> None:
    calibrator = make_calibrator().with_facts(**facts)
    channels = [channel.name for channel in calibrator.inputs.channels]
    if "external_channels" in facts:
        calibrator = calibrator.with_facts(external_channels=channels[1:])
    found = processing_level(calibrator)
    assert (found.level, found.independent) == (level, independent)
    assert f"- {found}" in model_card(calibrator)


def test_a_published_correction_is_independent_of_local_data() -> None:
    for name in ("barkjohn-2021",):
        correction = find_correction(name)
        bound = bind(correction, {role.name: role.channel for role in correction.roles}, 60.0)
        assert (processing_level(bound).level, processing_level(bound).independent) == ("2A", True)


def test_a_version_changes_with_the_file(tmp_path: Path) -> None:
    path = make_calibrator().save(tmp_path / "no2.scare")
    before = product_version(path)
    assert before == f"no2@{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
    make_calibrator().with_facts(seed=1).save(path)
    assert product_version(path) != before


def test_a_table_says_what_made_each_devices_values() -> None:
    calibrator = make_calibrator()
    found = json.loads(describe_table({"box-1": ("no2@abc", calibrator)})["scare"])["products"]["box-1"]
    own = calibrator.inputs.channels[0].name
    assert found["product"] == "no2@abc"
    assert found["levels"]["calibrated"]["level"] == "2B"
    assert found["levels"][own]["level"] in ("0", "1")
