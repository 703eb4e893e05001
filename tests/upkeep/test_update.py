"""An update from a co-location session is a better calibrator, or the same; what cannot be a co-location is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import Intervals
from scare.calibrator.model_card import model_card
from scare.calibrator.plan_passes import LEARNED, STATE
from scare.data.alignment import shift
from scare.data.readings import CALIBRATED, Channel, Readings
from scare.errors import DataError, UsageError
from scare.upkeep.update import adopt, age_of_correction, revert, update
from scare.windowing.scaling import DeviceEffect
from tests.calibrator.building import make_calibrator, newest_plan
from tests.kernels.test_choice import choice_plan
from tests.upkeep.sessions import HOURLY, air, session, with_reference

SETTLING = make_calibrator(newest_plan(), settle=96)
FLEET = replace(SETTLING, inputs=replace(SETTLING.inputs, step_seconds=3600.0))


def errors(calibrator: Calibrator, readings: Readings) -> np.ndarray:
    values = calibrator.predict(readings)[CALIBRATED].fill_null(np.nan).to_numpy()
    known = np.isfinite(values) & np.isfinite(readings.targets)
    return (values - readings.targets)[known]


def test_a_session_lowers_the_error_on_later_days() -> None:
    found = update(HOURLY, [session(air(4), gain=0.8, offset=6.0)])
    later = session(air(10, seed=7, start_day=20010), gain=0.8, offset=6.0)
    assert found.changed
    assert found.after < 0.5 * found.before
    assert np.std(errors(found.calibrator, later)) < np.std(errors(HOURLY, later))
    assert abs(np.mean(errors(found.calibrator, later))) < 0.5 * abs(np.mean(errors(HOURLY, later)))


@pytest.mark.parametrize("seed", range(6))
def test_a_session_that_finds_nothing_but_noise_costs_next_to_nothing(seed: int) -> None:
    found = update(HOURLY, [session(air(4, seed), noise=2.0)])
    later = session(air(20, seed=30, start_day=20020), noise=2.0)
    assert np.std(errors(found.calibrator, later)) < 1.05 * np.std(errors(HOURLY, later))


def test_sessions_go_on_where_the_last_one_ended(tmp_path: Path) -> None:
    both = session(air(2), gain=0.8, offset=6.0)
    first, second = both.rows(np.arange(len(both)) < 18), both.rows(np.arange(len(both)) >= 18)
    once = update(HOURLY, [first]).calibrator
    assert not update(HOURLY, [first]).changed  # a round to learn from, but no whole one to be judged on
    again = update(Calibrator.load(once.save(tmp_path / "once.scare")), [second])
    assert again.changed
    learned = again.calibrator.facts[LEARNED]
    assert (learned["sessions"], learned["devices"], len(learned["periods"])) == (2, ["box-1"], 2)
    assert age_of_correction(HOURLY) == {}
    assert age_of_correction(again.calibrator) == {"compared": second.times[-1], "uncertainty": None}


@pytest.mark.parametrize("calibrator", [HOURLY, make_calibrator(choice_plan())])
def test_what_was_learned_is_saved_shown_and_taken_back(calibrator: Calibrator, tmp_path: Path) -> None:
    calibrator = replace(calibrator, inputs=replace(calibrator.inputs, step_seconds=3600.0))
    taught = update(calibrator, [session(air(6), 0.8, 6.0, calibrator=calibrator)]).calibrator
    assert taught.facts[LEARNED]["numbers"]["offset"]
    loaded = Calibrator.load(taught.save(tmp_path / "taught.scare"))
    later = air(2, seed=4, start_day=20030)
    assert_array_equal(loaded.predict(later)[CALIBRATED], taught.predict(later)[CALIBRATED])
    assert_allclose(loaded.compute(loaded.golden.windows), loaded.golden.numbers)
    assert "learned: sessions 1" in model_card(loaded)
    assert loaded.facts[STATE] not in model_card(loaded)
    back, shipped = (tmp_path / name for name in ("back.scare", "shipped.scare"))
    assert revert(loaded).save(back).read_bytes() == calibrator.save(shipped).read_bytes()


@pytest.mark.parametrize(("width", "wider"), [(0.01, True), (1000.0, False)])
def test_intervals_that_miss_the_references_become_wider_and_idle_ones_narrower(
    width: float, wider: bool, tmp_path: Path
) -> None:
    shipped = Intervals(0.9, (20.0,), (width, 2 * width), (width, 2 * width), widening=2.0)
    calibrator = replace(HOURLY, intervals=shipped)
    once = update(calibrator, [session(air(6), 0.8, 6.0)]).calibrator
    factor = once.facts[LEARNED]["interval_factor"]
    assert (factor > 1) == wider
    assert once.intervals is not None
    assert_allclose(once.intervals.above, np.multiply(factor, shipped.above), rtol=1e-3)
    loaded = Calibrator.load(once.save(tmp_path / "once.scare"))
    again = update(loaded, [session(air(6, start_day=20010), 0.8, 6.0)]).calibrator
    assert (again.facts[LEARNED]["interval_factor"] > factor) == wider
    back, before = (tmp_path / name for name in ("back.scare", "before.scare"))
    assert revert(again).save(back).read_bytes() == calibrator.save(before).read_bytes()


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({STATE: "xyz"}, "the learned state is damaged: it is not hexadecimal"),
        ({STATE: 7}, "the learned state is damaged: it is not hexadecimal"),
        ({STATE: "00ff"}, "the learned state is damaged: its checksum is wrong"),
        ({LEARNED: {"visits": "two"}}, "what was learned: sessions is 'two'; it takes a whole number"),
        ({LEARNED: {"sessions": "two"}}, "what was learned: sessions is 'two'; it takes a whole number"),
    ],
)
def test_facts_that_are_none_are_refused(facts: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=f"^{message}$"):
        update(HOURLY.with_facts(**facts), [session(air(2))])


def test_an_older_file_counts_its_visits_as_sessions() -> None:
    once = update(HOURLY, [session(air(2))]).calibrator
    older = {("visits" if name == "sessions" else name): value for name, value in once.facts[LEARNED].items()}
    again = update(once.with_facts(**{LEARNED: older}), [session(air(2, start_day=20005))])
    assert again.calibrator.facts[LEARNED]["sessions"] == 2
    assert "visits" not in again.calibrator.facts[LEARNED]


@pytest.mark.parametrize(
    "facts", [{"periods": [["yesterday"]]}, {"network": {"uncertainty": "small"}}, {"network": {"age_days": 3.0}}]
)
def test_a_correction_of_unknown_age_is_refused(facts: dict[str, object]) -> None:
    with pytest.raises(DataError, match=r"^what was learned: "):
        age_of_correction(HOURLY.with_facts(**{LEARNED: facts}))


def test_nothing_learned_cannot_be_taken_back() -> None:
    with pytest.raises(UsageError, match="learned from no co-location session"):
        revert(HOURLY)


def test_what_cannot_be_a_colocation_is_refused() -> None:
    good = session(air(6), 0.9, 2.0)
    garbage = {
        "constant": np.full(len(good), 12.0),
        "no row has": np.full(len(good), np.nan),
        "check that its unit": good.targets * 1000,
        "differ in magnitude": good.targets / 1000,
    }
    for message, truth in garbage.items():
        with pytest.raises(DataError, match=message):
            update(HOURLY, [with_reference(good, truth)])
    with pytest.raises(DataError, match="in ppb and the calibrator gives ug/m3"):
        update(HOURLY, [replace(good, reference=Channel("reference pm25", "ppb"))])


@pytest.mark.parametrize("hours", [-7, -2, 3, 11])
def test_a_shifted_clock_is_refused_and_named(hours: int) -> None:
    good = session(air(6, seed=2), noise=0.1)
    late = shift(good, 3600.0 * hours)
    both = good.frame.select("time", "pm25", "current").join(late.frame.select("time", "reference"), on="time")
    with pytest.raises(DataError, match=f"shifted by {3600 * hours} s"):
        update(HOURLY, [replace(good, frame=both)])


@pytest.mark.parametrize("seed", range(8))
def test_references_from_elsewhere_never_make_it_worse(seed: int) -> None:
    """Another place's air: sometimes refused, sometimes of no use, never learned from."""
    strange = with_reference(air(6, seed=seed), session(air(6, seed=seed + 100)).targets)
    try:
        found = update(HOURLY, [strange])
    except DataError:
        return
    assert not found.changed


