"""A file that asks for too much, or has a value of the wrong type, is refused before memory is allocated."""

import json
import os
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scare.calibrator import plan
from scare.calibrator.bundle import MANIFEST, WEIGHTS, WINDOWS
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan import values
from scare.errors import UsageError
from scare.limits import LIMITS, current_limit, raised
from tests.calibrator.building import attention_plan, make_calibrator, tree_plan
from tests.calibrator.test_bundle import Change, members_of, pack, put, refusal, with_arrays, with_facts

PAGE = Path("docs/limits.md")
SECONDS = 1.0  # that a refusal may take


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound bundle."""
    return make_calibrator(attention_plan(), settle=30).save(tmp_path_factory.mktemp("bundle") / "sound.scare")


def quick_refusal(path: Path) -> str:
    start = time.process_time()
    message = refusal(path)
    assert time.process_time() - start < SECONDS
    return message


def steps(*more: dict[str, Any]) -> Change:
    """A change of the plan into these steps after the first."""

    def change(facts: Any) -> None:
        facts["plan"]["steps"] = [facts["plan"]["steps"][0], *more]

    return change


def step(kernel: str, source: str, output: str, **settings: Any) -> dict[str, Any]:
    return {"kernel": kernel, "inputs": [source], "output": output, "weights": {}, "settings": settings}


def one_of(source: str) -> list[dict[str, Any]]:
    """Steps to one number of a value."""
    return [step("flatten", source, "all"), step("part", "all", "y", start=0, shape=[1])]


def chain(*changes: Change) -> Change:
    """One change after another."""

    def change(facts: Any) -> None:
        for one in changes:
            one(facts)

    return change


def test_the_page_lists_the_limits() -> None:
    rows = re.findall(r"^\| ([\d,]+) \| (.+?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(f"{one.maximum:,}", one.what) for one in LIMITS.values()]


SETTING = ("plan", "steps", 0, "settings")
TOO_MUCH = {
    "window": put(("plan", "window"), 10**12),
    "channels": put(("plan", "channels"), 10**8),
    "steps": steps(*(step("relu", "u", f"r{index}") for index in range(3_000))),
    "devices": put(("inputs", "scaling", "devices"), [f"box {index}" for index in range(70_000)]),
    "knots": chain(put((*SETTING, "knots"), 10**7), steps(*one_of("u"))),
    "patches": steps(step("patches", "x", "p", patch=10**8, stride=10**8), *one_of("p")),
    "facts": put(("facts", "model"), "x" * (3 << 20)),
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_what_asks_for_too_much_is_refused_at_once(what: str, saved: Path, tmp_path: Path) -> None:
    assert "the limit is" in quick_refusal(with_facts(saved, tmp_path / "a.scare", TOO_MUCH[what]))


def test_large_dense_steps_are_refused_by_what_they_read(saved: Path, tmp_path: Path) -> None:
    wide = np.zeros((8, 400_000), np.float32)
    path = with_arrays(saved, tmp_path / "a.scare", WEIGHTS, lambda arrays: arrays.update({"plan.2.weight": wide}))
    dense = {**step("dense", "all", "d"), "weights": {"weight": "plan.2.weight"}}
    many = [step("flatten", "u", "all"), *({**dense, "output": f"d{index}"} for index in range(900))]
    assert "weights read by plan steps" in quick_refusal(with_facts(path, tmp_path / "b.scare", steps(*many)))


WRONG: dict[str, tuple[Change, str]] = {
    "a device that is a number": (put(("inputs", "scaling", "devices", 0), 3), "it takes text"),
    "a device that is nothing": (put(("inputs", "scaling", "devices", 0), None), "it takes text"),
    "a device there twice": (put(("inputs", "scaling", "devices"), ["a", "a"]), "a device is listed twice"),
    "a step's output that is a number": (put(("plan", "steps", 0, "output"), 3), "it takes text"),
    "a window that is true": (put(("plan", "window"), True), "it takes a whole number"),
    "a step of time that is infinite": (put(("inputs", "step_seconds"), 1e999), "is not a number of JSON"),
    "a step of time that is hardly one": (put(("inputs", "step_seconds"), 1e-300), "it takes a number"),
    "a surrogate in a name": (put(("inputs", "channels", 0, "name"), "\ud800"), "cannot be read"),
    "a line end in a name": (put(("inputs", "channels", 0, "name"), "a\nb"), "without control characters"),
    "a setting of another type": (put((*SETTING, "knots"), "4"), "knots of hat_basis"),
    "a setting that is true": (put((*SETTING, "knots"), True), "knots of hat_basis"),
    "a setting that is not there": (put(SETTING, {}), "settings of hat_basis"),
    "a setting it does not have": (put((*SETTING, "slope"), 1), "settings of hat_basis"),
    "a kernel in integers": (put(("plan", "steps", 1, "kernel"), "window_q"), "no kernel called 'window_q'"),
    "a name written twice": (put(("plan", "steps", 1, "output"), "u"), "twice"),
    "facts nested deep": (put(("facts", "deep"), json.loads("[" * 30 + "]" * 30)), "nested more than 20 deep"),
    "a selection that is none": (put(("facts", "selection"), 3), "its facts: selection is 3"),
    "an older selection that is none": (put(("facts", "ladder"), 3), "its facts: selection is 3"),
    "origins that are none": (put(("facts", "validation"), "x"), "its facts: validation is 'x'"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_of_another_type_or_out_of_range_is_refused(what: str, saved: Path, tmp_path: Path) -> None:
    change, words = WRONG[what]
    assert words in quick_refusal(with_facts(saved, tmp_path / "a.scare", change))


@pytest.mark.parametrize("number", [np.float16, np.int32, np.bool_])
def test_a_weight_of_another_type_is_refused(number: type, saved: Path, tmp_path: Path) -> None:
    changed = np.zeros((8, 4), number)
    path = with_arrays(saved, tmp_path / "a.scare", WEIGHTS, lambda arrays: arrays.update({"plan.2.weight": changed}))
    assert "weight 'weight' of dense is of type" in refusal(path)


def changed_trees(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Change:
    """A change of a weight of the trees, which are step 3."""
    return lambda arrays: arrays.update({f"plan.3.{name}": change(arrays[f"plan.3.{name}"])})


def with_feature(number: int, kind: type = np.int64) -> Change:
    def change(feature: np.ndarray) -> np.ndarray:
        feature = feature.astype(kind)
        feature[-1, -1] = number
        return feature

    return changed_trees("feature", change)


WRONG_TREES: dict[str, tuple[Change, str]] = {
    "a feature below zero": (with_feature(-1), "trees compare number -1"),
    "a feature beyond the inputs": (with_feature(12), "or 12 of 12 inputs"),
    "a feature beyond every memory": (with_feature(2**64 - 1, np.uint64), "of 12 inputs"),
    "features that are real": (changed_trees("feature", lambda array: array.astype(np.float32)), "is of type float32"),
    "no tree": (changed_trees("feature", lambda array: array[:0]), "do not fit"),
    "trees that are not perfect": (changed_trees("feature", lambda array: array[:, :5]), "do not fit"),
    "trees without end": (changed_trees("feature", lambda array: np.zeros((1, 2**20 - 1), np.int64)), "do not fit"),
    "features in one row": (changed_trees("feature", np.ravel), "do not fit"),
    "fewer thresholds": (changed_trees("threshold", lambda array: array[:-1]), "do not fit"),
    "fewer leaves": (changed_trees("leaf", lambda array: array[:, :-1]), "do not fit"),
    "a leaf that is not a number": (changed_trees("leaf", lambda array: array * np.nan), "not finite"),
    "a threshold without end": (changed_trees("threshold", lambda array: array * np.float32(np.inf)), "not finite"),
    "a guard of more numbers": (changed_trees("low", lambda array: np.zeros(99, np.float32)), "do not fit"),
    "a guard with one end": (changed_trees("high", lambda array: array[:-1]), "do not fit"),
    "as many trees as a file holds": (
        lambda arrays: arrays.update(
            {
                "plan.3.feature": np.zeros((1 << 21, 7), np.int8),
                "plan.3.threshold": np.zeros((1 << 21, 1), np.float32),
                "plan.3.leaf": np.zeros((1 << 21, 1), np.float32),
            }
        ),
        "the limit is",
    ),
}


@pytest.mark.parametrize("what", WRONG_TREES)
def test_trees_that_cannot_be_walked_are_refused(what: str, tmp_path: Path) -> None:
    sound = make_calibrator(tree_plan()).save(tmp_path / "sound.scare")
    change, words = WRONG_TREES[what]
    assert words in quick_refusal(with_arrays(sound, tmp_path / "a.scare", WEIGHTS, change))


def test_stored_windows_are_counted_and_finite(saved: Path, tmp_path: Path) -> None:
    for count, bad, words in ((5000, 0.0, "5,000 stored windows"), (3, np.nan, "not all finite numbers")):

        def change(arrays: Any, count: int = count, bad: float = bad) -> None:
            arrays["golden.windows"], arrays["golden.numbers"] = np.full((count, 12, 2), bad), np.zeros(count)

        assert words in quick_refusal(with_arrays(saved, tmp_path / "a.scare", WINDOWS, change))


def test_limits_are_raised_by_an_option_here_and_in_processes(saved: Path, tmp_path: Path) -> None:
    many = put(("inputs", "channels", 0, "name"), "pm25")
    large = with_facts(saved, tmp_path / "a.scare", many)
    members = members_of(large)
    facts = json.loads(members[MANIFEST])
    facts["facts"]["long"] = "x" * (3 << 20)
    pack(large, {**members, MANIFEST: json.dumps(facts).encode()})
    assert "raise it: scare --limits 2 …" in refusal(large)
    with raised(2):
        assert Calibrator.load(large).facts["long"]
        asked = "from scare.limits import current_limit; print(current_limit('steps'))"
        assert int(subprocess.check_output([sys.executable, "-c", asked])) == 2000
    assert current_limit("steps") == 1000
    with pytest.raises(UsageError, match="from 1 on"), raised(0):
        pass


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.scare")
    assert quick_refusal(tmp_path / "pipe.scare") == "cannot be read: it is not a regular file"
    assert quick_refusal(Path("/dev/zero")) == "cannot be read: it is not a regular file"


def test_a_zip_with_a_long_list_of_members_is_not_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.scare", "w") as archive:
        for index in range(200):
            archive.writestr(f"{index}.txt", b"")
    assert "not a .scare file" in quick_refusal(tmp_path / "a.scare")


def test_windows_that_become_many_numbers_are_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = attention_plan()
    windows = np.random.default_rng(0).normal(size=(20, 12, 2)).astype(np.float32)
    at_once = values(whole, windows, {"hq", "y"})
    monkeypatch.setattr(plan, "BATCH_NUMBERS", 3 * whole.numbers)
    in_parts = values(whole, windows, {"hq", "y"})
    np.testing.assert_array_equal(in_parts["hq"], at_once["hq"])
    np.testing.assert_allclose(in_parts["y"], at_once["y"], rtol=1e-5)
