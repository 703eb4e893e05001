"""A box is due at a reference some months after the last reading that its calibration has learned from."""

from datetime import UTC, datetime

import pytest

from scare.calibrator.calibrator import Calibrator
from scare.data.readings import Channel
from scare.upkeep.network.calibrators import as_it_reads
from scare.upkeep.schedule import describe_schedule, recollocation

NOW = datetime(2026, 7, 1, tzinfo=UTC).timestamp()


def calibrator_of(target: str, **facts: object) -> Calibrator:
    return as_it_reads(Channel("raw"), Channel(target), 3600.0).with_facts(**facts)


@pytest.mark.parametrize(("target", "due"), [("PM2.5", "due on 2027-01-09"), ("NO2", "due on 2026-07-10")])
def test_the_kind_of_sensor_says_how_long(target: str, due: str) -> None:
    sentence = describe_schedule(calibrator_of(target, period=["2025-12-01T00:00:00Z", "2026-01-09T00:00:00Z"]), NOW)
    assert "have learned until 2026-01-09" in sentence
    assert sentence.endswith(due)


def test_a_calibration_that_is_too_old_is_overdue_until_it_is_updated() -> None:
    period = ["2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z"]
    assert "are due since 2024-08-01" in describe_schedule(calibrator_of("NO2", period=period), NOW)
    learned = {"periods": [["2026-06-01T00:00:00Z", "2026-06-09T00:00:00Z"]]}
    assert "are due on 2026-12-08" in describe_schedule(calibrator_of("NO2", period=period, learned=learned), NOW)


def test_without_a_period_only_the_interval_is_said() -> None:
    assert describe_schedule(calibrator_of("NO2"), NOW).endswith("re-collocate gas sensors every 6 months")


def test_every_interval_has_a_source() -> None:
    for target in ("PM10", "O3", "T", "something else"):
        rule = recollocation(target)
        assert rule.months > 0
        assert rule.source
