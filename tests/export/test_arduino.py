"""The Arduino library: laid out as the specification says, and its sketch prints what the calibrator computes."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from numpy.testing import assert_allclose

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.plan import Plan, Step
from scare.data.readings import Channel
from scare.errors import UsageError
from scare.export.c_source import runtime_sources
from scare.export.package import export_calibrator
from scare.windowing.scaling import Affine, Scaling
from tests.calibrator.building import attention_plan, curve_plan, make_calibrator, newest_plan
from tests.export.building import sources
from tests.export.compilers import c, call, cpp
from tests.export.printed import cells, compare, correction

STUB = Path(__file__).with_name("arduino_stub")
CATEGORIES = """Display Communication
Signal Input/Output
Sensors
Device Control
Timing
Data Storage
Data Processing
Other""".splitlines()
NETWORK = make_calibrator(attention_plan())
C, CPP = c(), cpp("gnu++11")


def dust_alone() -> Calibrator:
    """A weighted sum of the two newest readings of PM2.5, one a second."""
    weight, bias = np.array([[0.25], [1.5]], np.float32), np.array([0.5], np.float32)
    plan = Plan(2, 1, (Step("flatten", ("x",), "all"), Step("dense", ("all",), "y", {"weight": weight, "bias": bias})))
    affine = Affine(np.array([20.0]), np.array([8.0]))
    channels, scaling = (Channel("PM2.5_CF1", "µg/m³", 0.0, 500.0),), Scaling("standard", affine, affine)
    inputs = replace(NETWORK.inputs, channels=channels, scaling=scaling, step_seconds=1.0, window=2)
    sample = Sample(np.array([[[-1.0], [2.0]]], np.float32), np.zeros(1))
    return Calibrator(plan, inputs, Channel("reference", "µg/m³"), sample, sample)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_calibrator(NETWORK, "arduino", "float32", tmp_path_factory.mktemp("arduino") / "out", "box-2").folder


Run = Callable[..., list[list[str]]]


@pytest.fixture(scope="module")
def run_sketch(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Compiles a library and its sketch as Arduino does and runs it; the cells of each line printed, heading first.

    The runtime, the same in every library, is compiled once.
    """
    runtime = tmp_path_factory.mktemp("runtime")
    call([*C, "-c", *(path for path in sources(library) if path.name in runtime_sources())], runtime)

    def run(library: Path, sent: Sequence[bytes], tick_ms: int, *flags: str) -> list[list[str]]:
        build = tmp_path_factory.mktemp("build")
        includes = [f"-I{library / 'src'}", f"-I{STUB}"]
        (model,) = (path for path in sources(library / "src") if path.name not in runtime_sources())
        call([*C, *includes, "-c", model, "-o", "model.o"], build)
        sketch = f'-DSKETCH="{library / "examples" / "Calibrate" / "Calibrate.ino"}"'
        objects = [build / "model.o", *runtime.glob("*.o")]
        call(
            [*CPP, *includes, sketch, "-DDECIMALS=6", *flags, STUB / "main.cpp", *objects, "-lm", "-o", "sketch"], build
        )
        lines = "".join(f"{line.hex()}\n" for line in sent)
        return cells(call([build / "sketch", tick_ms], build, lines))

    return run


def frame(*numbers: int) -> bytes:
    """A PMS5003's bytes of thirteen numbers, the rest zero; written from its data sheet."""
    words = [0x424D, 28, *numbers, *[0] * (13 - len(numbers))]
    body = b"".join(word.to_bytes(2, "big") for word in words)
    return body + sum(body).to_bytes(2, "big")


# laid out as the specification says


def test_the_properties_are_those_of_the_specification(library: Path) -> None:
    lines = (library / "library.properties").read_text(encoding="utf-8").splitlines()
    facts = dict(line.split("=", 1) for line in lines)
    assert len(facts) == len(lines)
    required = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url", "architectures"}
    assert required <= facts.keys()
    assert all(facts.values())
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,62}", facts["name"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", facts["version"])
    assert facts["category"] in CATEGORIES
    assert (library / "src" / facts["includes"]).exists()


def test_folders_are_those_of_the_specification(library: Path) -> None:
    named = {"library.properties", "README.md", "LICENSE", "src", "examples", "extras"}
    assert {path.name for path in library.iterdir()} == named
    for example in (library / "examples").iterdir():
        assert (example / f"{example.name}.ino").exists()
    assert not list((library / "src").rglob("*.ino"))


