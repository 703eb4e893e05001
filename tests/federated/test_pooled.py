"""The server: its calibrator is the pooled one, its intervals hold, and a site that spoils the rest is named."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.moments import Moments
from scare.data.readings import REFERENCE
from scare.federated.agreement import AgreedNoise
from scare.federated.pooled import Federation, as_task, federate
from scare.federated.privacy import Privacy
from scare.federated.rows import scaled_columns
from scare.federated.site import SMALLEST_COUNT, Site
from tests.federated.small_sites import NAMES, agreement, asking, box


def make_sites(names: tuple[str, ...] = NAMES[:3]) -> dict[str, Site]:
    agreed = agreement(names)
    return {name: Site([box(number)], agreed) for number, name in enumerate(names)}


@pytest.fixture(scope="module")
def federation() -> Federation:
    return federate(asking(make_sites()), agreement())


def test_it_is_the_regression_of_all_rows_together(federation: Federation) -> None:
    rows = np.concatenate([box(number).values for number in range(3)])
    targets = np.concatenate([box(number).targets for number in range(3)])
    scaling, structure = federation.calibrator.inputs.scaling, federation.structure
    np.testing.assert_allclose(scaling.fleet.center, rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scaling.fleet.scale, rows.std(axis=0), rtol=1e-12)
    columns = scaled_columns(rows, rows.mean(axis=0), rows.std(axis=0))[:, structure.inputs]
    scaled = (targets - targets.mean()) / targets.std()
    # The normal equations by hand, with an unpenalised column of ones.
    columns = np.column_stack([columns, np.ones(len(columns))])
    penalty = np.diag([*np.full(len(structure.inputs), structure.penalty * len(rows)), 0.0])
    wanted = np.linalg.solve(columns.T @ columns + penalty, columns.T @ scaled)
    weights, bias = structure.solve(Moments.pooled(list(federation.moments.values())))
    np.testing.assert_allclose([*weights[structure.inputs], bias], wanted, rtol=0, atol=1e-9)


def test_the_calibrator_is_saved_and_calibrates_a_new_place_within_its_intervals(
    federation: Federation, tmp_path: Path
) -> None:
    path = federation.calibrator.save(tmp_path / "pm.scare")
    new = replace(box(1, rows=700), device="new")
    table = Calibrator.load(path).predict(new)
    errors = table["calibrated"].to_numpy() - new.targets
    assert np.sqrt(np.mean(errors**2)) < 0.1 * new.targets.std()
    inside = (table["low"].to_numpy() <= new.targets) & (new.targets <= table["high"].to_numpy())
    assert 0.82 < inside.mean() < 0.99
    np.testing.assert_allclose(federation.calibrator.golden.windows.mean(), 0, atol=0.3)  # drawn, not a site's rows


def test_errors_at_a_site_are_those_of_its_rows(federation: Federation) -> None:
    readings = box(0)
    values = federation.calibrator.predict(readings)["calibrated"].to_numpy()
    wanted = np.sqrt(np.mean((values - readings.targets) ** 2))
    errors = federation.errors["north"]
    assert errors["all"] == pytest.approx(wanted, rel=1e-4)
    assert errors["own"] < errors["all"] < errors["constant"]


def test_small_counts_of_errors_are_not_sent(federation: Federation) -> None:
    counts = np.array(make_sites()["north"].answer(as_task(federation.calibrator, 0.4))["counts"])
    assert 380 < counts.sum() <= 400
    assert not ((counts > 0) & (counts < SMALLEST_COUNT)).any()


def test_a_site_that_spoils_the_others_is_named() -> None:
    agreed = agreement(NAMES)
    sites = {name: Site([box(number)], agreed) for number, name in enumerate(NAMES)}
    swapped = box(3)
    frame = swapped.frame.with_columns(pl.col(REFERENCE) * 1000)  # the reference in ng/m3
    sites["east"] = Site([replace(swapped, frame=frame)], agreed)
    doubts = federate(asking(sites), agreed).doubts
    assert doubts[0].startswith("without 'east' the error at the other sites falls to")
    assert all("'east'" in doubt for doubt in doubts)
    healthy = {name: Site([box(number)], agreed) for number, name in enumerate(NAMES)}
    assert federate(asking(healthy), agreed).doubts == []


def test_sites_with_noise_leave_a_calibrator_without_intervals_and_say_so() -> None:
    noise = AgreedNoise((0.0, 0.0, 0.0), (150.0, 100.0, 80.0))
    agreed = agreement(NAMES[:2], noise=noise)
    sites = {name: Site([box(number, rows=4000)], agreed, Privacy(5.0)) for number, name in enumerate(NAMES[:2])}
    calibrator = federate(asking(sites), agreed).calibrator
    assert calibrator.intervals is None
    assert calibrator.facts["privacy"]["north"] == {"epsilon": 5.0, "delta": 1e-6, "rows": 1}
    errors = calibrator.predict(box(1, rows=500))["calibrated"].to_numpy() - box(1, rows=500).targets
    assert np.sqrt(np.mean(errors**2)) < 0.6 * box(1).targets.std()
