"""One file per model, one contract."""

from scare.models.model import Model, Network
from scare.models.scare import ABLATION, Scare

MODELS: dict[str, type[Model]] = {"scare": Scare}

__all__ = ["ABLATION", "MODELS", "Model", "Network", "Scare"]
