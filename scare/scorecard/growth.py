"""How a trained model grows with its window, from the architecture that its file tells. Needs the models' room."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

from scare.calibrator.calibrator import Calibrator
from scare.errors import UsageError
from scare.models import MODELS, Architecture
from scare.scorecard.efficiency import Growth


def growth_of(calibrator: Calibrator) -> Growth | None:
    """The growth of a calibrator's model; None if its file does not tell a model that we know.

    The operations of a mean of several networks are theirs together, which changes no exponent.
    """
    model, channels = model_of(calibrator), calibrator.plan.channels
    return None if model is None else Growth(model.complexity, lambda window: model.operations(window, channels))


def model_of(calibrator: Calibrator) -> Architecture | None:
    """The model that a calibrator's file tells, as it was before training; None if we do not know it."""
    kind, architecture = MODELS.get(calibrator.facts.get("model", "")), calibrator.facts.get("architecture")
    if kind is None or not isinstance(architecture, Mapping):
        return None
    try:
        return _rebuild(kind, architecture)
    except UsageError:  # of a version with other rules
        return None


def _rebuild(kind: Any, facts: Mapping[str, Any]) -> Any:
    """A record of records from plain values; what the file does not tell is as usual."""
    hints = get_type_hints(kind)
    known = {field.name: facts[field.name] for field in fields(kind) if field.name in facts}
    return kind(**{name: _convert(hints[name], value) for name, value in known.items()})


def _convert(kind: Any, value: Any) -> Any:
    if is_dataclass(kind):
        return _rebuild(kind, value)
    return kind(value) if isinstance(kind, type) else value
