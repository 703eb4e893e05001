"""Only raw electrical channels move the centre of a new device, by as much as cells differ from each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scare.data.flags import Flag
from scare.data.readings import CALIBRATED, FLAGS, Readings
from scare.training.fit import fit
from scare.training.new_device_scaling import is_raw, own_share
from tests.training.small_fits import line_recipe, make_readings

COUNT = 1200


def dust(seed: int, count: int = COUNT) -> np.ndarray:
    """A concentration that is often near zero."""
    rng = np.random.default_rng(seed)
    slow = np.convolve(rng.normal(size=count + 60), np.ones(60) / 60**0.5, "valid")[:count]
    return 8 * np.exp(0.9 * slow)


def cells(
    offsets: np.ndarray, unit: str = "mV", name: str = "raw", gain: float = 0.4, noise: float = 1.0
) -> list[Readings]:
    """Devices in different air, each with an offset of its own."""
    found = []
    for number, offset in enumerate(offsets):
        truth = 20 + 4 * np.sin(np.arange(COUNT) / 90 + number) + 3 * (number % 3)
        values = offset + gain * truth + noise * np.random.default_rng(number).normal(size=COUNT)
        found.append(make_readings(values[:, None], truth, f"cell-{number}", channels=(name,), unit=unit))
    return found


OFFSETS = np.array([220.0, 300.0, 260.0, 410.0, 180.0, 350.0])


@pytest.mark.parametrize("unit", ["mV", "V", "uV", "µV", "nA", "µA", "uA", "mA", "kΩ", "Ω", "ohm", "kOhm", "counts"])
def test_offsets_of_cells_give_nearly_all_of_the_centre_to_a_new_one(unit: str) -> None:
    assert own_share(cells(OFFSETS, unit), settle=240) > 0.97


@pytest.mark.parametrize("unit", ["ppb", "ug/m3", "µg/m³", "°C", "%", "hPa"])
def test_a_channel_in_a_unit_of_air_keeps_the_centre_of_the_fleet(unit: str) -> None:
    assert own_share(cells(OFFSETS, unit), settle=240) == [0.0]


def test_dust_without_a_unit_is_not_raw() -> None:
    boxes = [make_readings(1.5 * dust(seed)[:, None], dust(seed), f"b{seed}", unit="") for seed in range(4)]
    assert own_share(boxes, settle=240) == [0.0]
    far = [make_readings(40 * dust(seed)[:, None], dust(seed), f"b{seed}", unit="") for seed in range(4)]
    assert own_share(far, settle=240) == [0.0]  # far from the reference, but it goes down to zero


def test_a_channel_without_a_unit_is_raw_if_its_values_are_unlike_the_references() -> None:
    assert own_share(cells(OFFSETS, ""), settle=240) > 0.97
    assert own_share(cells(OFFSETS, "", "temperature"), settle=240) == [0.0]
    assert own_share(cells(np.zeros(6), "", gain=1.0), settle=240) == [0.0]


def test_each_channel_has_its_own_share() -> None:
    one, other = cells(OFFSETS), cells(OFFSETS, "°C", "warmth")
    both = [
        make_readings(np.hstack([a.values, b.values]), a.targets, a.device, channels=("raw", "warmth"))
        for a, b in zip(one, other, strict=True)
    ]
    mixed = [
        Readings(each.device, each.frame, (each.channels[0], other[0].channels[0]), each.reference) for each in both
    ]
    share = own_share(mixed, settle=240)
    assert share[0] > 0.97
    assert share[1] == 0.0


@settings(deadline=None, max_examples=20)
@given(
    offsets=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=7),
    settle=st.integers(1, 2000),
    noise=st.floats(0.0, 100.0),
)
def test_a_share_is_a_share(offsets: list[float], settle: int, noise: float) -> None:
    (share,) = own_share(cells(np.array(offsets), noise=noise), settle)
    assert 0 <= share <= 1


def test_the_more_cells_differ_the_more_their_own_mean_counts() -> None:
    shares = [float(own_share(cells(spread * (OFFSETS - 300)), settle=240)[0]) for spread in (0.0, 0.02, 0.1, 1.0)]
    assert shares == sorted(shares)
    assert shares[0] < 0.95 < 0.99 < shares[-1]


def test_one_cell_that_is_far_off_does_not_decide() -> None:
    alike = cells(np.array([0.0, 0.1, -0.1, 0.05, -0.05, 0.0]), noise=4.0)
    odd = cells(np.array([0.0, 0.1, -0.1, 0.05, -0.05, 900.0]), noise=4.0)
    assert own_share(odd, settle=240) == pytest.approx(own_share(alike, settle=240), abs=0.05)


def test_a_dead_channel_is_not_raw() -> None:
    dead = make_readings(np.full((50, 1), np.nan), np.arange(50.0), unit="")
    assert not is_raw([dead], 0, dead.channels[0])
    volts = make_readings(np.full((50, 1), np.nan), np.arange(50.0))
    assert own_share([volts], settle=10) == [0.0]


def test_a_new_cell_is_calibrated_far_better_once_it_has_settled() -> None:
    known, new = cells(OFFSETS[:5], noise=0.2), cells(np.append(OFFSETS[:5], 600.0), noise=0.2)[5]
    calibrator = fit(known, recipe=line_recipe(settle_hours=8.0, steps=400))
    assert calibrator.inputs.scaling.settle == 480
    whole = calibrator.predict(new)
    unsettled = (whole[FLAGS].to_numpy() & Flag.UNSETTLED) > 0
    assert unsettled[3:479].all()
    assert not unsettled[479:].any()
    values = whole[CALIBRATED].fill_null(np.nan).to_numpy()
    errors = np.abs(values - new.targets)
    assert np.nanmedian(errors[~unsettled]) < 0.25 * np.nanmedian(errors[unsettled])
    live, stream = calibrator.live(new.device), calibrator.stream(new.device)
    reading = [live.push(*row) for row in zip(new.times, new.values, strict=True)]
    np.testing.assert_allclose([one.value for one in reading], values, rtol=1e-5)
    parts = [stream.push(new.times[i : i + 101], new.values[i : i + 101]) for i in range(0, COUNT, 101)]
    np.testing.assert_allclose(np.concatenate([part.values for part in parts]), values, rtol=1e-5)
    np.testing.assert_array_equal([int(one.flags) for one in reading], whole[FLAGS])
