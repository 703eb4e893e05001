"""How a trained model grows with its window, from the architecture that its file tells. Needs the models' room."""

from collections.abc import Mapping

from scare.baselines import MODELS
from scare.calibrator.calibrator import Calibrator
from scare.errors import UsageError
from scare.models import Architecture
from scare.records import convert
from scare.scorecard.cost import OperationGrowth


def operation_growth(calibrator: Calibrator) -> OperationGrowth | None:
    """The growth of a calibrator's model; None if its file does not tell a model that we know.

    The operations of a mean of several networks are theirs together, which changes no exponent.
    """
    model, channels = model_of(calibrator), calibrator.plan.channels
    return (
        None if model is None else OperationGrowth(model.complexity, lambda window: model.operations(window, channels))
    )


def model_of(calibrator: Calibrator) -> Architecture | None:
    """The model that a calibrator's file tells, as it was before training; None if we do not know it."""
    kind, architecture = MODELS.get(calibrator.facts.get("model", "")), calibrator.facts.get("architecture")
    if kind is None or not isinstance(architecture, Mapping):
        return None
    try:
        return convert(architecture, kind, "architecture", unknown="ignore")
    except UsageError:  # of a version with other rules
        return None
