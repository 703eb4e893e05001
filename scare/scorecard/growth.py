"""How a trained model's operations grow with its window, from the architecture in its file.

Apart from `cost` because it imports the models, which need the extra [train].
"""

from collections.abc import Mapping

from scare.baselines import MODELS
from scare.calibrator.calibrator import Calibrator
from scare.errors import UsageError
from scare.models import Architecture
from scare.records import convert
from scare.scorecard.cost import OperationGrowth


def operation_growth(calibrator: Calibrator) -> OperationGrowth | None:
    """The operation growth of a calibrator's model; None if its file does not name a known model.

    An ensemble has the operations of all its members together, which does not change the exponent.
    """
    model, channels = model_of(calibrator), calibrator.plan.channels
    return (
        None if model is None else OperationGrowth(model.complexity, lambda window: model.operations(window, channels))
    )


def model_of(calibrator: Calibrator) -> Architecture | None:
    """The untrained model that a calibrator's file describes; None if it is not known."""
    kind, architecture = MODELS.get(calibrator.facts.get("model", "")), calibrator.facts.get("architecture")
    if kind is None or not isinstance(architecture, Mapping):
        return None
    try:
        return convert(architecture, kind, "architecture", unknown="ignore")
    except UsageError:  # written by a version with other settings
        return None
