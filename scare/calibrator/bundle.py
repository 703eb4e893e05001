"""A bundle is the `.scare` file: a zip of manifest.json, weights.safetensors, windows.safetensors and card.md.

    manifest.json          the calibrator without its arrays, and SHA-256 checksums of the other members
    weights.safetensors    arrays of the plan, the scaling and a few rows of training
    windows.safetensors    golden windows with their outputs, validation windows with their references
    card.md                for people (`model_card`)

Nothing in it is code, and the same calibrator always gives the same bytes. A file may come from a stranger: member
names, sizes, the manifest's schema (the dataclasses below) and checksums are checked before anything is decoded, and
what it may ask for is limited (`scare.limits`).
"""

import hashlib
import json
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, field, replace
from datetime import datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Ge, Le, MaxLen, MinLen, Predicate
from safetensors import SafetensorError
from safetensors.numpy import load as decode
from safetensors.numpy import save as encode

import scare
from scare.calibrator.cost import all_operations
from scare.calibrator.intervals import Intervals
from scare.calibrator.model_card import current_facts, model_card
from scare.calibrator.plan import Plan, Step, run
from scare.data.flags import QualitySettings
from scare.data.readings import Channel
from scare.errors import DataError, UsageError
from scare.files import replacing
from scare.kernels import FLOAT_KERNELS
from scare.limits import check_limits, current_limit
from scare.schema import Count, Finite, Name, Positive, Whole, convert, is_printable
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import METHODS, Affine, DeviceEffect, Scaling
from scare.windowing.training_range import TrainingRange
from scare.windowing.windows import GapPolicy

if TYPE_CHECKING:
    from scare.calibrator.calibrator import Calibrator

MANIFEST, WEIGHTS, WINDOWS, CARD = "manifest.json", "weights.safetensors", "windows.safetensors", "card.md"
# Files in the zip, each with the key in LIMITS of its size.
MEMBERS = {MANIFEST: "manifest", WEIGHTS: "weights", WINDOWS: "windows", CARD: "card"}
VERSION = (1, 0)  # a reader rejects a newer major number and ignores a newer minor one
EPOCH = (1980, 1, 1, 0, 0, 0)  # the time stamp of every member, so that equal content gives equal bytes
ZIP64_LOCATOR_BYTES, ZIP_END_BYTES = 20, 22  # the last two records of a zip; only a large one has the first
MAX_DIRECTORY_BYTES = 4096  # largest list of a zip's members: our four need a tenth of it
MAX_FACT_DEPTH = 20  # levels of nested tables and lists
TRIAL_OPERATIONS = 10**7  # spent on golden windows when a plan is loaded; at least one window is computed
SAMPLES = ("golden", "validation")  # fields of a calibrator that are a `Sample`; their arrays are in WINDOWS
KNOWN_ROWS = "training.rows"  # name of an array in WEIGHTS
# Names in files made before these were renamed.
FORMER_KEYS = {
    "validity": "training_range",
    "held_low": "clamp_low",
    "held_high": "clamp_high",
    "least": "lower_bound",
}
Arrays = dict[str, np.ndarray]
StepSeconds = Annotated[float, Ge(1e-3), Le(1e9)]


@dataclass(frozen=True)
class StepSchema:
    """A kernel call; `weights` has for each weight the name of its array."""

    kernel: Name
    inputs: Annotated[tuple[Name, ...], MaxLen(8)]
    output: Name
    weights: Mapping[Name, Name]
    settings: Mapping[Name, Any]


@dataclass(frozen=True)
class PlanSchema:
    """A plan without its arrays."""

    window: Count
    channels: Count
    steps: Annotated[tuple[StepSchema, ...], MinLen(1)]


@dataclass(frozen=True)
class TargetScaleSchema:
    """The target's scaling; the scaling of the channels is in arrays."""

    center: Finite
    scale: Positive


EffectSchema = tuple[Finite, Finite]  # offset and slope of a `DeviceEffect`


@dataclass(frozen=True)
class ScalingSchema:
    """A scaling without its arrays."""

    method: Name
    devices: tuple[Name, ...]
    settle: Annotated[int, Ge(0), Le(1 << 30)]
    target: TargetScaleSchema
    effects: Mapping[Name, EffectSchema] = field(default_factory=dict)
    own_share: tuple[Annotated[float, Ge(0), Le(1)], ...] | None = None


