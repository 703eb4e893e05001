"""A `.scare` file gives back what was saved, and anything else is refused with one message."""

import hashlib
import json
import random
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from safetensors.numpy import load as decode
from safetensors.numpy import save as encode

from scare.calibrator.bundle import CARD, FORMER_KEYS, MANIFEST, MEMBERS, VERSION, WEIGHTS, WINDOWS
from scare.calibrator.calibrator import Calibrator
from scare.errors import DataError, UsageError
from scare.limits import LIMITS
from tests.calibrator.building import (
    CURRENT,
    DUST,
    EDGES,
    TARGET,
    attention_plan,
    make_calibrator,
    newest_plan,
    tree_plan,
)

Members = dict[str, bytes]
Change = Callable[[Any], None]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound bundle."""
    return make_calibrator(attention_plan(), settle=30, training_range=EDGES).save(
        tmp_path_factory.mktemp("bundle") / "sound.scare"
    )


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a sound bundle with little in it."""
    return make_calibrator(newest_plan(2)).save(tmp_path_factory.mktemp("bundle") / "small.scare").read_bytes()


WAYS = (
    make_calibrator(),
    make_calibrator(attention_plan(), settle=30),
    replace(make_calibrator(training_range=EDGES), floor=-0.5),
    make_calibrator(tree_plan()),
    make_calibrator(tree_plan(hats=False, depth=6, guarded=0)),
)