def test_a_zip_holds_one_folder_and_is_the_same_again(library: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        export_calibrator(NETWORK, "arduino", "float32", tmp_path / name / "dust.zip", "box-2")
    first, second = (tmp_path / name / "dust.zip" for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()
    with ZipFile(first) as archive:
        archive.extractall(tmp_path / "libraries")
    unpacked = tmp_path / "libraries" / "dust"
    assert list((tmp_path / "libraries").iterdir()) == [unpacked]
    whole = [path for path in library.rglob("*") if path.is_file()]
    assert len(whole) == sum(path.is_file() for path in unpacked.rglob("*"))
    assert all((unpacked / path.relative_to(library)).read_bytes() == path.read_bytes() for path in whole)


def test_a_zip_that_is_there_is_replaced_by_force_only(tmp_path: Path) -> None:
    out = tmp_path / "dust.zip"
    out.write_text("mine")
    with pytest.raises(UsageError, match=r"dust.zip exists already; give another name, or --force"):
        export_calibrator(NETWORK, "arduino", "float32", out)
    assert out.read_text() == "mine"
    export_calibrator(NETWORK, "arduino", "float32", out, force=True)
    assert ZipFile(out).testzip() is None


# prints what the calibrator computes


@pytest.mark.parametrize(
    ("calibrator", "name"),
    [
        (NETWORK, "model"),
        (make_calibrator(newest_plan(6)), "no2"),
        (correction("barkjohn-2021"), "pm"),
    ],
)
def test_the_sketch_with_a_simulated_sensor(run_sketch: Run, calibrator: Calibrator, name: str, tmp_path: Path) -> None:
    library = export_calibrator(calibrator, "arduino", "float32", tmp_path / "library", name=name).folder
    lines = run_sketch(library, [b""] * 60 * 30, 0, "-DSIMULATED")
    heading, rows = lines[0], lines[1:]
    assert heading[-5:] == ["calibrated", "low", "high", "flags", "status"]
    assert len(rows) == 30
    assert len({row[0] for row in rows}) > 15
    assert compare(calibrator, rows) >= 15
    assert {row[-1] for row in rows} <= {"calibrated", "too few readings so far or since a gap"}


def test_the_sketch_in_fixed_point(run_sketch: Run, tmp_path: Path) -> None:
    calibrator = make_calibrator(curve_plan(12))
    library = export_calibrator(calibrator, "arduino", "fixed", tmp_path / "library").folder
    rows = run_sketch(library, [b""] * 60 * 30, 0, "-DSIMULATED")[1:]
    assert compare(calibrator, rows, 0.02) > 15


def test_the_sketch_reads_a_pms5003(run_sketch: Run, tmp_path: Path) -> None:
    calibrator = dust_alone()
    library = export_calibrator(calibrator, "arduino", "float32", tmp_path / "library").folder
    spoilt = bytearray(frame(1, 33, 3))
    spoilt[9] ^= 1
    sent = [
        frame(5, 21, 7, 900, 900, 900),
        b"\x00\x42" + frame(5, 30, 7),  # noise, and a byte that begins a frame but does not
        bytes(spoilt),
        frame(6, 44, 9)[:20],
        frame(6, 44, 9)[20:],
        frame(0, 300, 0),
        frame(0, 26, 0),
        frame(0, 600, 0),
    ]
    heading, *rows = run_sketch(library, sent, 1000)
    assert heading[0] == "PM2.5_CF1 [ug/m3]"
    assert_allclose([float(row[0]) for row in rows], [21, 30, np.nan, np.nan, 44, 300, 26, 600])
    assert compare(calibrator, rows) >= 3
    assert [row[-1] for row in rows][2] == "a number of the reading is missing"
    assert [row[-1] for row in rows][-1] == "a number of the reading is outside its valid range"


def test_readings_of_a_step_are_averaged(run_sketch: Run, tmp_path: Path) -> None:
    calibrator = replace(dust_alone(), inputs=replace(dust_alone().inputs, step_seconds=4.0))
    library = export_calibrator(calibrator, "arduino", "float32", tmp_path / "library").folder
    sent = [frame(0, number, 0) for number in (10, 20, 30, 44, 12, 12, 15, 15)]
    rows = run_sketch(library, sent, 1000)[1:]
    assert [float(row[0]) for row in rows] == [26.0, 13.5]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("barkjohn-2021", ["pms[PM25_CF1]", "NAN"]),
        ("airnow-2021", ["pms[PM25_ATM]", "NAN"]),
        ("kappa-koehler-pm10", ["pms[PM10_ATM]", "NAN"]),
    ],
)
def test_a_correction_reads_the_field_it_was_made_for(name: str, fields: list[str], tmp_path: Path) -> None:
    library = export_calibrator(correction(name), "arduino", "float32", tmp_path / "out").folder
    sketch = (library / "examples" / "Calibrate" / "Calibrate.ino").read_text(encoding="utf-8")
    assert re.findall(r"row\[\d\] = (\S+); //", sketch) == fields


# bad input


def test_names_that_would_break_a_file_become_plain(run_sketch: Run, tmp_path: Path) -> None:
    odd = (Channel('a"*/\n$name', "µg/m³"), Channel("b,\\", "°C"))
    calibrator = replace(NETWORK, inputs=replace(NETWORK.inputs, channels=odd), target=Channel('"\n=', "%"))
    library = export_calibrator(calibrator, "arduino", "float32", tmp_path / "library").folder
    heading, *rows = run_sketch(library, [b""] * 60 * 2, 0, "-DSIMULATED")
    assert heading == ["a/ name [ug/m3]", "b [deg C]", "calibrated", "low", "high", "flags", "status"]
    assert len(rows) == 2


def test_a_door_with_a_typo_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no export target 'ardiuno'; did you mean 'arduino'"):
        export_calibrator(NETWORK, "ardiuno", "float32", tmp_path / "out")


@pytest.mark.parametrize("name", ["setup", "sums", "a" * 32])
def test_a_name_that_an_example_has_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot name a model"):
        export_calibrator(NETWORK, "arduino", "float32", tmp_path / "out", name=name)
    assert not any(tmp_path.iterdir())