@dataclass(frozen=True)
class InputsSchema:
    """`Inputs` without the window, which the plan has."""

    channels: tuple[Channel, ...]
    scaling: ScalingSchema
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
    variant: Name = ""
    share: Finite = 0.0


@dataclass(frozen=True)
class CombinationFacts:
    """A combination of model families, its error on validation and its cost on a board.

    `over` are the limits of the budget that it exceeds, in words; `used` is whether it was shipped.
    """

    parts: tuple[Name, ...]
    rmse: Finite
    cost: Mapping[Name, Whole]
    over: tuple[Name, ...]
    used: bool


@dataclass(frozen=True)
class RowsFacts:
    """The devices and the period of some rows."""

    devices: tuple[Name, ...] = ()
    period: tuple[Name, ...] = ()


def is_moment(text: str) -> bool:
    """Whether a text is a time in ISO 8601 with its time zone."""
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


Moment = Annotated[str, MaxLen(40), Predicate(is_moment), "in ISO 8601"]


@dataclass(frozen=True)
class RefitFacts:
    """The rows that a calibrator was fitted to after its evaluation."""

    devices: tuple[Name, ...]
    period: tuple[Moment, Moment]


@dataclass(frozen=True)
class CoverageFacts:
    """How often intervals covered the reference on some test rows."""

    rows: Whole
    share: Finite


@dataclass(frozen=True)
class IntervalFacts(CoverageFacts):
    """How often intervals covered the reference on test rows: all, those without a flag and those with one."""

    level: Finite
    width: Finite
    not_flagged: CoverageFacts | None = None
    flagged: CoverageFacts | None = None


@dataclass(frozen=True)
class Facts(RowsFacts):
    """The facts that our code reads; any others are only shown."""

    model: Name = ""
    preset: Name = ""
    summary: Annotated[str, MaxLen(1000)] = ""
    selection: tuple[CandidateFacts, ...] = ()
    network_share: Finite = 0.0
    combinations: tuple[CombinationFacts, ...] = ()
    why_smaller: Annotated[str, MaxLen(1000)] = ""
    settings: Mapping[str, Any] | None = None
    validation: RowsFacts = RowsFacts()
    test_interval: IntervalFacts | None = None
    test_period: tuple[Moment, Moment] | None = None
    refitted: RefitFacts | None = None
    new_device_rmse: Finite | None = None


@dataclass(frozen=True)
class Header:
    """The part of manifest.json that every version has: its version, and the checksums of the other members."""

    version: tuple[Whole, Whole]
    sha256: Mapping[str, str]


@dataclass(frozen=True)
class Manifest:
    """The part of manifest.json that describes the calibrator."""

    plan: PlanSchema
    inputs: InputsSchema
    target: Channel
    facts: Mapping[str, Any]
    floor: float | None = None
    intervals: Intervals | None = None


def save(calibrator: "Calibrator", path: Path) -> Path:
    """Write a bundle; the file appears whole or not at all."""
    weights, windows = dict[str, np.ndarray](), dict[str, np.ndarray]()
    for name in SAMPLES:
        sample = getattr(calibrator, name)
        windows |= {f"{name}.windows": sample.windows, f"{name}.numbers": sample.numbers}
    if calibrator.known_rows is not None:
        weights[KNOWN_ROWS] = calibrator.known_rows
    manifest: dict[str, Any] = {
        "version": list(VERSION),
        "made_with": f"scare {scare.__version__}",
        "plan": _describe_plan(calibrator.plan, weights),
        "inputs": _describe_inputs(calibrator.inputs, weights),
        "target": _describe_channel(calibrator.target),
        "facts": dict(calibrator.facts),
    }
    if calibrator.floor is not None:
        manifest["floor"] = calibrator.floor
    # Intervals that were derived from kept windows are derived again when the file is loaded.
    if calibrator.intervals and not calibrator.intervals.kept_windows:
        manifest["intervals"] = asdict(calibrator.intervals)
    members = {WEIGHTS: _encode(weights), WINDOWS: _encode(windows), CARD: model_card(calibrator).encode()}
    manifest["sha256"] = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    try:
        members = {MANIFEST: json.dumps(manifest, indent=1, allow_nan=False).encode(), **members}
    except (TypeError, ValueError) as error:
        raise UsageError(f"cannot write {path}: its facts do not fit into JSON: {error}") from error
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content, zipfile.ZIP_DEFLATED)
    return path


