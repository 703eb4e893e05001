"""A bundle is the `.scare` file: a zip of manifest.json, weights.safetensors, windows.safetensors and card.md.

Nothing in it is code. Names, sizes, the manifest's schema and checksums are checked before anything is decoded; the
same calibrator always gives the same bytes. `manifest.json` describes the calibrator; `weights.safetensors` holds the
arrays of plan and scaling, `windows.safetensors` the golden windows with their outputs and the validation windows with
their references; `card.md` is for people. The dataclasses here are the manifest's schema.

What a file may ask for is limited (`LIMITS`, docs/limits.md) and checked before anything is allocated. A usual file
asks for a thousandth of it. For a larger file that you trust, raise all limits together: `scare --limits 4 predict …`,
or `with raised(4): Calibrator.load(…)`.
"""

import hashlib
import json
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Ge, Le, MaxLen, MinLen
from safetensors import SafetensorError
from safetensors.numpy import load as decode
from safetensors.numpy import save as encode

import scare
from scare.calibrator.cost import all_operations
from scare.calibrator.intervals import COVERAGE_FACT, Intervals, describe_intervals
from scare.calibrator.passes import STATE
from scare.calibrator.plan import Plan, Step, run
from scare.calibrator.selection_table import HEAD, SELECTION_FACTS, current_facts, selection_summary, selection_table
from scare.data.flags import QualitySettings
from scare.data.readings import Channel
from scare.errors import DataError, UsageError
from scare.files import replacing
from scare.kernels import FLOAT_KERNELS
from scare.records import Count, Finite, Name, Positive, Whole, convert, is_printable
from scare.windowing.grid import GapPolicy
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import METHODS, Affine, Scaling
from scare.windowing.training_range import TrainingRange

if TYPE_CHECKING:
    from scare.calibrator.calibrator import Calibrator

MANIFEST, WEIGHTS, WINDOWS, CARD = "manifest.json", "weights.safetensors", "windows.safetensors", "card.md"
MEMBERS = {MANIFEST: "manifest", WEIGHTS: "weights", WINDOWS: "windows", CARD: "card"}  # and the limits of their sizes
DIRECTORY = 4096  # bytes of a zip's list of its members: four need a tenth of it
END = 20 + 22  # bytes of what points to a large zip's end, which ours have none of, and of an end
EPOCH = (1980, 1, 1, 0, 0, 0)
KNOWN = "rows outside the training range are flagged OUTSIDE, and readings far beyond it are clamped"
UNKNOWN = "the training range is unknown: no row is flagged OUTSIDE, and nothing is clamped"
VERSION = (1, 0)  # a reader refuses a newer major number and ignores a newer minor one
DEEPEST = 20  # tables and lists within each other, in facts
TRIED = 10**7  # operations of a plan that are tried when it is loaded: as many golden windows as that, and one
HOURS = "training.hours"  # an array
Arrays = dict[str, np.ndarray]
StepSeconds = Annotated[float, Ge(1e-3), Le(1e9)]
VARIABLE = "SCARE_LIMITS"  # in the environment, so that processes that are started have them too
# Names in files made before these were renamed.
FORMER_KEYS = {
    "validity": "training_range",
    "held_low": "clamp_low",
    "held_high": "clamp_high",
    "least": "lower_bound",
}


@dataclass(frozen=True)
class Limit:
    """The largest number of something, and its name in messages."""

    most: int
    of: str


LIMITS = {
    "file": Limit(128 << 20, "bytes of the file"),
    "manifest": Limit(2 << 20, "bytes of manifest.json"),
    "weights": Limit(64 << 20, "bytes of weights.safetensors, unpacked"),
    "windows": Limit(128 << 20, "bytes of windows.safetensors, unpacked"),
    "card": Limit(1 << 20, "bytes of card.md"),
    "window": Limit(1 << 16, "readings in a window"),
    "channels": Limit(256, "channels"),
    "devices": Limit(1 << 16, "devices that it knows"),
    "stored": Limit(4096, "windows that it stores"),
    "steps": Limit(1000, "steps of its plan"),
    "numbers": Limit(1 << 24, "weights that its steps read"),
    "memory": Limit(1 << 24, "numbers that one window becomes on its way through the plan"),
    "operations": Limit(10**8, "operations that one window takes"),
}


