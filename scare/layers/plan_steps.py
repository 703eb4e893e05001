"""Plan steps of trained layers: dense, add and hash codes as kernel calls."""

from typing import Any

import numpy as np
from jax import Array

from scare.calibrator.plan import Step


def dense(source: str, output: str, weight: Array | np.ndarray, bias: Array | np.ndarray | None = None) -> Step:
    """source · weight + bias."""
    weights = {"weight": np.asarray(weight)} | ({} if bias is None else {"bias": np.asarray(bias)})
    return Step("dense", (source,), output, weights)


def add(first: str, second: str, output: str) -> Step:
    """first + second."""
    return Step("add", (first, second), output)


def hash_codes(source: str, output: str, hashing: dict[str, Any]) -> Step:
    """Packed codes of the rows of source; `hashing` gives supports, bandwidth, projection, bias, epsilon and raw.

    Centring by the mean kernel value is folded into the projection by the caller, where it is exact.
    """
    sharpness = 1 / float(hashing["bandwidth"])
    weights = {"projection": np.asarray(hashing["projection"])}
    if hashing.get("raw"):
        weights["supports"] = np.asarray(hashing["supports"])
        return Step("raw_hash_codes", (source,), output, weights, {"sharpness": sharpness})
    weights["supports"] = np.asarray(hashing["supports"] / hashing["bandwidth"])
    if hashing.get("bias") is not None:
        weights["bias"] = np.asarray(hashing["bias"])
    return Step("hash_codes", (source,), output, weights, {"sharpness": sharpness, "epsilon": hashing["epsilon"]})