def _describe_plan(plan: Plan, arrays: Arrays) -> dict[str, Any]:
    """Describe a plan as `PlanSchema` reads it, and add its weights to `arrays`."""
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


def _describe_inputs(inputs: Inputs, arrays: Arrays) -> dict[str, Any]:
    """Describe inputs as `InputsSchema` reads them, and add the scaling of fleet and devices to `arrays`."""
    scaling = inputs.scaling
    affines = [scaling.fleet, *scaling.devices.values()]
    arrays["scaling.center"] = np.stack([affine.center for affine in affines])
    arrays["scaling.scale"] = np.stack([affine.scale for affine in affines])
    target = {"center": float(scaling.target.center[0]), "scale": float(scaling.target.scale[0])}
    optional: dict[str, Any] = {}
    if scaling.own_share is not None:
        optional["own_share"] = scaling.own_share.tolist()
    if scaling.effects:
        optional["effects"] = {name: list(effect) for name, effect in scaling.effects.items()}
    return {
        "channels": [_describe_channel(channel) for channel in inputs.channels],
        "scaling": {
            "method": scaling.method,
            "devices": list(scaling.devices),
            "settle": scaling.settle,
            **optional,
            "target": target,
        },
        "step_seconds": inputs.step_seconds,
        "policy": asdict(inputs.policy),
        "quality": asdict(inputs.quality),
        **({} if inputs.training_range is None else {"training_range": asdict(inputs.training_range)}),
    }


def _describe_channel(channel: Channel) -> dict[str, Any]:
    """Describe a channel without its infinite limits: JSON has no infinity."""
    return {name: value for name, value in asdict(channel).items() if value not in (inf, -inf, "")}


def _encode(arrays: Arrays) -> bytes:
    """Encode arrays as safetensors, in the order of their names, so that equal arrays give equal bytes."""
    return encode({name: np.ascontiguousarray(arrays[name]) for name in sorted(arrays)})


def load(path: Path) -> dict[str, Any]:
    """Read the parts of a calibrator by name, samples as pairs of arrays.

    A bad file raises one of many exceptions, which `load_errors` turns into a message.
    """
    manifest, arrays = _read_members(path)
    plan = _restore_plan(manifest.plan, arrays)
    golden = _restore_sample("golden", arrays, plan)
    _try_out(plan, golden[0])
    rows = arrays.get(KNOWN_ROWS)
    if rows is not None and (rows.ndim != 2 or rows.shape[1] != 2 + plan.channels or not np.isfinite(rows).all()):
        raise ValueError("the rows of training do not fit the channels")
    return {
        "plan": plan,
        "inputs": _restore_inputs(manifest.inputs, arrays, plan),
        "target": manifest.target,
        "facts": dict(manifest.facts),
        "floor": manifest.floor,
        "intervals": manifest.intervals,
        "golden": golden,
        "validation": _restore_sample("validation", arrays, plan),
        "known_rows": rows,
    }


@contextmanager
def load_errors(path: Path) -> Iterator[None]:
    """Turn any exception that a bad file raises in this block into a DataError with the reason."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: not a .scare file, or cut short; get or save it again") from error
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise DataError(f"{path}: its manifest is incomplete or malformed ({_one_line(error)})") from error
    except (ValueError, ArithmeticError, RuntimeError, EOFError, MemoryError, SafetensorError, UsageError) as error:
        raise DataError(f"{path}: refused: {_one_line(error)}") from error


def _one_line(error: BaseException) -> str:
    """Shorten an error's message to one line: it may quote the file."""
    return " ".join(str(error).split())[:300]


def _read_members(path: Path) -> tuple[Manifest, Arrays]:
    """Read the manifest and all arrays; everything is checked before it is decoded."""
    _check_zip(path)
    with zipfile.ZipFile(path) as archive:
        infos = {info.filename: info for info in archive.infolist()}
        names = [info.filename for info in archive.infolist()]
        if sorted(names) != sorted(MEMBERS):
            raise ValueError(f"it holds {', '.join(names)[:200]} instead of {', '.join(MEMBERS)}")
        check_limits(**{MEMBERS[name]: info.file_size for name, info in infos.items()})
        table = json.loads(_read_member(archive, infos[MANIFEST]), parse_constant=_reject_constant)
        header = convert(table, Header, "its manifest", unknown="ignore")
        major, minor = header.version
        if major > VERSION[0]:
            readable = f"this scare reads up to {VERSION[0]}.x"
            raise ValueError(f"its format is version {major}.{minor} and {readable}; upgrade scare to open it")
        manifest = _check_manifest(table)
        members = {name: _read_member(archive, infos[name]) for name in (CARD, WEIGHTS, WINDOWS)}
    for name, content in members.items():
        if hashlib.sha256(content).hexdigest() != header.sha256[name]:
            raise ValueError(f"{name} was changed after it was written")
    return manifest, {**decode(members[WEIGHTS]), **decode(members[WINDOWS])}


