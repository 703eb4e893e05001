"""One file per model, one contract. A new one is listed here, in `MODELS`."""

from scare.models.contract import Architecture, Network
from scare.models.dlinear import DLinear
from scare.models.ecoformer import EcoFormer
from scare.models.mamba import Mamba
from scare.models.nlinear import NLinear
from scare.models.patchtst import PatchTST
from scare.models.scare import ABLATION, Scare
from scare.models.sendal import Sendal
from scare.models.tesla import Tesla

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

__all__ = [
    "ABLATION",
    "MODELS",
    "Architecture",
    "DLinear",
    "EcoFormer",
    "Mamba",
    "NLinear",
    "Network",
    "PatchTST",
    "Scare",
    "Sendal",
    "Tesla",
]