def members_of(path: Path) -> Members:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(path: Path, members: Members, checksums: bool = True) -> Path:
    """Write members as a zip: stored with the checksums of what is really there, or compressed as they are."""
    if checksums:
        facts = json.loads(members[MANIFEST])
        facts["sha256"] = {name: hashlib.sha256(members[name]).hexdigest() for name in members if name != MANIFEST}
        members = {**members, MANIFEST: json.dumps(facts).encode()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED if checksums else zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def with_facts(saved: Path, path: Path, change: Change) -> Path:
    """The bundle with its manifest changed."""
    members = members_of(saved)
    facts = json.loads(members[MANIFEST])
    change(facts)
    return pack(path, {**members, MANIFEST: json.dumps(facts).encode()})


def with_arrays(saved: Path, path: Path, member: str, change: Change) -> Path:
    """The bundle with the arrays of one member changed."""
    members = members_of(saved)
    arrays = {name: array.copy() for name, array in decode(members[member]).items()}
    change(arrays)
    return pack(path, {**members, member: encode(arrays)})


def refusal(path: Path) -> str:
    """The one message with which a bundle is refused."""
    with pytest.raises(DataError) as caught:
        Calibrator.load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert len(message) < 400 + len(str(path))
    return message.removeprefix(f"{path}: ")


def assert_equal(one: Calibrator, other: Calibrator) -> None:
    windows = np.random.default_rng(0).normal(size=(9, one.window, 2)).astype(np.float32)
    assert one.facts == other.facts
    assert (one.target, one.floor) == (other.target, other.floor)
    assert replace(one.inputs, scaling=None) == replace(other.inputs, scaling=None)
    ours, theirs = one.inputs.scaling, other.inputs.scaling
    assert (ours.method, ours.settle, list(ours.devices)) == (theirs.method, theirs.settle, list(theirs.devices))
    assert (ours.effects, ours.own_share is None) == (theirs.effects, theirs.own_share is None)
    assert_array_equal(ours.own_share, theirs.own_share)
    pairs = [(ours.devices[name], theirs.devices[name]) for name in ours.devices]
    for mine, its in [*pairs, (ours.fleet, theirs.fleet), (ours.target, theirs.target)]:
        assert_array_equal(mine.center, its.center, strict=True)
        assert_array_equal(mine.scale, its.scale, strict=True)
    for name in ("golden", "validation"):
        assert_array_equal(getattr(one, name).windows, getattr(other, name).windows, strict=True)
        assert_array_equal(getattr(one, name).numbers, getattr(other, name).numbers, strict=True)
    for mine, its in zip(one.plan.steps, other.plan.steps, strict=True):
        assert (mine.kernel, mine.inputs, mine.output) == (its.kernel, its.inputs, its.output)
        assert mine.settings == its.settings
        assert mine.weights.keys() == its.weights.keys()
        for name, weight in mine.weights.items():
            assert_array_equal(weight, its.weights[name], strict=True)
    assert_array_equal(one.compute(windows), other.compute(windows), strict=True)


@pytest.mark.parametrize("calibrator", WAYS)
def test_what_is_saved_is_what_is_loaded(calibrator: Calibrator, tmp_path: Path) -> None:
    loaded = Calibrator.load(calibrator.save(tmp_path / "a.scare"))
    assert_equal(loaded, calibrator)
    assert loaded.inputs.channels == (DUST, CURRENT)
    assert loaded.inputs.channels[1].low == -np.inf
    assert loaded.target == TARGET
    assert_array_equal(loaded.compute(loaded.golden.windows), loaded.golden.numbers)


def test_the_same_calibrator_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    again = make_calibrator(attention_plan(), settle=30, training_range=EDGES).save(tmp_path / "again.scare")
    loaded = Calibrator.load(saved).save(str(tmp_path / "loaded.scare"))
    assert again.read_bytes() == loaded.read_bytes() == saved.read_bytes()


def test_the_card_says_what_the_calibrator_is(saved: Path) -> None:
    card = members_of(saved)[CARD].decode()
    assert card.startswith("# Calibrator for reference pm25 [µg/m³]\n")
    assert "- inputs: pm25 [µg/m³], current [nA]\n" in card
    assert "- window: 12 readings, one every 60 s\n" in card
    assert "after 30 readings raw channels are centred by its own mean" in card
    assert "- note: µg and °C\n" in card


def test_facts_can_be_added(saved: Path, tmp_path: Path) -> None:
    loaded = Calibrator.load(Calibrator.load(saved).with_facts(board="nano").save(tmp_path / "b.scare"))
    assert loaded.facts["board"] == "nano"
    assert loaded.facts["model"] == "hand-made"


def test_a_fact_json_cannot_hold_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    for fact in (float("nan"), object(), np.float32(1)):
        with pytest.raises(UsageError, match=r"cannot write .*c\.scare"):
            make_calibrator().with_facts(score=fact).save(tmp_path / "c.scare")
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_place_is_a_usage_error_and_nothing_is_left_behind(tmp_path: Path) -> None:
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    file.write_text("in the way")
    for place in (folder, file / "a.scare"):
        with pytest.raises(UsageError, match="cannot write"):
            make_calibrator().save(place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    assert list(folder.iterdir()) == []
    assert file.read_text() == "in the way"


def test_saving_over_a_bundle_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / "a.scare"
    make_calibrator().save(path)
    make_calibrator().with_facts(seed=8).save(path)
    assert Calibrator.load(path).facts["seed"] == 8
    assert [file.name for file in tmp_path.iterdir()] == ["a.scare"]


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.scare") == "no such file"
    assert "cannot be read" in refusal(tmp_path)


NO_BUNDLES = [b"", b"PK", b"\0" * 1000, random.Random(0).randbytes(5000), b"PK\5\6" + b"\0" * 18]


@pytest.mark.parametrize("content", NO_BUNDLES)
def test_what_is_no_bundle_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.scare"
    path.write_bytes(content)
    assert refusal(path)


def test_a_bundle_cut_short_anywhere_is_refused(small: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.scare"
    for length in [*range(0, len(small), 23), len(small) - 1]:
        path.write_bytes(small[:length])
        assert "cut short" in refusal(path)


def check_changed(path: Path, original: Calibrator) -> None:
    """Either the same calibrator or a refusal."""
    loaded = load_or_message(path)
    if isinstance(loaded, str):
        assert "\n" not in loaded
    else:
        assert_equal(loaded, original)


def load_or_message(path: Path) -> Calibrator | str:
    """The calibrator, or the message with which it is refused; any other exception fails the test."""
    try:
        return Calibrator.load(path)
    except DataError as error:
        return str(error)


def test_a_changed_byte_anywhere_is_refused_or_makes_no_difference(small: bytes, tmp_path: Path) -> None:
    path, chance = tmp_path / "changed.scare", random.Random(1)
    for position in range(len(small)):
        changed = bytearray(small)
        changed[position] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        check_changed(path, make_calibrator(newest_plan(2)))


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_changed_stretches_are_refused_or_make_no_difference(
    data: st.DataObject, small: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    start = data.draw(st.integers(0, len(small) - 1))
    stretch = data.draw(st.binary(min_size=1, max_size=4))
    path = tmp_path_factory.getbasetemp() / "stretch.scare"
    path.write_bytes(small[:start] + stretch + small[start + len(stretch) :])
    check_changed(path, make_calibrator(newest_plan(2)))


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_a_member_changed_with_its_checksum_never_causes_another_exception(
    data: st.DataObject, saved: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    members = members_of(saved)
    member = data.draw(st.sampled_from([WEIGHTS, WINDOWS, MANIFEST]))
    content = members[member]
    limit = len(content) - 1 if member == MANIFEST else 900  # the header is the part that can be malformed
    start = data.draw(st.integers(0, limit))
    stretch = data.draw(st.binary(min_size=1, max_size=3) | st.sampled_from([b"0", b"9", b'"', b"-", b"]", b"null"]))
    members[member] = content[:start] + stretch + content[start + len(stretch) :]
    path = tmp_path_factory.getbasetemp() / "member.scare"
    try:
        pack(path, members)
    except (ValueError, TypeError):
        pack(path, members, checksums=False)
    loaded = load_or_message(path)
    assert isinstance(loaded, Calibrator) or "\n" not in loaded


def test_exactly_the_four_members_are_accepted(saved: Path, tmp_path: Path) -> None:
    members, path = members_of(saved), tmp_path / "members.scare"
    for extra in ("notes.txt", "../evil", "/etc/evil", "card.md/", "evil\nname"):
        assert "instead of manifest.json" in refusal(pack(path, {**members, extra: b"evil"}, checksums=False))
    for missing in MEMBERS:
        rest = {name: content for name, content in members.items() if name != missing}
        assert "instead of manifest.json" in refusal(pack(path, rest, checksums=False))
    assert [file.name for file in tmp_path.iterdir()] == ["members.scare"]


def test_a_member_given_twice_is_refused(saved: Path, tmp_path: Path) -> None:
    path = pack(tmp_path / "twice.scare", members_of(saved))
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr(WEIGHTS, members_of(saved)[WEIGHTS])
    assert "instead of manifest.json" in refusal(path)


def test_a_zip_bomb_is_refused_before_it_unpacks(saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "bomb.scare"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members_of(saved).items():
            with archive.open(name, "w") as member:
                parts = [bytes(1 << 24)] * 64 if name == WINDOWS else [content]
                for part in parts:
                    member.write(part)
    assert path.stat().st_size < 20 << 20
    assert unpacked_peak(path, f"bytes of {WINDOWS}, unpacked; the limit is 134,217,728") < 32 << 20


def test_a_zip_bomb_that_lies_about_its_size_is_refused_too(saved: Path, tmp_path: Path) -> None:
    path, zeros = tmp_path / "liar.scare", bytes(LIMITS["card"].maximum * 20)
    pack(path, {**members_of(saved), CARD: zeros}, checksums=False)
    honest = path.read_bytes()
    lying = honest.replace(len(zeros).to_bytes(4, "little"), (1000).to_bytes(4, "little"))
    assert lying != honest
    path.write_bytes(lying)
    assert unpacked_peak(path, "cut short") < 8 << 20


def unpacked_peak(path: Path, words: str) -> int:
    """The most bytes of memory taken while this bundle is refused with these words."""
    tracemalloc.start()
    assert words in refusal(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_an_encrypted_member_and_an_unknown_compression_are_refused(small: bytes, tmp_path: Path) -> None:
    entry = small.index(b"PK\1\2")
    for offset, value in ((8, 1), (10, 14), (10, 12), (10, 99)):  # encrypted; LZMA, bzip2, unknown
        changed = bytearray(small)
        changed[entry + offset] = value
        path = tmp_path / "odd.scare"
        path.write_bytes(changed)
        assert refusal(path)


def test_a_member_changed_without_its_checksum_is_named(saved: Path, tmp_path: Path) -> None:
    for name in (WEIGHTS, WINDOWS, CARD):
        members = members_of(saved)
        members[name] = members[name][:-1] + b"!"
        path = pack(tmp_path / "changed.scare", members, checksums=False)
        assert refusal(path) == f"refused: {name} was changed after it was written"


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[" * 200_000, b"null", b"3", b"[]", b'"text"', b"{}"])
def test_a_manifest_that_is_no_manifest_is_refused(text: bytes, saved: Path, tmp_path: Path) -> None:
    members = {**members_of(saved), MANIFEST: text}
    assert refusal(pack(tmp_path / "a.scare", members, checksums=False))


def places(facts: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value in a manifest."""
    items = facts.items() if isinstance(facts, dict) else enumerate(facts) if isinstance(facts, list) else ()
    return [place, *(way for key, value in items for way in places(value, (*place, key)))]


def put(place: tuple[Any, ...], value: Any) -> Change:
    """A change that writes a value to a place."""

    def change(facts: Any) -> None:
        reduce(getitem, place[:-1], facts)[place[-1]] = value

    return change


def drop(place: tuple[Any, ...]) -> Change:
    """A change that takes a place away."""

    def change(facts: Any) -> None:
        del reduce(getitem, place[:-1], facts)[place[-1]]

    return change


FREE = ("facts", "made_with", "sha256")  # what they hold is the writer's, or rewritten by `pack`
# have defaults
OPTIONAL = {
    "unit",
    "low",
    "high",
    "checked",
    "hold",
    "percent",
    "bias",
    "training_range",
    "slope",
    "lower_bound",
    "own_share",
}


def test_every_part_of_the_manifest_is_needed(saved: Path, tmp_path: Path) -> None:
    whole = json.loads(members_of(saved)[MANIFEST])
    needed = 0
    for place in places(whole)[1:]:
        in_quality = place[:2] == ("inputs", "quality") and len(place) > 2
        if place[0] in FREE or place[-1] in OPTIONAL or in_quality or isinstance(place[-1], int):
            continue
        message = refusal(with_facts(saved, tmp_path / "a.scare", drop(place)))
        assert "manifest is incomplete" in message or message.startswith("refused: ")
        needed += 1
    assert needed > 70


@pytest.mark.parametrize("wrong", [None, "text", [], {}, [1, 2, 3], -1, 0, 0.5, 1e999, float("nan"), 10**30])
def test_a_wrong_value_anywhere_in_the_manifest_gives_a_refusal_or_a_working_calibrator(
    wrong: Any, saved: Path, tmp_path: Path
) -> None:
    refused = 0
    for place in places(json.loads(members_of(saved)[MANIFEST]))[1:]:
        if place[0] == "sha256":
            continue
        loaded = load_or_message(with_facts(saved, tmp_path / "a.scare", put(place, wrong)))
        if isinstance(loaded, str):
            refused += 1
        else:
            assert np.isfinite(loaded.compute(loaded.golden.windows)).all(), place
            assert np.isfinite(loaded.predict_one(np.ones((12, 2)))) or place[:2] in OPEN, place
            rows = np.random.default_rng(0).uniform(1, 9, (40, 2))
            loaded.stream("box-1").push(60.0 * np.arange(40), rows)
            live = loaded.live("new")
            for time, row in enumerate(rows[:6]):
                live.push(60.0 * time, row)
    assert refused > 60


OPEN = {("inputs", "channels"), ("inputs", "quality")}  # a changed range or sentinel may make the ones missing


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_weight_that_is_not_finite_is_refused(bad: float, saved: Path, tmp_path: Path) -> None:
    def spoil(arrays: dict[str, np.ndarray]) -> None:
        arrays["plan.2.weight"][3, 1] = bad

    path = with_arrays(saved, tmp_path / "a.scare", WEIGHTS, spoil)
    assert refusal(path) == "refused: weight 'weight' of dense is not finite"


@pytest.mark.parametrize("bad", [0.0, -2.0, np.nan, np.inf])
def test_a_scale_that_is_not_positive_is_refused(bad: float, saved: Path, tmp_path: Path) -> None:
    for row in range(3):  # fleet, box-1, box-2

        def spoil(arrays: dict[str, np.ndarray], row: int = row) -> None:
            arrays["scaling.scale"][row, 1] = bad

        assert "scaling is not finite and positive" in refusal(with_arrays(saved, tmp_path / "a.scare", WEIGHTS, spoil))
    path = with_facts(saved, tmp_path / "b.scare", lambda facts: facts["inputs"]["scaling"]["target"].update(scale=bad))
    assert refusal(path)


def test_a_center_that_is_not_finite_is_refused(saved: Path, tmp_path: Path) -> None:
    def spoil(arrays: dict[str, np.ndarray]) -> None:
        arrays["scaling.center"][0, 0] = np.nan

    assert "scaling" in refusal(with_arrays(saved, tmp_path / "a.scare", WEIGHTS, spoil))


@pytest.mark.parametrize(
    ("member", "name", "shape", "words"),
    [
        (WEIGHTS, "plan.2.weight", (7, 4), "dense weight do not fit"),
        (WEIGHTS, "plan.2.weight", (32,), "dense weight do not fit"),
        (WEIGHTS, "plan.4.bias", (4, 3), "dense bias do not fit"),
        (WEIGHTS, "plan.17.weight", (18, 2), "do not fit"),
        (WEIGHTS, "scaling.center", (2, 2), "scaling does not fit"),
        (WEIGHTS, "scaling.scale", (3, 3), "scaling does not fit"),
        (WINDOWS, "golden.windows", (3, 11, 2), "golden windows do not fit"),
        (WINDOWS, "golden.numbers", (4,), "golden windows do not fit"),
        (WINDOWS, "golden.numbers", (3, 1), "golden windows do not fit"),
        (WINDOWS, "validation.windows", (3, 12, 1), "validation windows do not fit"),
    ],
)
def test_an_array_of_the_wrong_shape_is_refused(
    member: str, name: str, shape: tuple[int, ...], words: str, saved: Path, tmp_path: Path
) -> None:
    path = with_arrays(saved, tmp_path / "a.scare", member, lambda arrays: arrays.update({name: np.ones(shape)}))
    assert words in refusal(path)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("plan.0.knot", np.full(12, 3, np.int32)),  # the last hat has no upper knot
        ("plan.0.knot", np.full(12, -9, np.int32)),
        ("plan.0.knot", np.zeros(12, np.float32)),
        ("plan.2.weight", np.zeros((8, 4), np.complex64)),
        ("plan.9.projection", np.full((5, 8), 3e38, np.float32)),
    ],
)
def test_a_plan_that_cannot_run_is_refused(name: str, array: np.ndarray, saved: Path, tmp_path: Path) -> None:
    path = with_arrays(saved, tmp_path / "a.scare", WEIGHTS, lambda arrays: arrays.update({name: array}))
    assert refusal(path)


@pytest.mark.parametrize("missing", ["plan.2.weight", "scaling.center"])
def test_a_missing_array_is_named(missing: str, saved: Path, tmp_path: Path) -> None:
    path = with_arrays(saved, tmp_path / "a.scare", WEIGHTS, lambda arrays: arrays.pop(missing))
    assert f"incomplete or malformed ('{missing}')" in refusal(path)


def test_an_unknown_kernel_is_named(saved: Path, tmp_path: Path) -> None:
    path = with_facts(saved, tmp_path / "a.scare", lambda facts: facts["plan"]["steps"][3].update(kernel="system"))
    assert refusal(path) == "refused: no kernel called 'system'"


def test_a_file_with_the_former_names_of_the_training_range_loads(saved: Path, tmp_path: Path) -> None:
    def rename(facts: Any) -> None:
        former = {today: name for name, today in FORMER_KEYS.items()}
        part = facts["inputs"].pop("training_range")
        facts["inputs"]["validity"] = {former.get(name, name): value for name, value in part.items()}

    older = with_facts(saved, tmp_path / "older.scare", rename)
    assert "held_low" in members_of(older)[MANIFEST].decode()
    assert Calibrator.load(older).inputs.training_range == EDGES


def test_a_newer_major_version_asks_for_an_upgrade(saved: Path, tmp_path: Path) -> None:
    path = with_facts(saved, tmp_path / "a.scare", lambda facts: facts.update(version=[VERSION[0] + 1, 3], plan="new"))
    assert f"its format is version {VERSION[0] + 1}.3" in refusal(path)
    assert "upgrade scare to open it" in refusal(path)


def test_a_newer_minor_version_with_more_in_it_loads(saved: Path, tmp_path: Path) -> None:
    def extend(facts: Any) -> None:
        facts["version"] = [VERSION[0], VERSION[1] + 1]
        plan, inputs = facts["plan"], facts["inputs"]
        parts = [facts, facts["target"], plan, plan["steps"][0], inputs, inputs["channels"][0]]
        parts += [inputs[name] for name in ("scaling", "policy", "quality")]
        for part in parts:
            part["new_in_this_version"] = {"anything": [1, None]}

    assert_equal(Calibrator.load(with_facts(saved, tmp_path / "a.scare", extend)), Calibrator.load(saved))