def most(name: str) -> int:
    """A limit as raised at present."""
    return LIMITS[name].most * int(os.environ.get(VARIABLE, 1))


def check(**asked: int) -> None:
    """Refuse what asks for more than is allowed.

    >>> check(channels=3, steps=1001)
    Traceback (most recent call last):
    ValueError: it asks for 1,001 steps of its plan, and the limit is 1,000; if you trust it: scare --limits 2 …
    """
    for name, number in asked.items():
        if number > most(name):
            times = -(-number // LIMITS[name].most)
            raise ValueError(
                f"it asks for {number:,} {LIMITS[name].of}, and the limit is {most(name):,}; if you trust it:"
                f" scare --limits {times if times < 1000 else 'N'} …"
            )


@contextmanager
def raised(times: int) -> Iterator[None]:
    """All limits times a whole number, in here and in processes that are started in here."""
    if times < 1:
        raise UsageError(f"--limits is {times}; give a whole number from 1 on")
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(times)
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


@dataclass(frozen=True)
class StepPart:
    """A kernel call; `weights` are names of arrays."""

    kernel: Name
    inputs: Annotated[tuple[Name, ...], MaxLen(8)]
    output: Name
    weights: Mapping[Name, Name]
    settings: Mapping[Name, Any]


@dataclass(frozen=True)
class PlanPart:
    """The plan without its numbers."""

    window: Count
    channels: Count
    steps: Annotated[tuple[StepPart, ...], MinLen(1)]


@dataclass(frozen=True)
class TargetScale:
    """The target's scaling; the channels' is in arrays."""

    center: Finite
    scale: Positive


@dataclass(frozen=True)
class ScalingPart:
    """The scaling without its arrays."""

    method: Name
    devices: tuple[Name, ...]
    settle: Annotated[int, Ge(0), Le(1 << 30)]
    target: TargetScale


@dataclass(frozen=True)
class InputsPart:
    """What feeds the plan."""

    channels: tuple[Channel, ...]
    scaling: ScalingPart
    step_seconds: StepSeconds
    policy: GapPolicy
    quality: QualitySettings
    training_range: TrainingRange | None = None  # a file without one: nothing is clamped, no row is outside


@dataclass(frozen=True)
class CandidateFacts:
    """A candidate of the model selection."""

    candidate: Name
    rmse: Finite
    admitted: bool
    improvement: Finite = 0.0
    z_score: Finite = 0.0


@dataclass(frozen=True)
class RowsFacts:
    """Whose rows they are, and from when to when."""

    devices: tuple[Name, ...] = ()
    period: tuple[Name, ...] = ()


@dataclass(frozen=True)
class IntervalFacts:
    """How often intervals covered the reference on test rows."""

    level: Finite
    rows: Whole
    share: Finite
    width: Finite


@dataclass(frozen=True)
class Facts(RowsFacts):
    """The facts that somebody reads; others are shown as they are."""

    model: Name = ""
    preset: Name = ""
    summary: Annotated[str, MaxLen(1000)] = ""
    selection: tuple[CandidateFacts, ...] = ()
    network_share: Finite = 0.0
    settings: Mapping[str, Any] | None = None
    validation: RowsFacts = RowsFacts()
    test_interval: IntervalFacts | None = None


@dataclass(frozen=True)
class Header:
    """What is read first, whatever the version: the version, and the checksums of the other members."""

    version: tuple[Whole, Whole]
    sha256: Mapping[str, str]


@dataclass(frozen=True)
class Manifest:
    """What manifest.json says of a calibrator."""

    plan: PlanPart
    inputs: InputsPart
    target: Channel
    facts: Mapping[str, Any]
    floor: float | None = None
    intervals: Intervals | None = None


def describe(calibrator: "Calibrator") -> tuple[dict[str, Any], Arrays, str]:
    """Manifest, arrays and card of a calibrator."""
    arrays: Arrays = {}
    for name in ("golden", "validation"):
        sample = getattr(calibrator, name)
        arrays[f"{name}.windows"], arrays[f"{name}.numbers"] = sample.windows, sample.numbers
    if calibrator.training_hours is not None:
        arrays[HOURS] = calibrator.training_hours
    facts = {
        "version": list(VERSION),
        "made_with": f"scare {scare.__version__}",
        "plan": _describe_plan(calibrator.plan, arrays),
        "inputs": _describe_inputs(calibrator.inputs, arrays),
        "target": _describe_channel(calibrator.target),
        "facts": dict(calibrator.facts),
        **({} if calibrator.floor is None else {"floor": calibrator.floor}),
        **_describe_intervals(calibrator.intervals),
    }
    return facts, arrays, card(calibrator)


def restore(found: Manifest, arrays: Arrays) -> dict[str, Any]:
    """The parts of a calibrator by name; samples as pairs of arrays."""
    plan = _restore_plan(found.plan, arrays)
    golden = _restore_sample("golden", arrays, plan)
    _check_runs(plan, golden[0])
    return {
        "plan": plan,
        "inputs": _restore_inputs(found.inputs, arrays, plan),
        "target": found.target,
        "facts": dict(found.facts),
        "floor": found.floor,
        "intervals": found.intervals,
        "golden": golden,
        "validation": _restore_sample("validation", arrays, plan),
        "training_hours": _restore_hours(arrays, plan),
    }


def with_current_keys(table: Any) -> Any:
    """A parsed JSON table that may hold a training range, with today's keys.

    >>> with_current_keys({"validity": {"held_low": [0.0], "slope": 1.0}, "floor": 0.0})
    {'training_range': {'clamp_low': [0.0], 'slope': 1.0}, 'floor': 0.0}
    """
    if not isinstance(table, dict):
        return table
    parts = {name: with_current_keys(part) if name == "validity" else part for name, part in table.items()}
    return {FORMER_KEYS.get(name, name): part for name, part in parts.items()}


def read_schema(facts: Any) -> Manifest:
    """What a manifest says, of the right types and within the limits; a newer minor version may say more."""
    if isinstance(facts, dict) and "inputs" in facts:
        facts = {**facts, "inputs": with_current_keys(facts["inputs"])}
    found = convert(facts, Manifest, "its manifest", unknown="ignore")
    found = replace(found, facts=current_facts(found.facts))
    _check_facts(found.facts)
    convert(found.facts, Facts, "its facts", unknown="ignore")
    plan, scaling = found.plan, found.inputs.scaling
    check(window=plan.window, channels=plan.channels, steps=len(plan.steps), devices=len(scaling.devices))
    _refuse_twice("channel", [channel.name for channel in found.inputs.channels])
    _refuse_twice("device", scaling.devices)
    return found


def _refuse_twice(what: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise ValueError(f"a {what} is there twice")


def _check_facts(facts: Mapping[str, Any]) -> None:
    """Refuse facts that are nested deep or hold control characters, which could act on a terminal."""
    depth, level = 0, list[Any]([facts])
    while level := [part for one in level for part in _parts(one)]:
        depth += 1
        if depth > DEEPEST:
            raise ValueError(f"its facts are nested more than {DEEPEST} deep")
        if not all(is_printable(" ".join(one.split())) for one in level if isinstance(one, str)):
            raise ValueError("its facts hold control characters")


def _parts(value: Any) -> list[Any]:
    """What a table or a list holds, names included."""
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    return list(value) if isinstance(value, list | tuple) else []


def card(calibrator: "Calibrator") -> str:
    """The model card: what the calibrator is, for a person, in Markdown."""
    inputs = calibrator.inputs
    names = ", ".join(_title(channel) for channel in inputs.channels)
    lines = [f"# Calibrator for {_title(calibrator.target)}", "", f"- inputs: {names}"]
    lines += [f"- window: {inputs.window} readings, one every {inputs.step_seconds:g} s"]
    lines += [f"- gap policy: {inputs.policy.name}; scaling: {inputs.scaling.method}"]
    if inputs.scaling.settle:
        settling = f"for its first {inputs.scaling.settle} readings"
        lines += [f"- a device that was not in training is scaled with the fleet's mean and spread {settling}"]
    lines += [f"- {KNOWN if inputs.training_range else UNKNOWN}"]
    if calibrator.floor is not None:
        lines += [f"- no value is below {calibrator.floor:g} {calibrator.target.unit}".rstrip()]
    lines += [
        f"- {line}" for line in describe_intervals(calibrator.intervals, calibrator.facts, calibrator.target.unit)
    ]
    facts = {
        name: value for name, value in calibrator.facts.items() if name not in (*SELECTION_FACTS, COVERAGE_FACT, STATE)
    }
    lines += [f"- {name.replace('_', ' ')}: {_readable(value)}" for name, value in facts.items()]
    return "\n".join([*lines, *_selection(calibrator)]) + "\n"


def _selection(calibrator: "Calibrator") -> list[str]:
    """The model selection; nothing for a file that does not tell."""
    others = [channel.name for channel in calibrator.inputs.channels[1:]]
    if not (candidates := selection_table(calibrator.facts, others)):
        return []
    table = [f"| {' | '.join(cells)} |" for cells in (HEAD, ["---"] * len(HEAD), *candidates)]
    return ["", "## Model selection", "", selection_summary(calibrator.facts), "", *table]


def _readable(value: Any) -> str:
    """A fact as a person would write it."""
    if isinstance(value, dict):
        mark = "; " if any(isinstance(part, dict) for part in value.values()) else ", "
        return mark.join(f"{name.replace('_', ' ')} {_readable(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_readable, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _title(channel: Channel) -> str:
    return f"{channel.name} [{channel.unit}]" if channel.unit else channel.name


def _describe_intervals(intervals: Intervals | None) -> dict[str, Any]:
    """Those made when it was fitted: others are derived again."""
    return {"intervals": asdict(intervals)} if intervals and not intervals.kept_windows else {}


def _describe_channel(channel: Channel) -> dict[str, Any]:
    """A channel without its infinite limits: JSON has no infinity."""
    return {name: value for name, value in asdict(channel).items() if value not in (inf, -inf, "")}


def _describe_inputs(inputs: Inputs, arrays: Arrays) -> dict[str, Any]:
    return {
        "channels": [_describe_channel(channel) for channel in inputs.channels],
        "scaling": _describe_scaling(inputs.scaling, arrays),
        "step_seconds": inputs.step_seconds,
        "policy": asdict(inputs.policy),
        "quality": asdict(inputs.quality),
        **({} if inputs.training_range is None else {"training_range": asdict(inputs.training_range)}),
    }


def _restore_inputs(found: InputsPart, arrays: Arrays, plan: Plan) -> Inputs:
    if len(found.channels) != plan.channels:
        raise ValueError(f"{len(found.channels)} channels are named but the plan reads {plan.channels}")
    if found.training_range is not None and len(found.training_range.low) != plan.channels:
        raise ValueError("the training range does not fit the channels")
    scaling = _restore_scaling(found.scaling, arrays, plan.channels)
    return Inputs(
        found.channels, scaling, found.step_seconds, plan.window, found.policy, found.quality, found.training_range
    )


def _describe_plan(plan: Plan, arrays: Arrays) -> dict[str, Any]:
    steps = []
    for index, step in enumerate(plan.steps):
        names = {name: f"plan.{index}.{name}" for name in step.weights}
        arrays.update({names[name]: weight for name, weight in step.weights.items()})
        steps.append(
            {
                "kernel": step.kernel,
                "inputs": list(step.inputs),
                "output": step.output,
                "weights": names,
                "settings": dict(step.settings),
            }
        )
    return {"window": plan.window, "channels": plan.channels, "steps": steps}


def _restore_plan(found: PlanPart, arrays: Arrays) -> Plan:
    """The plan, its shapes checked, and what it asks for."""
    steps = tuple(_restore_step(one, arrays) for one in found.steps)
    check(numbers=sum(weight.size for step in steps for weight in step.weights.values()))
    for step in steps:
        _check_weights(step)
    plan = Plan(found.window, found.channels, steps)
    check(memory=plan.numbers, operations=sum(astuple(all_operations(plan))))
    return plan


def _restore_step(found: StepPart, arrays: Arrays) -> Step:
    if found.kernel not in FLOAT_KERNELS:
        raise ValueError(f"no kernel called '{found.kernel}'")
    takes, given = FLOAT_KERNELS[found.kernel].takes, found.settings
    if unlike := sorted(takes.keys() ^ given.keys()):
        raise ValueError(f"settings of {found.kernel} that are missing, or that it does not have: {', '.join(unlike)}")
    settings = {name: convert(value, takes[name], f"{name} of {found.kernel}") for name, value in given.items()}
    weights = {name: arrays[key] for name, key in found.weights.items()}
    return Step(found.kernel, found.inputs, found.output, weights, settings)


def _check_weights(step: Step) -> None:
    for name, weight in step.weights.items():
        kinds = "iu" if name in FLOAT_KERNELS[step.kernel].integer_weights else "f"
        if weight.dtype.kind not in kinds or (kinds == "f" and weight.dtype.itemsize < 4):
            raise ValueError(f"weight '{name}' of {step.kernel} is of type {weight.dtype}")
        if not np.isfinite(weight).all():
            raise ValueError(f"weight '{name}' of {step.kernel} is not finite")


def _describe_scaling(scaling: Scaling, arrays: Arrays) -> dict[str, Any]:
    devices = list(scaling.devices)
    affines = [scaling.fleet, *scaling.devices.values()]
    arrays["scaling.center"] = np.stack([affine.center for affine in affines])
    arrays["scaling.scale"] = np.stack([affine.scale for affine in affines])
    target = {"center": float(scaling.target.center[0]), "scale": float(scaling.target.scale[0])}
    return {"method": scaling.method, "devices": devices, "settle": scaling.settle, "target": target}


def _restore_scaling(found: ScalingPart, arrays: Arrays, channels: int) -> Scaling:
    if found.method not in METHODS:
        raise ValueError(f"no scaling called '{found.method}'")
    center, scale = arrays["scaling.center"], arrays["scaling.scale"]
    if center.shape != scale.shape or center.shape != (len(found.devices) + 1, channels):
        raise ValueError("the scaling does not fit the channels and devices")
    target = Affine(np.array([found.target.center]), np.array([found.target.scale]))
    for affine in (Affine(center, scale), target):
        if not (np.isfinite(affine.center).all() and np.isfinite(affine.scale).all() and (affine.scale > 0).all()):
            raise ValueError("the scaling is not finite and positive")
    affines = [Affine(*pair) for pair in zip(center, scale, strict=True)]
    devices = dict(zip(found.devices, affines[1:], strict=True))
    return Scaling(found.method, affines[0], target, devices, found.settle)


def _restore_sample(name: str, arrays: Arrays, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    windows, numbers = arrays[f"{name}.windows"], arrays[f"{name}.numbers"]
    if windows.shape != (*numbers.shape, plan.window, plan.channels) or numbers.ndim != 1:
        raise ValueError(f"the {name} windows do not fit the plan")
    check(stored=len(numbers))
    for array in (windows, numbers):
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ValueError(f"the {name} windows are not all finite numbers")
    return windows, numbers


def _restore_hours(arrays: Arrays, plan: Plan) -> np.ndarray | None:
    """The hours of training, None for a file without them."""
    found = arrays.get(HOURS)
    if found is not None and not (found.ndim == 2 and found.shape[1] == plan.channels and np.isfinite(found).all()):
        raise ValueError("the hours of training do not fit the channels")
    return found


def _check_runs(plan: Plan, windows: np.ndarray) -> None:
    """Refuse a plan whose steps fit by shape and still cannot run."""
    tried = windows[: 1 + TRIED // max(1, sum(astuple(all_operations(plan))))]
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        outputs = run(plan, tried)
    if outputs.dtype.kind != "f" or not np.isfinite(outputs).all():
        raise ValueError("the plan does not give a number for every golden window")


def write(path: Path, facts: dict[str, Any], arrays: Arrays, card: str) -> Path:
    """Write a bundle; the file appears whole or not at all."""
    samples = {name: array for name, array in arrays.items() if _is_sample(name)}
    weights = {name: array for name, array in arrays.items() if not _is_sample(name)}
    members = {WEIGHTS: _encode(weights), WINDOWS: _encode(samples), CARD: card.encode()}
    facts = {**facts, "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}}
    try:
        members = {MANIFEST: json.dumps(facts, indent=1, allow_nan=False).encode(), **members}
    except (TypeError, ValueError) as error:
        raise UsageError(f"cannot write {path}: its facts do not fit into JSON: {error}") from error
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content, zipfile.ZIP_DEFLATED)
    return path


def read(path: Path) -> tuple[Manifest, Arrays]:
    """Manifest and arrays of a bundle; raises what `refusing` turns into a message."""
    _check_file(path)
    with zipfile.ZipFile(path) as archive:
        infos = _check_members(archive)
        facts = json.loads(_read_member(archive, infos[MANIFEST]), parse_constant=_refuse_constant)
        header = convert(facts, Header, "its manifest", unknown="ignore")
        _check_version(*header.version)
        found = read_schema(facts)
        members = {name: _read_member(archive, infos[name]) for name in (CARD, WEIGHTS, WINDOWS)}
    for name, content in members.items():
        if hashlib.sha256(content).hexdigest() != header.sha256[name]:
            raise ValueError(f"{name} was changed after it was written")
    return found, {**decode(members[WEIGHTS]), **decode(members[WINDOWS])}


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turn whatever a bad file causes into one error message."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: not a .scare file, or cut short; get or save it again") from error
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise DataError(f"{path}: its manifest is incomplete or malformed ({_line(error)})") from error
    except (ValueError, ArithmeticError, RuntimeError, EOFError, MemoryError, SafetensorError, UsageError) as error:
        raise DataError(f"{path}: refused: {_line(error)}") from error


def _line(error: BaseException) -> str:
    """An error's message on one short line: it may quote the file."""
    return " ".join(str(error).split())[:300]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def _is_sample(name: str) -> bool:
    return name.startswith(("golden.", "validation."))


def _encode(arrays: Arrays) -> bytes:
    return encode({name: np.ascontiguousarray(arrays[name]) for name in sorted(arrays)})


def _check_file(path: Path) -> None:
    """A regular file that ends as a small zip does: nothing to wait for, and no long list of members to read."""
    state = path.stat()
    if not stat.S_ISREG(state.st_mode):
        raise OSError(0, "it is no regular file")
    check(file=state.st_size)
    with path.open("rb") as file:
        file.seek(max(0, state.st_size - END))
        end = file.read()
    if end[-22:-18] != b"PK\5\6" or end[:4] == b"PK\6\7" or int.from_bytes(end[-10:-6], "little") > DIRECTORY:
        raise zipfile.BadZipFile("no end, or not one of ours")


def _check_version(major: int, minor: int) -> None:
    if major > VERSION[0]:
        raise ValueError(
            f"its format is version {major}.{minor} and this scare reads up to {VERSION[0]}.x; upgrade scare to open it"
        )


def _check_members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Exactly the four members, none declared larger than its limit."""
    infos = archive.infolist()
    if sorted(info.filename for info in infos) != sorted(MEMBERS):
        raise ValueError(f"it holds {', '.join(info.filename for info in infos)[:200]} instead of {', '.join(MEMBERS)}")
    check(**{MEMBERS[info.filename]: info.file_size for info in infos})
    return {info.filename: info for info in infos}


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """One member, read no further than its limit: the size a zip declares may be a lie."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise zipfile.BadZipFile("a compression no bundle has")
    with archive.open(info) as member:
        content = member.read(most(MEMBERS[info.filename]) + 1)
    check(**{MEMBERS[info.filename]: len(content)})
    return content