def _check_zip(path: Path) -> None:
    """Reject a file that is not regular (a pipe may never end), or no zip with a short list of members.

    Reading a long list would be slow.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(0, "it is not a regular file")
    check_limits(file=status.st_size)
    with path.open("rb") as file:
        file.seek(max(0, status.st_size - ZIP64_LOCATOR_BYTES - ZIP_END_BYTES))
        end = file.read()
    # The end record begins with its signature and has the size of the list of members in its bytes 12 to 16.
    end_record, is_zip64 = end[-ZIP_END_BYTES:], end[:4] == b"PK\6\7"
    directory_bytes = int.from_bytes(end_record[12:16], "little")
    if end_record[:4] != b"PK\5\6" or is_zip64 or directory_bytes > MAX_DIRECTORY_BYTES:
        raise zipfile.BadZipFile("no end of a zip, or not of one that we write")


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Read a member no further than its limit: the size that a zip declares may be a lie."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise zipfile.BadZipFile("a compression that no bundle has")
    with archive.open(info) as member:
        content = member.read(current_limit(MEMBERS[info.filename]) + 1)
    check_limits(**{MEMBERS[info.filename]: len(content)})
    return content


def _reject_constant(name: str) -> None:
    """Reject NaN and Infinity, which Python's parser of JSON would accept."""
    raise ValueError(f"{name} is not a number of JSON")


def _check_manifest(table: Any) -> Manifest:
    """Check the types and limits of the manifest, a parsed JSON table; a newer minor version may have more keys."""
    if isinstance(table, dict) and "inputs" in table:
        table = {**table, "inputs": with_current_keys(table["inputs"])}
    manifest = convert(table, Manifest, "its manifest", unknown="ignore")
    manifest = replace(manifest, facts=current_facts(manifest.facts))
    _check_facts(manifest.facts)
    convert(manifest.facts, Facts, "its facts", unknown="ignore")
    plan, devices = manifest.plan, manifest.inputs.scaling.devices
    check_limits(window=plan.window, channels=plan.channels, steps=len(plan.steps), devices=len(devices))
    for what, names in (("channel", [channel.name for channel in manifest.inputs.channels]), ("device", devices)):
        if len(set(names)) < len(names):
            raise ValueError(f"a {what} is listed twice")
    return manifest


def with_current_keys(table: Any) -> Any:
    """Rename the keys of an older file in a parsed JSON table that may hold a training range.

    >>> with_current_keys({"validity": {"held_low": [0.0], "slope": 1.0}, "floor": 0.0})
    {'training_range': {'clamp_low': [0.0], 'slope': 1.0}, 'floor': 0.0}
    """
    if not isinstance(table, dict):
        return table
    # The training range of an older file is called "validity"; its own keys are renamed first.
    values = {name: with_current_keys(value) if name == "validity" else value for name, value in table.items()}
    return {FORMER_KEYS.get(name, name): value for name, value in values.items()}


def _check_facts(value: Any, depth: int = 0) -> None:
    """Reject facts that are nested too deep or hold control characters, which could act on a terminal."""
    if depth > MAX_FACT_DEPTH:
        raise ValueError(f"its facts are nested more than {MAX_FACT_DEPTH} deep")
    if isinstance(value, str) and not is_printable(" ".join(value.split())):
        raise ValueError("its facts hold control characters")
    parts = [*value.keys(), *value.values()] if isinstance(value, Mapping) else value
    for part in parts if isinstance(parts, list | tuple) else ():
        _check_facts(part, depth + 1)


