"""A site: what it sends, and what it never does."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scare.calibrator.moments import Moments
from scare.data.readings import Channel
from scare.errors import DataError, UsageError
from scare.federated.agreement import AgreedNoise
from scare.federated.privacy import Privacy
from scare.federated.site import Site, moments_from_values, numbers
from tests.federated.small_sites import CHANNELS, agreement, box

NOISE = AgreedNoise((0.0, 0.0, 0.0), (200.0, 100.0, 100.0))


def test_the_moments_are_those_of_its_rows_in_json_too() -> None:
    readings = box(0)
    reply = json.loads(json.dumps(Site([readings], agreement()).answer({"kind": "moments"})))
    sent = moments_from_values(reply, 2, "north")
    wanted = Moments.from_rows(readings.values, readings.targets)
    for name, value in vars(wanted).items():
        np.testing.assert_array_equal(getattr(sent, name), value)


def test_few_rows_are_not_summed() -> None:
    with pytest.raises(DataError, match="this site has 99 complete rows with a reference, fewer than 100: sums"):
        Site([box(0, rows=99)], agreement())


@pytest.mark.parametrize(
    ("channels", "message"),
    [
        ((Channel("pm", "mg/m3"), CHANNELS[1]), "box: pm is in mg/m3 here, and ug/m3 is agreed on; convert the column"),
        ((CHANNELS[0],), "box: no column humidity, which the sites agreed on; its columns are pm, truth"),
    ],
)
def test_other_columns_and_units_are_named(channels: tuple[Channel, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Site([replace(box(0), channels=channels)], agreement())


def test_another_time_step_is_named() -> None:
    agreed = agreement()
    agreed = replace(agreed, data=replace(agreed.data, step=600.0))
    with pytest.raises(DataError, match="box has a row every 3600 s, and 600 s is agreed on; average the rows"):
        Site([box(0)], agreed)


def test_a_site_answers_as_often_as_a_fit_needs() -> None:
    site = Site([box(0)], agreement())
    for _ in range(2):
        site.answer({"kind": "moments"})
    with pytest.raises(DataError, match="answers no more than 2 tasks of the kind 'moments'"):
        site.answer({"kind": "moments"})
    with pytest.raises(DataError, match="answers no more than 0 tasks of the kind 'readings'"):
        site.answer({"kind": "readings"})


def test_a_site_that_adds_noise_answers_once_and_never_exactly() -> None:
    site = Site([box(0, rows=3000)], agreement(noise=NOISE), Privacy(5.0))
    sent = moments_from_values(site.answer({"kind": "moments"}), 2, "north")
    exact = site.rows.moments
    assert sent.count != exact.count
    assert sent.count == pytest.approx(exact.count, rel=0.05)
    assert not np.isclose(sent.mean, exact.mean).any()
    for kind, most in (("moments", 1), ("errors", 0)):
        with pytest.raises(DataError, match=f"a site that adds noise answers no more than {most} tasks"):
            site.answer({"kind": kind})


def test_noise_needs_agreed_ranges() -> None:
    with pytest.raises(UsageError, match=r"add a table \[noise\] to the server's file"):
        Site([box(0)], agreement(), Privacy(1.0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean": [0.0]}, r"north: its moments cannot be used: 'mean' should have the shape \(2,\), not \(1,\)"),
        ({"mean": [0.0, float("nan")]}, "north: .* 'mean' has a number that is not finite"),
        ({"mean": "much"}, "north: .* 'mean' should have the shape"),
        ({"covariance": [[1.0, 9.0], [9.0, 1.0]]}, "north: these are no moments: no rows can have such covariances"),
        ({"covariance": [[1.0, 0.5], [0.0, 1.0]]}, "north: these are no moments: .* not symmetric"),
        ({"count": 0}, "north: these are no moments: the count is below 1"),
        ({"count": None}, "north: .* 'count' has a number that is not finite"),
    ],
)
def test_moments_that_cannot_be_are_refused(change: dict[str, Any], message: str) -> None:
    values = Site([box(0)], agreement()).answer({"kind": "moments"})
    with pytest.raises(DataError, match=message):
        moments_from_values({**values, **change}, 2, "north")


def test_moments_of_another_version_are_refused() -> None:
    values = Site([box(0)], agreement()).answer({"kind": "moments"})
    del values["target_variance"]
    with pytest.raises(DataError, match="its moments have no 'target_variance': the site may have another version"):
        moments_from_values(values, 2, "north")


def test_numbers_of_any_length_are_still_checked() -> None:
    np.testing.assert_array_equal(numbers([1.0, 2.0], (-1,), "edges"), [1.0, 2.0])
    for wrong in (5, None, "many", [[1.0]], [1.0, "x"]):
        with pytest.raises(DataError, match=r"'edges' should have the shape \(-1,\)"):
            numbers(wrong, (-1,), "edges")
