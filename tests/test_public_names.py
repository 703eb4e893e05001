"""What `import scare` offers, and no more."""

import inspect
import re
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


@pytest.mark.parametrize("name", NAMES[1:])
def test_every_name_has_a_numpydoc_page_with_an_example(name: str) -> None:
    found = getattr(scare, name)
    text = inspect.getdoc(found) or ""
    sections = set(re.findall(r"^(\w+)\n-+$", text, re.MULTILINE))
    is_function = inspect.isfunction(found)
    expected = {"Parameters", "Examples"} | ({"Returns"} if is_function else set())
    assert sections >= (expected if name != "Flag" else {"Examples"})  # a flag is not made by a caller
    assert ">>> " in text
    parameters = [] if name == "Flag" else list(inspect.signature(found).parameters)
    described = re.findall(r"[a-z_]+", " ".join(re.findall(r"^([a-z_, ]+)$", text, re.MULTILINE)))
    assert [parameter for parameter in parameters if parameter not in described] == []


def test_importing_scare_loads_nothing_large() -> None:
    large = {"jax", "numpy", "pandas", "polars", "sklearn"}
    code = f"import sys, scare; print(sorted({large} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_importing_scare_needs_no_jax() -> None:
    program = (
        "import sys; sys.modules['jax'] = None; import scare; scare.Calibrator, scare.read_readings, scare.simulate"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
