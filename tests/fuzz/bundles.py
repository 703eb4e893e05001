"""`.scare` files: the manifest, the arrays and the zip changed, with checksums that are right, so that all is read."""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from functools import cache, reduce
from operator import getitem
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from safetensors.numpy import load as decode
from safetensors.numpy import save as encode

import scare
from scare.board.build import cache_folder
from scare.calibrator.bundle import MANIFEST, WEIGHTS, WINDOWS
from scare.calibrator.calibrator import CalibratedRows, Calibrator
from scare.calibrator.model_card import model_card
from scare.data.flags import NO_VALUE
from scare.errors import NotApplicableError
from scare.export.lowering import compile_calibrator
from scare.export.targets import find_target
from tests.calibrator.building import EDGES, attention_plan, curve_plan, make_calibrator, newest_plan
from tests.calibrator.test_bundle import places
from tests.fuzz.mutating import mutate
from tests.fuzz.target import LieError, Target

Members = dict[str, bytes]
NETWORKS, WINDOW = ("scare", "patchtst", "mamba", "ecoformer", "sendal", "tesla"), 24
NASTY = (
    *(None, True, False, -1, 0, 1, 2, 3, 7, 33, 1000, 10**5, 10**8, 10**12, 10**30, -(10**9)),
    *(
        0.5,
        -0.5,
        1e-45,
        1e-300,
        1e30,
        1e38,
        1e300,
        "",
        "x",
        "y",
        "u",
        "a b",
        "a\nb",
        "*/",
        '"',
        "\\",
        "\ud800",
        "é" * 99,
    ),
    *("9" * 5000, [], {}, [[]], [1, 2, 3], {"a": 1}, ["x", "x"], [[[[[[]]]]]]),
)
NUMBERS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e-38, 1e-20, 1e10, 1e20, 3e38, -3e38, 1e300, np.nan, np.inf, -np.inf)
TYPES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u4", "u8", "?")


@cache
def bases() -> list[Members]:
    """The members of sound files."""
    with TemporaryDirectory() as folder:
        calibrators = [
            make_calibrator(newest_plan(3)),
            make_calibrator(attention_plan(), settle=30, training_range=EDGES),
            make_calibrator(curve_plan(12, hats=False)),
            make_calibrator(curve_plan(20)),
        ]
        made = [_members(one.save(Path(folder) / "a.scare")) for one in calibrators]
    return [*made, *(_members(networks() / f"{name}.scare") for name in NETWORKS)]


def networks() -> Path:
    """Where networks are kept that nobody has trained, one of each kind, as the models are today."""
    models = Path(scare.__file__).parent / "models"
    sources = b"".join(path.read_bytes() for path in sorted(models.rglob("*.py")))
    return cache_folder() / "fuzz" / hashlib.sha256(sources).hexdigest()[:16]


def prepare() -> None:
    """Make those networks: the only part that needs JAX."""
    missing = [name for name in NETWORKS if not (networks() / f"{name}.scare").exists()]
    if missing:
        from scare.experiments.untrained import draw_method

        for name in missing:
            draw_method(name, WINDOW).save(networks() / f"{name}.scare")


def _members(path: Path) -> Members:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def make(chance: Random) -> bytes:
    """A file of which something is changed, most often what it says."""
    members = dict(chance.choice(bases()))
    kind = chance.random()
    if kind < 0.5:
        members[MANIFEST] = _change_facts(members[MANIFEST], chance)
    elif kind < 0.85:
        name = chance.choice([WEIGHTS, WEIGHTS, WINDOWS])
        members[name] = _change_arrays(members[name], chance)
    elif kind < 0.95:
        name = chance.choice(sorted(members))
        members[name] = mutate(members[name], chance)
    packed = _pack(members)
    return packed if kind < 0.95 else mutate(packed, chance)


def _pack(members: Members) -> bytes:
    try:
        facts = json.loads(members[MANIFEST])
        facts["sha256"] = {name: hashlib.sha256(members[name]).hexdigest() for name in members if name != MANIFEST}
        members = {**members, MANIFEST: json.dumps(facts).encode()}
    except (ValueError, TypeError, RecursionError):
        pass
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def _change_facts(content: bytes, chance: Random) -> bytes:
    facts = json.loads(content)
    for _ in range(chance.choice((1, 1, 2, 4))):
        every = [place for place in places(facts) if place and place[0] != "sha256"]
        place = chance.choice(every)
        holder = reduce(getitem, place[:-1], facts)
        chance.choice(FACT_CHANGES)(facts, holder, place[-1], chance)
    return json.dumps(facts).encode()


