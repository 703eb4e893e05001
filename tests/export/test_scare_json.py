"""`scare.json` says what an export is, for every target, and is all that is read back."""

import json
from pathlib import Path
from typing import Any

import pytest

import scare
from scare.board.build import read_export
from scare.board.verify_export import verify_export
from scare.calibrator.bundle import FORMER_KEYS
from scare.errors import DataError
from scare.export.package import export_calibrator
from scare.export.scare_json import SCARE_JSON, find_exports
from scare.export.targets import TARGETS
from tests.calibrator.building import EDGES, attention_plan, make_calibrator
from tests.needs import needs

NETWORK = make_calibrator(attention_plan())
EXTRAS = {"tflite": "tflite", "onnx": "onnx"}
EVERY = [pytest.param(name, marks=needs(EXTRAS[name]) if name in EXTRAS else ()) for name in TARGETS]


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    return export_calibrator(NETWORK, "c", "float32", tmp_path / "out", "box-2").folder


def change(folder: Path, **facts: Any) -> None:
    (path,) = folder.rglob(SCARE_JSON)
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **facts}), encoding="utf-8")


@pytest.mark.parametrize("target", EVERY)
def test_every_export_carries_it(target: str, tmp_path: Path) -> None:
    package = export_calibrator(NETWORK, target, "float32", tmp_path / "out", "box-2", "dust")
    (export,) = find_exports(tmp_path / "out")
    found = export.description
    assert (found.scare, found.target, found.arithmetic) == (scare.__version__, target, "float32")
    assert (found.name.removeprefix("scare_model_"), found.device) == ("dust", "box-2")
    assert (found.window, found.step_seconds) == (12, 60.0)
    assert [(one.name, one.unit, one.low, one.high) for one in found.channels] == [
        ("pm25", "ug/m3", 0.0, 1000.0),
        ("current", "nA", None, None),
    ]
    assert [(one.center, one.scale) for one in found.channels] == [(25.0, 9.0), (250.0, 50.0)]
    assert (found.calibrated.unit, found.calibrated.center, found.calibrated.scale) == ("ug/m3", 18.0, 6.0)
    assert found.sizes == package.artefact.sizes
    assert export.model.is_file()
    assert export.golden.is_file()
    assert (export.folder / found.golden_header).exists()


def test_hash_codes_are_found_where_it_says(exported: Path) -> None:
    (kept,) = {(one.kind, one.shape) for one in read_export(exported).kept.values()}
    assert kept == ("uint32", (3,))
    header = (exported / "model.h").read_text(encoding="utf-8")
    for name, one in read_export(exported).kept.items():
        assert f"#define MODEL_KEPT_{name.upper()}_OFFSET {one.offset} " in header


def test_an_export_of_an_older_version_is_refused(exported: Path) -> None:
    (exported / SCARE_JSON).unlink()
    message = r"holds no scare\.json: it is not an export of scare, or it was made by an old version"
    with pytest.raises(DataError, match=message):
        verify_export(exported)


def test_a_newer_version_may_say_more(exported: Path) -> None:
    change(exported, weather="fine")
    assert not verify_export(exported)[0].reasons


def test_the_former_names_of_the_training_range_are_read(tmp_path: Path) -> None:
    known = make_calibrator(attention_plan(), training_range=EDGES)
    folder = export_calibrator(known, "c", "float32", tmp_path / "out").folder
    (path,) = folder.rglob(SCARE_JSON)
    text = path.read_text(encoding="utf-8")
    for former, name in FORMER_KEYS.items():
        assert f'"{name}":' in text
        text = text.replace(f'"{name}":', f'"{former}":')
    path.write_text(text, encoding="utf-8")
    (export,) = find_exports(folder)
    assert export.description.training_range == EDGES


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"target": "abacus"}, f"scare {scare.__version__} exported this to abacus, which this version does not know"),
        ({"model": "../elsewhere.c"}, "which is not in"),
        ({"golden": "/etc/hostname"}, "which is not in"),
        ({"window": "long"}, "window is 'long'; it takes a whole number"),
        ({"runtime": ""}, "holds no C, because it was exported to c"),
    ],
)
def test_what_it_cannot_mean_is_refused(exported: Path, facts: dict[str, Any], reason: str) -> None:
    change(exported, **facts)
    with pytest.raises(DataError, match=reason):
        verify_export(exported)


def test_text_that_is_no_json_is_refused(exported: Path) -> None:
    (exported / SCARE_JSON).write_text("{")
    with pytest.raises(DataError, match=r"scare\.json: cannot be read as JSON"):
        verify_export(exported)