def _restore_plan(schema: PlanSchema, arrays: Arrays) -> Plan:
    """Make the plan that a manifest describes; raises ValueError if a kernel, setting or weight cannot be right."""
    steps = []
    for call in schema.steps:
        if call.kernel not in FLOAT_KERNELS:
            raise ValueError(f"no kernel called '{call.kernel}'")
        types = FLOAT_KERNELS[call.kernel].takes
        if wrong_names := sorted(types.keys() ^ call.settings.keys()):  # in one of them only
            raise ValueError(
                f"settings of {call.kernel} that are missing, or that it does not have: {', '.join(wrong_names)}"
            )
        settings = {
            name: convert(value, types[name], f"{name} of {call.kernel}") for name, value in call.settings.items()
        }
        weights = {name: arrays[key] for name, key in call.weights.items()}
        steps.append(Step(call.kernel, call.inputs, call.output, weights, settings))
    # Many steps may read one array, so weights are counted before any is looked at.
    check_limits(numbers=sum(weight.size for step in steps for weight in step.weights.values()))
    for step in steps:
        for name, weight in step.weights.items():
            kinds = "iu" if name in FLOAT_KERNELS[step.kernel].integer_weights else "f"
            if weight.dtype.kind not in kinds or (kinds == "f" and weight.dtype.itemsize < 4):
                raise ValueError(f"weight '{name}' of {step.kernel} is of type {weight.dtype}")
            if not np.isfinite(weight).all():
                raise ValueError(f"weight '{name}' of {step.kernel} is not finite")
    plan = Plan(schema.window, schema.channels, tuple(steps))
    check_limits(memory=plan.numbers, operations=sum(astuple(all_operations(plan))))
    return plan


def _restore_inputs(schema: InputsSchema, arrays: Arrays, plan: Plan) -> Inputs:
    """Make the inputs that a manifest describes; raises ValueError if they do not fit the plan."""
    if len(schema.channels) != plan.channels:
        raise ValueError(f"{len(schema.channels)} channels are named but the plan reads {plan.channels}")
    if schema.training_range is not None and len(schema.training_range.low) != plan.channels:
        raise ValueError("the training range does not fit the channels")
    scaling = schema.scaling
    center, scale = arrays["scaling.center"], arrays["scaling.scale"]
    if scaling.method not in METHODS:
        raise ValueError(f"no scaling called '{scaling.method}'")
    if center.shape != scale.shape or center.shape != (len(scaling.devices) + 1, plan.channels):
        raise ValueError("the scaling does not fit the channels and devices")
    target = Affine(np.array([scaling.target.center]), np.array([scaling.target.scale]))
    for affine in (Affine(center, scale), target):
        if not (np.isfinite(affine.center).all() and np.isfinite(affine.scale).all() and (affine.scale > 0).all()):
            raise ValueError("the scaling is not finite and positive")
    fleet, *of_devices = (Affine(*pair) for pair in zip(center, scale, strict=True))
    devices = dict(zip(scaling.devices, of_devices, strict=True))
    effects = {name: DeviceEffect(*effect) for name, effect in scaling.effects.items()}
    if scaling.own_share is not None and len(scaling.own_share) != plan.channels:
        raise ValueError("the shares of own centres do not fit the channels")
    share = None if scaling.own_share is None else np.array(scaling.own_share)
    # Older files gave a new device its own mean and spread, which is wrong if the air differs where it stands.
    settle = 0 if share is None else scaling.settle
    return Inputs(
        schema.channels,
        Scaling(scaling.method, fleet, target, devices, settle, effects, share),
        schema.step_seconds,
        plan.window,
        schema.policy,
        schema.quality,
        schema.training_range,
    )


def _restore_sample(name: str, arrays: Arrays, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Return the scaled windows [n, window, channels] of a sample, and the value of each in the target's unit [n].

    The value is the plan's output for a golden window, the reference for one of validation. Raises ValueError if they
    do not fit the plan.
    """
    windows, numbers = arrays[f"{name}.windows"], arrays[f"{name}.numbers"]
    if windows.shape != (*numbers.shape, plan.window, plan.channels) or numbers.ndim != 1:
        raise ValueError(f"the {name} windows do not fit the plan")
    check_limits(stored=len(numbers))
    for array in (windows, numbers):
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ValueError(f"the {name} windows are not all finite numbers")
    return windows, numbers


def _try_out(plan: Plan, windows: np.ndarray) -> None:
    """Reject a plan whose steps have matching shapes but cannot run, by running it."""
    operations_per_window = max(1, sum(astuple(all_operations(plan))))
    count = 1 + TRIAL_OPERATIONS // operations_per_window
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        outputs = run(plan, windows[:count])
    if outputs.dtype.kind != "f" or not np.isfinite(outputs).all():
        raise ValueError("the plan does not give a number for every golden window")