def _replace(facts: Any, holder: Any, key: Any, chance: Random) -> None:
    holder[key] = chance.choice(NASTY)


def _drop(facts: Any, holder: Any, key: Any, chance: Random) -> None:
    del holder[key]


def _borrow(facts: Any, holder: Any, key: Any, chance: Random) -> None:
    """A copy of what stands somewhere else."""
    other = chance.choice([place for place in places(facts) if place and place[0] != "sha256"])
    holder[key] = json.loads(json.dumps(reduce(getitem, other, facts)))


def _scale(facts: Any, holder: Any, key: Any, chance: Random) -> None:
    if isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
        holder[key] *= chance.choice((-1, 0, 2, 3, 10, 1000, 10**6))


def _repeat(facts: Any, holder: Any, key: Any, chance: Random) -> None:
    if isinstance(holder[key], list):
        holder[key] = holder[key] * chance.choice((2, 3, 300))
    elif isinstance(holder, list):
        holder.insert(chance.randrange(len(holder) + 1), json.loads(json.dumps(holder[key])))


def _add(facts: Any, holder: Any, key: Any, chance: Random) -> None:
    if isinstance(holder, dict):
        holder[chance.choice(("new", "knots", "bias", "unit", "low", "high", "*/"))] = chance.choice(NASTY)


FACT_CHANGES: list[Callable[[Any, Any, Any, Random], None]] = [
    _replace,
    _replace,
    _borrow,
    _drop,
    _scale,
    _repeat,
    _add,
]


def _change_arrays(content: bytes, chance: Random) -> bytes:
    arrays = {name: array.copy() for name, array in decode(content).items()}
    for _ in range(chance.choice((1, 1, 2, 5))):
        name = chance.choice(sorted(arrays))
        with np.errstate(all="ignore"):
            arrays[name] = np.ascontiguousarray(chance.choice(ARRAY_CHANGES)(arrays[name], arrays, chance))
    return encode(arrays)


def _set(array: np.ndarray, arrays: Any, chance: Random) -> np.ndarray:
    if array.size:
        array.reshape(-1)[chance.randrange(array.size)] = _fitting(chance.choice(NUMBERS), array)
    return array


def _fitting(number: float, array: np.ndarray) -> Any:
    if array.dtype.kind == "f":
        return number
    lowest = 0 if array.dtype.kind == "u" else -100
    return int(np.clip(number, lowest, 100)) if np.isfinite(number) else 99


ARRAY_CHANGES: list[Callable[[np.ndarray, Any, Random], np.ndarray]] = [
    _set,
    _set,
    lambda array, arrays, chance: array * np.float64(chance.choice(NUMBERS)).astype(array.dtype),
    lambda array, arrays, chance: array * array.dtype.type(chance.choice((2, 5, 100))),
    lambda array, arrays, chance: array.astype(chance.choice(TYPES)),
    lambda array, arrays, chance: array.T,
    lambda array, arrays, chance: array.reshape(-1),
    lambda array, arrays, chance: array[: len(array) // 2] if array.ndim else array,
    lambda array, arrays, chance: np.concatenate([array] * chance.choice((2, 50))) if array.ndim else array,
    lambda array, arrays, chance: arrays[chance.choice(sorted(arrays))].copy(),
]


def use(path: Path) -> None:
    """Open it, read its card, calibrate, and print it in C and plain Python."""
    calibrator = Calibrator.load(path)
    model_card(calibrator)
    calibrator.cost()
    rows = np.random.default_rng(0).uniform(1, 400, (40, len(calibrator.inputs.channels)))
    times = calibrator.inputs.step_seconds * np.arange(1.0, 41.0)
    for device in ("box-1", "new"):
        check_answers(calibrator.stream(device).push(times, rows))
    live = calibrator.live("box-1")
    for time, row in zip(times[:5], rows, strict=False):
        live.push(time, row)
    for target, arithmetic in (("c", "float32"), ("c", "fixed"), ("micropython", "float32")):
        export(calibrator, target, arithmetic)


def check_answers(answers: CalibratedRows) -> None:
    """A value is a finite number, or there is none and a flag says so."""
    printed = (answers.flags & NO_VALUE) > 0
    if not (np.isfinite(answers.values) == ~printed).all():
        raise LieError("a value without a number and without a flag, or with both")


def export(calibrator: Calibrator, target: str, arithmetic: str) -> None:
    """What `scare export` would write, unless it cannot be."""
    try:
        find_target(target).make(
            compile_calibrator(calibrator, arithmetic, next(iter(calibrator.inputs.scaling.devices), ""))
        )
    except NotApplicableError:
        return


TARGET = Target("bundles", ".scare", make, use, prepare=prepare)