def test_what_a_device_adds_is_not_learned_a_second_time() -> None:
    scaling = replace(HOURLY.inputs.scaling, effects={"box-1": DeviceEffect(0.8, 0.3)})
    calibrator = replace(HOURLY, inputs=replace(HOURLY.inputs, scaling=scaling))
    readings = air(6)
    truth = calibrator.predict(readings)[CALIBRATED].fill_null(np.nan).to_numpy()
    found = update(calibrator, [with_reference(readings, truth)])  # right as it is
    assert found.before == pytest.approx(0.0, abs=1e-4)
    assert not found.changed
    later = air(6, seed=9, start_day=20010)
    off = update(calibrator, [with_reference(readings, truth + 5.0)])
    expected = calibrator.predict(later)[CALIBRATED].fill_null(np.nan).to_numpy() + 5.0
    assert_allclose(off.calibrator.predict(later)[CALIBRATED].fill_null(np.nan).to_numpy(), expected, atol=1.0)


# A box that the calibrator has never seen


def new_box(days: float, seed: int, start_day: float = 20000.0) -> Readings:
    """A box that reads 30 % too much, beside what a known one would be calibrated to."""
    readings = air(days, seed, start_day)
    truth = session(readings).targets
    strange = readings.frame.with_columns(pm25=1.3 * readings.frame["pm25"] + 4)
    return replace(with_reference(replace(readings, frame=strange), truth), device="box-9")


