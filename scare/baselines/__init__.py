"""Baselines: the seven rivals of the paper, one file each, and the classical methods. `MODELS` lists every model."""

from scare.baselines.dlinear import DLinear
from scare.baselines.ecoformer import EcoFormer
from scare.baselines.mamba import Mamba
from scare.baselines.nlinear import NLinear
from scare.baselines.patchtst import PatchTST
from scare.baselines.sendal import Sendal
from scare.baselines.tesla import Tesla
from scare.models import Architecture, Scare

MODELS: dict[str, type[Architecture]] = {
    "scare": Scare,
    "dlinear": DLinear,
    "nlinear": NLinear,
    "tesla": Tesla,
    "ecoformer": EcoFormer,
    "mamba": Mamba,
    "patchtst": PatchTST,
    "sendal": Sendal,
}

__all__ = ["MODELS", "DLinear", "EcoFormer", "Mamba", "NLinear", "PatchTST", "Sendal", "Tesla"]
