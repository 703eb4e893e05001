"""The model contract, SCARE, and the linear families.

The paper's rivals are in `baselines`, which also lists every model by name (`MODELS`).
"""

from scare.models.contract import Architecture, Network
from scare.models.scare import ABLATION, Scare

__all__ = ["ABLATION", "Architecture", "Network", "Scare"]
