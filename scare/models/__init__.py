"""The model contract, SCARE, and how a model is selected. The paper's rivals are in `baselines`."""

from scare.models.contract import Architecture, Network
from scare.models.scare import ABLATION, Scare

__all__ = ["ABLATION", "Architecture", "Network", "Scare"]