def rmse(calibrator: Calibrator, readings: Readings) -> float:
    values = calibrator.predict(readings)[CALIBRATED].fill_null(np.nan).to_numpy()
    return float(np.sqrt(np.nanmean(np.square(values - readings.targets))))


@pytest.mark.parametrize("hours", [12, 48, 120])
def test_hours_beside_a_reference_bring_a_new_box_nearer(hours: int) -> None:
    found = adopt(FLEET, new_box(hours / 24, seed=3))
    later = new_box(10, seed=8, start_day=20050)
    unknown = replace(FLEET, inputs=replace(FLEET.inputs, scaling=replace(FLEET.inputs.scaling, settle=10**6)))
    assert rmse(found.calibrator, later) < 0.6 * rmse(unknown, later)
    assert list(found.calibrator.inputs.scaling.devices) == ["box-9"]
    assert found.calibrator.facts[LEARNED]["devices"] == ["box-9"]


@pytest.mark.parametrize("hours", [24, 96, 200])
def test_the_centre_moves_to_the_mean_of_all_rows_and_the_scale_stays_the_fleets(hours: int) -> None:
    box, scaling = new_box(hours / 24, seed=5), FLEET.inputs.scaling
    found = adopt(FLEET, box).calibrator.inputs.scaling.devices["box-9"]
    assert_allclose(
        found.center, scaling.fleet.center + scaling.own_share * (box.values.mean(axis=0) - scaling.fleet.center)
    )
    assert_array_equal(found.scale, scaling.fleet.scale)


def test_rows_without_a_reference_teach_the_scaling_alone() -> None:
    box = new_box(4, seed=5)
    hours = with_reference(box, np.where(np.arange(len(box)) < 84, np.nan, box.targets))
    found = adopt(FLEET, hours)
    assert found.pairs == 12
    assert_allclose(
        found.calibrator.inputs.scaling.devices["box-9"].center, FLEET.inputs.scaling.own(box.values).center
    )


def test_a_known_box_keeps_its_scaling_and_noise_teaches_it_nothing() -> None:
    found = adopt(HOURLY, session(air(3), noise=2.0))
    assert found.calibrator.inputs.scaling.devices == {"box-1": HOURLY.inputs.scaling.devices["box-1"]}
    assert not found.changed


def test_an_adopted_calibrator_goes_on_learning_and_can_take_it_back() -> None:
    adopted = adopt(FLEET, new_box(2, seed=3)).calibrator
    again = update(adopted, [new_box(4, seed=6, start_day=20020)]).calibrator
    assert again.facts[LEARNED]["sessions"] == 2
    assert revert(again).plan == FLEET.plan


def test_garbage_adopts_nothing() -> None:
    box = new_box(2, seed=3)
    for truth in (np.full(len(box), 3.0), np.full(len(box), np.nan), 1000 * box.targets):
        with pytest.raises(DataError):
            adopt(FLEET, with_reference(box, truth))
