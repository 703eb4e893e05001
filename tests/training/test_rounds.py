"""Rounds: a network that sites train without sharing readings learns, is kept only if better, and resists hostility."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import polars as pl
import pytest

from scare.calibrator.calibrator import Calibrator
from scare.data.readings import Readings
from scare.errors import DataError
from scare.federated.agreement import AgreedNetwork, Agreement
from scare.federated.pooled import Ask, federate
from scare.federated.site import Site, Values
from scare.models import Network, Scare
from scare.models.scare import Attention, Block, Front
from scare.training import rounds
from scare.training.rounds import NetworkSite, train_rounds
from tests.federated.small_sites import CHANNELS, NAMES, REFERENCE, agreement

WINDOW = 8
SETTINGS = AgreedNetwork(rounds=4, steps=60, window=WINDOW)


def lagging_box(number: int, rows: int = 700) -> Readings:
    """A box that follows the truth with a lag, more strongly the more there is: history and products are worth it."""
    rng = np.random.default_rng(number)
    truth = 20 * np.exp(np.convolve(rng.normal(0, 0.35, rows + 7), np.ones(8) / 2, "valid")[:rows])
    pm = truth.copy()
    for row in range(1, rows):
        pm[row] = 0.7 * pm[row - 1] + 0.3 * truth[row]
    times = pl.Series(np.arange(rows) * 3_600_000_000).cast(pl.Datetime("us", "UTC"))
    columns = {"pm": pm + rng.normal(0, 0.2, rows), "humidity": rng.uniform(30, 90, rows), "reference": truth}
    return Readings("box", pl.DataFrame({"time": times, **columns}), CHANNELS, REFERENCE)


def ask_of(agreed: Agreement) -> Ask:
    boxes = {name: [lagging_box(number)] for number, name in enumerate(agreed.sites)}
    sites = {name: Site(box, agreed, None, NetworkSite(box, agreed).answer) for name, box in boxes.items()}
    return lambda tasks: {name: sites[name].answer(task) for name, task in tasks.items()}


@pytest.fixture(autouse=True)
def _small_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build a network that compiles quickly."""

    def build(agreed: Agreement, settings: AgreedNetwork) -> Network:
        small = Scare(Front(width=3), Attention(bits=4, supports=4), Block(hidden=4))
        return small.build(settings.window, len(agreed.data.channels), jax.random.key(settings.seed))

    monkeypatch.setattr(rounds, "build", build)


def train(agreed: Agreement, ask: Ask) -> tuple[Calibrator, list[float]]:
    errors: list[float] = []
    calibrator = train_rounds(ask, agreed, federate(ask, agreed), lambda _, error: errors.append(error))
    return calibrator, errors


def hostile(ask: Ask, site: str, factor: float) -> Ask:
    """One site scales what it changed."""

    def answers(tasks: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Values]:
        replies = {name: dict(reply) for name, reply in ask(tasks).items()}
        if "update" in replies[site]:
            replies[site]["update"] = [factor * number for number in replies[site]["update"]]
        return replies

    return answers


@pytest.mark.slow
def test_a_network_of_three_sites_is_kept_if_better_and_is_an_ordinary_calibrator(tmp_path: Path) -> None:
    agreed = agreement(NAMES[:3], network=SETTINGS)
    calibrator, errors = train(agreed, ask_of(agreed))
    found = calibrator.facts["rmse_of_rounds"]
    assert len(errors) == SETTINGS.rounds + 1
    assert found["network"] == pytest.approx(min(errors), rel=1e-4)
    assert found["network"] < 0.8 * found["regression"]  # which has no history
    loaded = Calibrator.load(calibrator.save(tmp_path / "network.scare"))
    new = lagging_box(9)
    table = loaded.predict(new)
    known = table["calibrated"].is_not_null().to_numpy()
    misses = (table["calibrated"].to_numpy() - new.targets)[known]
    assert np.sqrt(np.mean(misses**2)) < 0.5 * new.targets.std()
    inside = (table["low"].to_numpy() <= new.targets) & (new.targets <= table["high"].to_numpy())
    assert 0.75 < inside[known].mean() < 0.99
    again, _ = train(agreed, ask_of(agreed))
    for one, other in zip(calibrator.plan.steps, again.plan.steps, strict=True):
        for name, weights in one.weights.items():
            np.testing.assert_array_equal(weights, other.weights[name])


@pytest.mark.slow
@pytest.mark.parametrize("factor", [-1000.0, 1000.0, 0.0])
def test_a_hostile_site_is_bounded(factor: float) -> None:
    agreed = agreement(NAMES, network=SETTINGS)
    _, honest = train(agreed, ask_of(agreed))
    _, attacked = train(agreed, hostile(ask_of(agreed), "west", factor))
    assert max(attacked) < 1.3 * max(honest)
    assert min(attacked) < 1.2 * min(honest)
    undefended = replace(agreed, rules=replace(agreed.rules, tolerated=0))
    if abs(factor) > 1:  # even then a long update is shortened
        assert max(train(undefended, hostile(ask_of(undefended), "west", factor))[1]) < 10 * max(honest)


def test_a_network_that_nobody_agreed_on_is_refused() -> None:
    with pytest.raises(DataError, match=r"no network is agreed on: the server's file has no table \[network\]"):
        NetworkSite([lagging_box(0)], agreement())
