"""The manifest says in JSON what a calibrator is; its numbers are named arrays beside it.

`describe` and `restore` are inverse to each other; `bundle` writes and reads what they exchange. The records here are
the manifest's schema: types and ranges of all that it may hold, but for a kernel's settings, whose types are in the
kernel. What a file asks for in all is held against `limits` before it is laid out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from math import inf
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Ge, Le, MaxLen, MinLen

import scare
from scare.calibrator.cost import all_operations
from scare.calibrator.interval_words import FACT, interval_words
from scare.calibrator.intervals import Intervals
from scare.calibrator.ladder_table import FACTS, HEAD, ladder_table
from scare.calibrator.learned import STATE
from scare.calibrator.limits import check
from scare.calibrator.plan import Plan, Step, run
from scare.data.flags import QualitySettings
from scare.data.readings import Channel
from scare.kernels import FLOAT_KERNELS
from scare.records import Count, Finite, Name, Positive, Whole, can_be_printed, convert
from scare.windowing.feeding import Inputs
from scare.windowing.scaling import METHODS, Affine, Scaling
from scare.windowing.slicing import GapPolicy
from scare.windowing.validity import Validity

if TYPE_CHECKING:
    from scare.calibrator.calibrator import Calibrator

KNOWN = "rows unlike training are flagged OUTSIDE, and readings far beyond it are held"
UNKNOWN = "what training had is not known: no row is flagged OUTSIDE, and nothing is held"
VERSION = (1, 0)  # a reader refuses a newer major number and ignores a newer minor one
DEEPEST = 20  # tables and lists within each other, in facts
TRIED = 10**7  # operations of a plan that are tried when it is loaded: as many golden windows as that, and one
HOURS = "training.hours"  # an array
Arrays = dict[str, np.ndarray]
StepSeconds = Annotated[float, Ge(1e-3), Le(1e9)]


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
    validity: Validity | None = None  # of a file without: nothing is held, no row is outside


@dataclass(frozen=True)
class RungFacts:
    """A rung of the ladder that training climbed."""

    rung: Name
    rmse: Finite
    admitted: bool
    fall: Finite = 0.0
    sureness: Finite = 0.0


@dataclass(frozen=True)
class RowsFacts:
    """Whose rows they are, and from when to when."""

    devices: tuple[Name, ...] = ()
    period: tuple[Name, ...] = ()


@dataclass(frozen=True)
class IntervalFacts:
    """How often intervals held the truth on rows never seen."""

    level: Finite
    rows: Whole
    share: Finite
    width: Finite


@dataclass(frozen=True)
class Facts(RowsFacts):
    """The facts that somebody reads; others are shown as they are."""

    model: Name = ""
    preset: Name = ""
    verdict: Annotated[str, MaxLen(1000)] = ""
    ladder: tuple[RungFacts, ...] = ()
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


def read_schema(facts: Any) -> Manifest:
    """What a manifest says, of the right types and within the limits; a newer minor version may say more."""
    found = convert(facts, Manifest, "its manifest", unknown="ignore")
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
    """Not nested deep, and nothing in them that would do something to a terminal."""
    depth, level = 0, list[Any]([facts])
    while level := [part for one in level for part in _parts(one)]:
        depth += 1
        if depth > DEEPEST:
            raise ValueError(f"its facts are nested more than {DEEPEST} deep")
        if not all(can_be_printed(" ".join(one.split())) for one in level if isinstance(one, str)):
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
    lines += [f"- {KNOWN if inputs.validity else UNKNOWN}"]
    if calibrator.floor is not None:
        lines += [f"- no value is below {calibrator.floor:g} {calibrator.target.unit}".rstrip()]
    lines += [f"- {line}" for line in interval_words(calibrator.intervals, calibrator.facts, calibrator.target.unit)]
    facts = {name: value for name, value in calibrator.facts.items() if name not in (*FACTS, FACT, STATE)}
    lines += [f"- {name.replace('_', ' ')}: {_readable(value)}" for name, value in facts.items()]
    return "\n".join([*lines, *_verdict(calibrator.facts)]) + "\n"


def _verdict(facts: Mapping[str, Any]) -> list[str]:
    """What it turned out to be, and every rung of its ladder; nothing of a file that does not tell."""
    if not (rungs := ladder_table(facts)):
        return []
    table = [f"| {' | '.join(cells)} |" for cells in (HEAD, ["---"] * len(HEAD), *rungs)]
    return ["", "## What it turned out to be", "", f"{facts['verdict']}.", "", *table]


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
        **({} if inputs.validity is None else {"validity": asdict(inputs.validity)}),
    }


def _restore_inputs(found: InputsPart, arrays: Arrays, plan: Plan) -> Inputs:
    if len(found.channels) != plan.channels:
        raise ValueError(f"{len(found.channels)} channels are named but the plan reads {plan.channels}")
    if found.validity is not None and len(found.validity.low) != plan.channels:
        raise ValueError("the edges of validity do not fit the channels")
    scaling = _restore_scaling(found.scaling, arrays, plan.channels)
    return Inputs(found.channels, scaling, found.step_seconds, plan.window, found.policy, found.quality, found.validity)


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
        kinds = "iu" if name in FLOAT_KERNELS[step.kernel].whole else "f"
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
    """What the hours of training were, None of a file that does not tell."""
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
