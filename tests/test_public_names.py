"""What `import scare` offers, and no more."""

import subprocess
import sys

import pytest

import scare

NAMES = [
    "__version__",
    "Calibrator",
    "Channel",
    "ColumnMapping",
    "Flag",
    "Readings",
    "Recipe",
    "SensorCalibrator",
    "Simulation",
    "fit",
    "read_readings",
    "simulate",
    "split_by_device",
    "split_by_site",
    "split_by_time",
]


def test_the_names_are_these_in_this_order() -> None:
    assert scare.__all__ == NAMES
    assert dir(scare) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_leads_to_what_it_says(name: str) -> None:
    found = getattr(scare, name)
    assert getattr(found, "__name__", name) == name


def test_another_name_leads_nowhere() -> None:
    with pytest.raises(AttributeError, match="no attribute 'predict'"):
        scare.predict  # noqa: B018


def test_importing_scare_needs_no_jax() -> None:
    program = (
        "import sys; sys.modules['jax'] = None; import scare; scare.Calibrator, scare.read_readings, scare.simulate"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
